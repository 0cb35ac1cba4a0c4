/* Logits whose rows end at no multiple of 16 bytes, as those of 50,257 words, are laid into longer rows: tensor cores
 * read products at full rate only where rows begin at such multiples. With w [V, k], a parameter:
 *
 *     y = MatMul(h, Transpose(w))            =>   wz = Pad(w) [R, k], once after an update
 *     dy, loss = CrossEntropyTrain(d, y)          y [.., R] = BatchMatMul<transB>(h, wz)
 *     dh = Gemm<transB>(dy, Transpose(w))         dy, loss = CrossEntropyTrain<classes = V>(d, y)
 *     dw = Transpose(Gemm<transA>(h, dy))         dh = Gemm(dy, wz)    dw = Slice(Gemm<transA>(dy, h), V)
 *
 * Columns behind the V classes do not count in the loss, and their gradient is 0. If w is [k, V], there are no
 * Transposes. */
#include "graph/passes/fusion/fuse.h"
#include "ops/kernel/layout.h"
#include "ops/movement/transpose.h"

#include <stdlib.h>
#include <string.h>

extern const struct zt_op zt_op_cross_entropy_train, zt_op_matmul, zt_op_gemm, zt_op_gemm_float;

enum { FEW = 1024 }; /* classes below which products are small */
enum { READERS = 4 };

struct place {
    int loss, product;      /* nodes */
    int weight, transposed; /* value: [V, k] where it is transposed, else [k, V]; as read, if so, -1 */
    int64_t classes, room;
    int reader[READERS], readers; /* nodes that read dy, or a view of it */
};

/* ---- finding ---- */

static bool is_product(const struct zt_node *n) {
    return (n->op == &zt_op_gemm || n->op == &zt_op_gemm_float) && (n->in_count < 3 || n->in[2] < 0) &&
           (n->out_count < 2 || n->out[1] < 0);
}

/* Whether the node exchanges the axes of a matrix. */
static bool exchanges_axes(const struct zt_graph *g, int node) {
    int perm[ZT_MAX_RANK];
    struct zt_err ignored = { 0 };
    return strcmp(g->nodes[node]->op_type, "Transpose") == 0 && zt_in(g, node, 0)->shape.rank == 2 &&
           zt_transpose_perm(g, node, 2, perm, &ignored) && perm[0] == 1;
}

static bool find_product(const struct zt_graph *g, struct place *p) {
    const int y = g->nodes[p->loss]->in[1], from = g->values[y]->producer;
    if (from < 0 || g->nodes[from]->op != &zt_op_matmul || g->nodes[from]->stage != g->nodes[p->loss]->stage ||
        !zt_fuse_read_only_by(g, y, &p->loss, 1) || zt_in(g, from, 0)->shape.rank < 2 ||
        zt_in(g, from, 1)->shape.rank != 2 || !zt_value_from_params(g, g->nodes[from]->in[1]))
        return false;
    const int transpose = zt_fuse_producer(g, from, 1, "Transpose", false);
    p->product = from;
    p->transposed = transpose >= 0 && exchanges_axes(g, transpose) ? g->nodes[from]->in[1] : -1;
    p->weight = p->transposed >= 0 ? g->nodes[transpose]->in[0] : g->nodes[from]->in[1];
    return true;
}

/* dh of dy: Gemm<transB>(dy, w as the product reads it). */
static bool is_back(const struct zt_graph *g, const struct place *p, int node, int dy) {
    const struct zt_node *n = g->nodes[node];
    return n->in[0] == dy && n->in[1] == g->nodes[p->product]->in[1] && !zt_attr_int(n, "transA", 0) &&
           zt_attr_int(n, "transB", 0);
}

/* The gradient of w as the product reads it: Gemm<transA>(h, dy). */
static bool is_weights(const struct zt_node *n, int dy) {
    return n->in[1] == dy && n->in[0] != dy && zt_attr_int(n, "transA", 0) && !zt_attr_int(n, "transB", 0);
}

/* All that read dy, or the view of it that alone does. */
static bool find_readers(const struct zt_graph *g, struct place *p, int dy) {
    for (int n = 0; n < g->node_count; n++) {
        bool reads = false;
        for (int i = 0; !g->nodes[n]->dead && i < g->nodes[n]->in_count; i++)
            reads |= g->nodes[n]->in[i] == dy;
        if (!reads)
            continue;
        if (p->readers == READERS || !is_product(g->nodes[n]) ||
            (!is_back(g, p, n, dy) && !is_weights(g->nodes[n], dy)))
            return false;
        p->reader[p->readers++] = n;
    }
    return p->readers > 0 && !zt_graph_is_output(g, dy);
}

/* The gradient of the logits as products read it: a matrix. */
static int matrix_of(const struct zt_graph *g, int dy) {
    int reader;
    const bool viewed = zt_graph_users(g, dy, &reader) == 1 && zt_op_is_view(g->nodes[reader]) &&
                        !zt_graph_is_output(g, dy) && zt_out(g, reader, 0)->shape.rank == 2;
    return viewed ? g->nodes[reader]->out[0] : dy;
}

static bool find(const struct zt_graph *g, int node, struct place *p) {
    const struct zt_value *x = zt_in(g, node, 1);
    const int rank = x->shape.rank;
    int axis;
    *p = (struct place){ .loss = node, .classes = rank > 0 ? x->shape.dim[rank - 1] : 0 };
    p->room = zt_layout_row(p->classes, x->dtype);
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), rank, &axis, &(struct zt_err){ 0 }) ||
        axis != rank - 1 || p->classes < FEW || p->room == p->classes || !zt_dtype_is_half(x->dtype) ||
        zt_node_attr(g->nodes[node], "classes") || !find_product(g, p))
        return false;
    const int dy = matrix_of(g, g->nodes[node]->out[0]);
    const struct zt_shape *s = &g->values[dy]->shape;
    return s->rank == 2 && s->dim[1] == p->classes && find_readers(g, p, dy);
}

/* ---- rewriting ---- */

struct rewrite {
    struct zt_graph *g;
    const struct zt_op_table *table;
    const struct place *p;
    struct zt_err *err;
};

/* A node like `like` with this operator, these inputs and one output, `out` or a new one (-1). */
static int add(const struct rewrite *r, const struct zt_node *like, struct zt_node_spec spec, int out) {
    out = out < 0 ? zt_graph_add_value(r->g, NULL, ZT_UNDEFINED, NULL) : out;
    spec.name = like->name;
    spec.opset = spec.domain[0] ? 1 : ZT_OPSET;
    spec.out = &out;
    spec.out_count = 1;
    const int node = zt_fuse_add(r->g, like, &spec);
    r->g->values[out]->producer = node;
    return node;
}

static int settled(const struct rewrite *r, int node) {
    return zt_fuse_settle(r->g, r->table, node, r->err) ? r->g->nodes[node]->out[0] : -1;
}

/* w with zeros behind its classes, where the product stands. */
static int pad(const struct rewrite *r) {
    const struct place *p = r->p;
    const int64_t more = p->room - p->classes,
                  pads[4] = { 0, 0, p->transposed >= 0 ? more : 0, p->transposed >= 0 ? 0 : more };
    const int in[2] = { p->weight, zt_graph_add_ints(r->g, NULL, pads, 4) };
    return settled(r, add(r, r->g->nodes[p->product],
                          (struct zt_node_spec){ .op_type = "Pad", .domain = "", .in = in, .in_count = 2 }, -1));
}

/* A product like `from` of a and b. */
static int multiply(const struct rewrite *r, const struct zt_node *from, const int in[2], bool trans_a, bool trans_b,
                    int out) {
    const struct zt_node bare = zt_fuse_attrs_without(r->g, from, "transA"),
                         like = zt_fuse_attrs_without(r->g, &bare, "transB");
    const int node =
        add(r, from, (struct zt_node_spec){ .op_type = from->op_type, .domain = from->domain, .in = in, .in_count = 2 },
            out);
    r->g->nodes[node]->attr = like.attr;
    r->g->nodes[node]->attr_count = like.attr_count;
    zt_node_set_int(r->g, node, "transA", trans_a);
    zt_node_set_int(r->g, node, "transB", trans_b);
    return settled(r, node);
}

/* The gradient of w: of all rows or columns, then those of classes. */
static bool weights(const struct rewrite *r, int node, int dy) {
    struct zt_graph *g = r->g;
    const struct zt_node n = *g->nodes[node];
    const bool transposed = r->p->transposed >= 0;
    int reader, out = n.out[0];
    g->nodes[node]->dead = true;
    if (transposed && zt_graph_users(g, n.out[0], &reader) == 1 && !zt_graph_is_output(g, n.out[0]) &&
        exchanges_axes(g, reader)) {
        out = g->nodes[reader]->out[0];
        g->nodes[reader]->dead = true;
    }
    const bool straight = !transposed || out == n.out[0]; /* [k, V] is wanted */
    const int pair[2] = { straight ? n.in[0] : dy, straight ? dy : n.in[0] };
    const int64_t from[] = { 0 }, to[] = { r->p->classes }, axis[] = { straight };
    const int in[4] = { multiply(r, &n, pair, true, false, -1), zt_graph_add_ints(g, NULL, from, 1),
                        zt_graph_add_ints(g, NULL, to, 1), zt_graph_add_ints(g, NULL, axis, 1) };
    return in[0] >= 0 &&
           settled(r, add(r, &n, (struct zt_node_spec){ .op_type = "Slice", .domain = "", .in = in, .in_count = 4 },
                          out)) >= 0;
}

static bool back(const struct rewrite *r, int node, int dy, int weight) {
    const struct zt_node n = *r->g->nodes[node];
    r->g->nodes[node]->dead = true;
    return multiply(r, &n, (int[]){ dy, weight }, false, r->p->transposed < 0, n.out[0]) >= 0;
}

/* The loss of the logits y; returns its gradient of them as a matrix, -1: failed. */
static int lose(const struct rewrite *r, int y) {
    struct zt_graph *g = r->g;
    const struct zt_node n = *g->nodes[r->p->loss];
    int *in = zt_arena_copy(g->arena, n.in, (size_t)n.in_count * sizeof *in);
    const int out[2] = { zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL), n.out[1] };
    in[1] = y;
    struct zt_node like = zt_fuse_attrs_without(g, &n, "classes");
    like.attr[like.attr_count++] = (struct zt_attr){ .name = "classes", .type = ZT_ATTR_INT, .i = r->p->classes };
    if (!zt_fuse_replace(g, r->table, r->p->loss, &(struct zt_fused_node){ n.op_type, in, n.in_count, out, 2, &like },
                         r->err))
        return -1;
    const struct zt_shape rows = { .rank = 2,
                                   .dim = { zt_shape_count(&g->values[y]->shape) / r->p->room, r->p->room } };
    return zt_fuse_reshape(g, r->table, r->p->reader[0], out[0], &rows, r->err);
}

static bool rewrite(const struct rewrite *r, int dy) {
    struct zt_graph *g = r->g;
    const struct zt_node product = *g->nodes[r->p->product], loss = *g->nodes[r->p->loss];
    const int weight = pad(r), in[2] = { product.in[0], weight };
    const int node =
        weight >= 0
            ? add(r, &product,
                  (struct zt_node_spec){ .op_type = "BatchMatMul", .domain = "ztrain", .in = in, .in_count = 2 }, -1)
            : -1;
    if (node < 0)
        return false;
    zt_node_set_int(g, node, "transB", r->p->transposed >= 0);
    const int y = settled(r, node), d = y >= 0 ? lose(r, y) : -1;
    bool ok = d >= 0;
    for (int i = 0; ok && i < r->p->readers; i++)
        ok = is_back(g, r->p, r->p->reader[i], dy) ? back(r, r->p->reader[i], d, weight)
                                                   : weights(r, r->p->reader[i], d);
    g->nodes[r->p->product]->dead = true;
    zt_fuse_drop(g, product.in[1]);
    if (dy != loss.out[0])
        zt_fuse_drop(g, dy);
    return ok;
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct place p;
    if (g->nodes[node]->op != &zt_op_cross_entropy_train || !find(g, node, &p))
        return false;
    const struct rewrite r = { g, table, &p, err };
    return rewrite(&r, matrix_of(g, g->nodes[node]->out[0]));
}

const struct zt_pattern zt_pattern_padded_classes = { "padded_classes", 1 << ZT_CUDA, apply };
