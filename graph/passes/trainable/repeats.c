#include "graph/passes/trainable/repeats.h"

#include "graph/ir/op.h"
#include "graph/passes/trainable/constants.h"

#include <stdlib.h>
#include <string.h>

/* Positions of vectors along one axis of a tensor: vector p, element k at (p / inner * dim + k) * inner + p % inner. */
struct vectors {
    int axis;
    int64_t dim, inner, count;
    const char *all;      /* the vectors, one behind the other */
    const int64_t *index; /* number of each among the different ones */
    int64_t different;
};

static struct vectors along(const struct zt_shape *shape, int axis) {
    struct vectors s = { .axis = axis, .dim = shape->dim[axis], .inner = 1 };
    for (int k = axis + 1; k < shape->rank; k++)
        s.inner *= shape->dim[k];
    s.count = zt_shape_count(shape) / s.dim;
    return s;
}

static int64_t element(const struct vectors *s, int64_t vector, int64_t k) {
    return (vector / s->inner * s->dim + k) * s->inner + vector % s->inner;
}

struct keyed {
    const char *at;
    size_t bytes;
    int64_t position;
};

static int by_contents(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    const int order = memcmp(x->at, y->at, x->bytes);
    return order ? order : x->position < y->position ? -1 : x->position > y->position;
}

/* The vectors, one behind the other. Free with free(). */
static char *gathered(const struct zt_value *v, const struct vectors *s) {
    const size_t bytes = zt_dtype_bytes(v->dtype);
    char *to = zt_malloc((size_t)(s->count * s->dim) * bytes + 1);
    for (int64_t p = 0; p < s->count; p++)
        for (int64_t k = 0; k < s->dim; k++)
            memcpy(to + (size_t)(p * s->dim + k) * bytes, (const char *)v->data + (size_t)element(s, p, k) * bytes,
                   bytes);
    return to;
}

/* Numbers the different vectors from 0 in the order in which they first stand; index[p] is the number of vector p.
 * Returns how many. */
static int64_t number_vectors(const char *all, const struct vectors *s, size_t bytes, int64_t *index) {
    struct keyed *keys = zt_malloc((size_t)s->count * sizeof *keys + 1);
    int64_t *first = zt_malloc((size_t)s->count * sizeof *first + 1), count = 0;
    for (int64_t p = 0; p < s->count; p++)
        keys[p] = (struct keyed){ all + (size_t)p * bytes, bytes, p };
    qsort(keys, (size_t)s->count, sizeof *keys, by_contents);
    for (int64_t i = 0; i < s->count; i++) /* sorted by position within equal ones */
        first[keys[i].position] =
            i > 0 && memcmp(keys[i - 1].at, keys[i].at, bytes) == 0 ? first[keys[i - 1].position] : keys[i].position;
    for (int64_t p = 0; p < s->count; p++)
        index[p] = first[p] == p ? count++ : index[first[p]];
    free(first);
    free(keys);
    return count;
}

static void keep(struct zt_arena *arena, const struct zt_value *v, const struct vectors *s, struct zt_derived *d) {
    const size_t bytes = (size_t)s->dim * zt_dtype_bytes(v->dtype);
    char *made = zt_arena_alloc(arena, (size_t)s->different * bytes + 1);
    for (int64_t p = 0; p < s->count; p++)
        memcpy(made + (size_t)s->index[p] * bytes, s->all + (size_t)p * bytes, bytes);
    d->repeated = (struct zt_derived_repeated){ zt_arena_copy(arena, s->index, (size_t)s->count * sizeof *s->index),
                                                s->different, s->axis };
    d->made = made;
    d->lost = true;
}

enum zt_repeats zt_derived_repeats(struct zt_arena *arena, const struct zt_value *v, struct zt_derived *d) {
    const int64_t elements = zt_shape_count(&v->shape);
    int64_t fewest = elements, *index = NULL;
    if (!v->data || elements < 2)
        return ZT_REPEATS_NOTHING;
    if (zt_constant_is_uniform(v))
        return ZT_REPEATS_PERHAPS;
    index = zt_malloc((size_t)elements * sizeof *index);
    for (int axis = 0; axis < v->shape.rank; axis++) {
        struct vectors s = along(&v->shape, axis);
        if (s.dim < 2) /* single numbers may be equal by chance */
            continue;
        char *all = gathered(v, &s);
        s.all = all;
        s.index = index;
        s.different = number_vectors(all, &s, (size_t)s.dim * zt_dtype_bytes(v->dtype), index);
        if (s.different * s.dim < fewest) {
            fewest = s.different * s.dim;
            keep(arena, v, &s, d);
        }
        free(all);
    }
    free(index);
    return fewest < elements ? ZT_REPEATS_VECTORS : ZT_REPEATS_NOTHING;
}

void zt_derived_repeat(const struct zt_derived *d, const struct zt_value *v, enum zt_dtype dtype, const void *parameter,
                       void *to) {
    const struct vectors s = along(&v->shape, d->repeated.axis);
    for (int64_t p = 0; p < s.count; p++)
        for (int64_t k = 0; k < s.dim; k++)
            zt_store_double(dtype, to, element(&s, p, k),
                            zt_load_double(dtype, parameter, d->repeated.index[p] * s.dim + k));
}

/* Position and properties of added nodes. */
struct site {
    struct zt_graph *g;
    const struct zt_op_table *table;
    int64_t place;
    int rank; /* of what they make */
};

/* perm: of a Transpose, NULL: a Gather of two inputs. */
static int add_node(const struct site *at, const char *op_type, const int *in, const int64_t *perm,
                    struct zt_err *err) {
    struct zt_graph *g = at->g;
    const int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const char *name = zt_arena_printf(g->arena, "%s of %s", op_type, g->values[in[0]]->name);
    const int node =
        zt_graph_add_node(g, &(struct zt_node_spec){ name, op_type, "", ZT_OPSET, in, perm ? 1 : 2, &out, 1 });
    g->nodes[node]->place = at->place;
    if (perm)
        zt_node_set_ints(g, node, "perm", perm, at->rank);
    return zt_op_resolve(at->table, g, node, err) ? out : -1;
}

int zt_derived_add_repeats(struct zt_graph *g, const struct zt_op_table *table, const struct zt_derived *d, int from,
                           int64_t place, struct zt_err *err) {
    const struct zt_shape shape = g->values[zt_graph_find(g, d->name)]->shape;
    const struct site at = { g, table, place, shape.rank };
    const int axis = d->repeated.axis;
    struct zt_shape positions = { .rank = shape.rank - 1 };
    int64_t perm[ZT_MAX_RANK];
    for (int k = 0; k < shape.rank; k++) {
        if (k != axis)
            positions.dim[k - (k > axis)] = shape.dim[k];
        perm[k] = k == axis ? shape.rank - 1 : k - (k > axis);
    }
    const int in[2] = { from, zt_graph_add_constant(g, NULL, ZT_INT64, &positions, d->repeated.index) };
    const int rows = add_node(&at, "Gather", in, NULL, err); /* [positions..., dim] */
    return rows < 0 || axis == shape.rank - 1 ? rows : add_node(&at, "Transpose", &rows, perm, err);
}
