/* Initializers with the same contents, or one the transpose of the other. A sum of hashes of the elements does not
 * depend on their order, so tensors that may be equal meet in a sort by it, and only those are compared. */
#include "graph/passes/trainable/trainable.h"

#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/torch.h"

#include "base/map.h"
#include "base/vec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    int value;
    uint64_t hash;
};

static const unsigned char *element(const struct zt_value *v, int64_t i) {
    return (const unsigned char *)v->data + (size_t)i * zt_dtype_bytes(v->dtype);
}

static uint64_t unordered_hash(const struct zt_value *v, int64_t count) {
    uint64_t sum = zt_hash(ZT_HASH_START, &v->dtype, sizeof v->dtype);
    for (int64_t i = 0; i < count; i++)
        sum += zt_hash(ZT_HASH_START, element(v, i), zt_dtype_bytes(v->dtype));
    return sum;
}

static int by_hash(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->value - y->value;
}

/* Whether b is a with its axes exchanged: axis k of b is axis perm[k] of a. The first difference ends it. */
static bool is_permuted(const struct zt_value *a, const struct zt_value *b, const int64_t *perm) {
    const int rank = a->shape.rank;
    const size_t bytes = zt_dtype_bytes(a->dtype);
    int64_t step[ZT_TIE_RANK], at[ZT_TIE_RANK] = { 0 }, stride[ZT_TIE_RANK] = { 0 };
    if (rank != b->shape.rank || rank > ZT_TIE_RANK)
        return false;
    for (int k = rank - 1, all = 1; k >= 0; all *= (int)a->shape.dim[k--])
        step[k] = all;
    for (int k = 0; k < rank; k++) {
        if (b->shape.dim[k] != a->shape.dim[perm[k]])
            return false;
        stride[k] = step[perm[k]];
    }
    const int64_t count = zt_shape_count(&b->shape);
    for (int64_t i = 0, from = 0; i < count; i++) {
        if (memcmp(element(a, from), element(b, i), bytes) != 0)
            return false;
        for (int k = rank - 1; k >= 0; k--) {
            from += stride[k];
            if (++at[k] < b->shape.dim[k])
                break;
            from -= stride[k] * at[k];
            at[k] = 0;
        }
    }
    return true;
}

bool zt_trainable_find_perm(const struct zt_value *a, const struct zt_value *b, int64_t *perm) {
    const int rank = a->shape.rank;
    int total = 1;
    if (!a->data || !b->data || a->dtype != b->dtype || rank != b->shape.rank)
        return false;
    for (int k = 2; k <= rank; k++)
        total *= k;
    for (int number = 1; rank >= 2 && rank <= ZT_TIE_RANK && number < total; number++) {
        bool taken[ZT_TIE_RANK] = { false };
        for (int k = 0, left = number, part = total; k < rank; k++) { /* the permutation of this number */
            part /= rank - k;
            int want = left / part, axis = 0;
            left %= part;
            for (; taken[axis] || want--; axis++)
                ;
            taken[axis] = true;
            perm[k] = axis;
        }
        if (is_permuted(a, b, perm))
            return true;
    }
    return false;
}

static int without_ones(const struct zt_shape *shape, int64_t *dims) {
    int count = 0;
    for (int k = 0; k < shape->rank; k++)
        if (shape->dim[k] != 1)
            dims[count++] = shape->dim[k];
    return count;
}

bool zt_trainable_same(const struct zt_value *a, const struct zt_value *b, const int64_t *perm) {
    if (!perm)
        return zt_shape_equal(&a->shape, &b->shape) && zt_trainable_is_reshaped(a, b);
    return a->data && b->data && a->dtype == b->dtype && is_permuted(a, b, perm);
}

bool zt_trainable_is_reshaped(const struct zt_value *a, const struct zt_value *b) {
    int64_t x[ZT_MAX_RANK], y[ZT_MAX_RANK];
    const int count = without_ones(&a->shape, x);
    return a->data && b->data && a->dtype == b->dtype && count == without_ones(&b->shape, y) &&
           memcmp(x, y, (size_t)count * sizeof *x) == 0 &&
           memcmp(a->data, b->data, (size_t)zt_shape_count(&a->shape) * zt_dtype_bytes(a->dtype)) == 0;
}

/* Fills *pair where the two hold the same, in some order of axes or with other axes of one element. */
static bool match(const struct zt_graph *g, int a, int b, struct zt_trainable_pair *pair) {
    *pair = (struct zt_trainable_pair){ .a = a, .b = b };
    const struct zt_value *x = g->values[a], *y = g->values[b];
    if (!x->data || !y->data || x->dtype != y->dtype || zt_shape_count(&x->shape) != zt_shape_count(&y->shape))
        return false;
    pair->transposed = !zt_trainable_is_reshaped(x, y);
    return !pair->transposed || zt_trainable_find_perm(x, y, pair->perm);
}

int zt_trainable_pairs(const struct zt_graph *g, struct zt_trainable_pair **pairs) {
    ZT_VEC(struct candidate) found = { 0 };
    ZT_VEC(struct zt_trainable_pair) list = { 0 };
    for (int i = 0; i < g->value_count; i++) {
        const struct zt_value *v = g->values[i];
        int64_t count = zt_shape_count(&v->shape);
        if (v->trainable && v->data && v->shape.rank >= 2 && !zt_constant_is_uniform(v))
            zt_vec_push(&found, (struct candidate){ i, unordered_hash(v, count) });
    }
    if (found.count)
        qsort(found.at, (size_t)found.count, sizeof *found.at, by_hash);
    for (int i = 1; i < found.count; i++) {
        int a = found.at[i - 1].value, b = found.at[i].value;
        if (found.at[i - 1].hash != found.at[i].hash || g->values[a]->dtype != g->values[b]->dtype)
            continue;
        struct zt_trainable_pair pair;
        if (match(g, a, b, &pair))
            zt_vec_push(&list, pair);
    }
    const int count = list.count;
    *pairs = zt_vec_copy(g->arena, &list);
    zt_vec_finish(&found);
    zt_vec_finish(&list);
    return count;
}

/* ---- copies that are tied by default ---- */

/* Properties of a value besides its contents. */
struct role {
    bool embedding, weight; /* read by Gather, by a product */
    bool numbered;          /* TorchScript made it of some parameter */
    bool jax;               /* the file is jax2onnx's, */
    bool given;             /* which read the tensor as it is in the module */
    const char *of;         /* dynamo made it of this parameter */
    const char *product; /* a product that reads it: TorchScript names a node after its module, "/layers.0/fc/MatMul" */
};

/* The value behind a Transpose. */
static int behind_transpose(const struct zt_graph *g, int value) {
    const int from = value >= 0 ? g->values[value]->producer : -1;
    return from >= 0 && zt_node_is(g->nodes[from], "Transpose") ? g->nodes[from]->in[0] : value;
}

static void mark_readers(const struct zt_graph *g, struct role *roles) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        if (zt_node_is(node, "Gather") && node->in[0] >= 0)
            roles[node->in[0]].embedding = true;
        for (int i = 0; (zt_node_is(node, "MatMul") || zt_node_is(node, "Gemm")) && i < node->in_count && i < 2; i++)
            if (node->in[i] >= 0)
                roles[behind_transpose(g, node->in[i])].weight = true;
        for (int i = 0; zt_node_is(node, "MatMul") && i < node->in_count; i++)
            if (node->in[i] >= 0)
                roles[node->in[i]].product = node->name;
    }
}

static void mark_makers(const struct zt_onnx *model, const struct zt_graph *g, struct role *roles) {
    const bool jax = zt_writer_of(model) == ZT_WRITER_JAX;
    struct zt_map listed = { 0 };
    if (model->torch_signature)
        zt_torch_read_signature(g->arena, model->torch_signature, &listed);
    for (int v = 0; v < g->value_count; v++) {
        struct zt_torch_folding f;
        roles[v].numbered = zt_torch_is_made(model, g->values[v]);
        roles[v].jax = jax;
        roles[v].given = jax && zt_torch_is_numbered(g->values[v]->name, "const_");
        if (!model->torch_signature || !g->values[v]->torch_folded_from)
            continue;
        zt_torch_read_folding(g->arena, g->values[v], &listed, &f);
        roles[v].of = f.parameters == 1 && !f.operation_count && !f.buffer ? f.parameter : NULL;
    }
    zt_map_finish(&listed);
}

/* The next component of a path without the number of a repeated call ("/shared_1" is "shared"), its length in *length;
 * NULL: only the node's own name is left. */
static const char *next_module(const char **at, size_t *length) {
    const char *start = *at + (**at == '/'), *end = strchr(start, '/');
    if (!end)
        return NULL;
    const char *cut = end;
    while (cut > start && isdigit((unsigned char)cut[-1]))
        cut--;
    *at = end;
    *length = (size_t)((cut < end && cut - start > 1 && cut[-1] == '_' ? cut - 1 : end) - start);
    return start;
}

/* Whether two products are of different modules: what they read was equal by chance, as copies of a layer are before
 * they are trained. */
static bool are_apart(const struct role *a, const struct role *b) {
    const char *at_a = a->product, *at_b = b->product;
    if (!at_a || !at_b || *at_a != '/' || *at_b != '/')
        return false;
    for (;;) {
        size_t length_a = 0, length_b = 0;
        const char *next_a = next_module(&at_a, &length_a), *next_b = next_module(&at_b, &length_b);
        if (!next_a || !next_b)
            return next_a || next_b;
        if (length_a != length_b || strncmp(next_a, next_b, length_a) != 0)
            return true;
    }
}

/* jax2onnx reads a parameter that is used several times once, but writes what it makes of it each time: kernels in
 * another order of axes, the same in several shapes. */
static bool is_jax_copy(const struct zt_value *a, const struct role *of_a, const struct zt_value *b,
                        const struct role *of_b, bool apart) {
    const bool both_given = of_a->given && of_b->given && zt_shape_equal(&a->shape, &b->shape);
    return a->id < b->id && both_given == apart;
}

/* Whether a tensor that PyTorch's exporters made has no gradient, as the codes among which an ArgMin chooses: a copy of
 * what trains elsewhere, which the network sees change. */
static bool is_left_behind(const struct zt_value *v, const struct role *role) {
    return v->origin == ZT_FROM_INITIALIZER && !v->trainable && !v->may_train && (role->of || role->numbered) &&
           v->data && zt_dtype_in(v->dtype, ZT_ANY_FLOAT) && v->shape.rank >= 2 && v->shape.rank <= ZT_TIE_RANK;
}

/* Whether dynamo made both of one parameter, which the file need not hold. */
static bool are_of_one(const struct zt_value *a, const struct role *of_a, const struct zt_value *b,
                       const struct role *of_b) {
    return a->id < b->id && of_a->of && of_b->of && strcmp(of_a->of, of_b->of) == 0;
}

static bool may_be_copy(const struct zt_value *a, const struct role *of_a, const struct zt_value *b,
                        const struct role *of_b, bool apart) {
    if (is_left_behind(b, of_b))
        return !apart && (of_b->of ? strcmp(of_b->of, a->name) == 0 : !of_a->numbered);
    if (of_a->jax)
        return is_jax_copy(a, of_a, b, of_b, apart);
    if (apart)
        return of_a->numbered && of_b->numbered && a->id < b->id && are_apart(of_a, of_b);
    if ((of_b->of && strcmp(of_b->of, a->name) == 0) || are_of_one(a, of_a, b, of_b))
        return true;
    if (of_b->numbered)
        return !of_a->numbered || (a->id < b->id && !are_apart(of_a, of_b));
    return of_a->embedding && of_b->weight && a->shape.rank == 2 && b->shape.rank == 2;
}

static bool may_be_tied(const struct zt_value *v, const struct role *role) {
    return v->origin == ZT_FROM_INITIALIZER && v->trainable && v->data && v->shape.rank >= (role->jax ? 1 : 2) &&
           v->shape.rank <= ZT_TIE_RANK;
}

/* The value that b is a copy of, or (`apart`) equal to in another module; *pair says how. Copies of copies lead to the
 * first. */
static bool find_original(const struct zt_graph *g, const struct role *roles, const bool *copied, int b, bool apart,
                          struct zt_trainable_pair *pair) {
    for (int a = 0; a < g->value_count; a++) {
        const struct zt_value *v = g->values[a];
        if (a != b && !copied[a] && may_be_tied(v, &roles[a]) &&
            may_be_copy(v, &roles[a], g->values[b], &roles[b], apart) && match(g, a, b, pair) &&
            (!zt_constant_is_uniform(v) || are_of_one(v, &roles[a], g->values[b], &roles[b]))) {
            pair->apart = apart;
            return true;
        }
    }
    return false;
}

int zt_trainable_copies(const struct zt_onnx *model, const struct zt_graph *g, struct zt_trainable_pair **pairs) {
    struct role *roles = zt_calloc((size_t)g->value_count + 1, sizeof *roles);
    bool *copied = zt_calloc((size_t)g->value_count + 1, sizeof *copied);
    ZT_VEC(struct zt_trainable_pair) list = { 0 };
    mark_readers(g, roles);
    mark_makers(model, g, roles);
    for (int b = 0; b < g->value_count; b++) {
        struct zt_trainable_pair pair;
        const bool made = roles[b].of || roles[b].numbered || roles[b].weight || roles[b].jax;
        if (!(may_be_tied(g->values[b], &roles[b]) && made) && !is_left_behind(g->values[b], &roles[b]))
            continue;
        copied[b] = find_original(g, roles, copied, b, false, &pair);
        if (copied[b] || find_original(g, roles, copied, b, true, &pair))
            zt_vec_push(&list, pair);
    }
    const int count = list.count;
    *pairs = zt_vec_copy(g->arena, &list);
    zt_vec_finish(&list);
    free(roles);
    free(copied);
    return count;
}

int zt_trainable_shared(const struct zt_graph *g) {
    struct role *roles = zt_calloc((size_t)g->value_count + 1, sizeof *roles);
    int count = 0;
    mark_readers(g, roles);
    for (int v = 0; v < g->value_count; v++)
        count += g->values[v]->origin == ZT_FROM_INITIALIZER && g->values[v]->trainable && roles[v].embedding &&
                 roles[v].weight;
    free(roles);
    return count;
}
