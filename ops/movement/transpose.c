/* Transpose, DepthToSpace, SpaceToDepth: axes in another order. The depth ops are a transpose between two reshapes:
 *
 *     DepthToSpace DCR  [N, b, b, C, H, W] -> [N, C, H, b, W, b]       CRD  [N, C, b, b, H, W] -> [N, C, H, b, W, b]
 *     SpaceToDepth      the same backwards
 */

#include "ops/movement/transpose.h"

#include "graph/passes/low_rank/low_rank.h"
#include "ops/movement/kernels.h"
#include "ops/kernel/strided_copies.h"
#include "ops/kernel/shape.h"

#include <string.h>

bool zt_transpose_perm(const struct zt_graph *g, int node, int rank, int perm[ZT_MAX_RANK], struct zt_err *err) {
    int64_t axes[ZT_MAX_RANK];
    struct zt_axis_set distinct;
    int count;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ -1, "perm" }, &(struct zt_int_list){ axes, ZT_MAX_RANK, &count },
                     err) ||
        !zt_ops_axes(g, node, (struct zt_int_source){ -1, "perm" }, rank, &distinct, err))
        return false;
    if (count >= 0 && count != rank)
        return zt_node_fail(g, node, err, "attribute \"perm\" has %d axes, its input has %d", count, rank);
    for (int k = 0; k < rank; k++)
        perm[k] = count < 0 ? rank - 1 - k : (int)(axes[k] < 0 ? axes[k] + rank : axes[k]);
    return true;
}

static bool transpose_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = { .rank = x->shape.rank };
    int perm[ZT_MAX_RANK];
    if (!zt_transpose_perm(g, node, shape.rank, perm, err))
        return false;
    for (int k = 0; k < shape.rank; k++)
        shape.dim[k] = x->shape.dim[perm[k]];
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

/* y[index] = x[index permuted back]: row-major writes, strided reads. */
static void permute(const struct zt_shape *from, const int *perm, zt_strided_copy_take *take, void *arg) {
    struct zt_strided_copy move = { .shape = { .rank = from->rank } };
    int64_t stride[ZT_MAX_RANK];
    zt_shape_strides(from, stride);
    for (int k = 0; k < from->rank; k++) {
        move.shape.dim[k] = from->dim[perm[k]];
        move.from_step[k] = stride[perm[k]];
    }
    zt_shape_strides(&move.shape, move.to_step);
    take(arg, &move);
}

static bool transpose_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                            struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int perm[ZT_MAX_RANK];
    if (!zt_transpose_perm(g, node, x->rank, perm, err))
        return false;
    permute(x, perm, take, arg);
    return true;
}
ZT_MOVES_DESCRIBE(transpose, false)

static bool transpose_run(const struct zt_call *call, struct zt_err *err) {
    return zt_strided_copies_run(call, transpose_moves, err);
}

/* dx = dy transposed back */
static bool transpose_grad(struct zt_grad *b, int node, struct zt_err *err) {
    int perm[ZT_MAX_RANK], rank = zt_grad_in_shape(b, node, 0)->rank;
    int64_t back[ZT_MAX_RANK];
    if (!zt_transpose_perm(zt_grad_graph(b), node, rank, perm, err))
        return false;
    for (int k = 0; k < rank; k++)
        back[perm[k]] = k;
    zt_grad_give(b, node, 0, zt_emit_transpose(b, zt_grad_out(b, node, 0), back, rank));
    return true;
}

static const struct zt_attr_spec with_perm[] = { { "perm", ZT_ATTR_INTS }, { 0 } };

/* A matrix has one transpose; without perm the axes are reversed. */
static bool transposes_matrix(const struct zt_node *node) {
    int count;
    const int64_t *perm = zt_attr_ints(node, "perm", &count);
    return !perm || (count == 2 && perm[0] == 1 && perm[1] == 0);
}

static int axis_before_transpose(const struct zt_node *node, int rank, int axis) {
    int count;
    const int64_t *perm = zt_attr_ints(node, "perm", &count);
    if (!perm)
        return rank - 1 - axis;
    return count == rank && perm[axis] >= 0 && perm[axis] < rank ? (int)perm[axis] : -1;
}

static const struct zt_low_rank_row transpose_low_rank_row = { .transposes = transposes_matrix };

const struct zt_op zt_op_transpose = {
    .name = "Transpose",
    .domain = "",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_HALF | ZT_OP_LIGHT,
    .in_types = { ZT_ANY_STORED },
    .attrs = with_perm,
    .infer = transpose_infer,
    .grad = transpose_grad,
    .axis_before = axis_before_transpose,
    .low_rank = &transpose_low_rank_row,
    .kernel = { [ZT_REF] = { .run = transpose_run },
                [ZT_CPU] = { .run = transpose_run },
                [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, transpose_describe) },
};

/* ---- depth and space ---- */

/* The six-axis form of x and the permutation to the six-axis form of y. */
struct blocks {
    struct zt_shape from;
    int perm[6];
};

static bool is_crd(const struct zt_node *node) {
    return strcmp(zt_attr_text(node, "mode", "DCR"), "CRD") == 0;
}

static struct blocks depth_to_space(const struct zt_node *node, const struct zt_shape *x) {
    int64_t b = zt_attr_int(node, "blocksize", 1), c = x->dim[1] / (b * b);
    if (is_crd(node))
        return (struct blocks){ { 6, { x->dim[0], c, b, b, x->dim[2], x->dim[3] } }, { 0, 1, 4, 2, 5, 3 } };
    return (struct blocks){ { 6, { x->dim[0], b, b, c, x->dim[2], x->dim[3] } }, { 0, 3, 4, 1, 5, 2 } };
}

static struct blocks space_to_depth(const struct zt_node *node, const struct zt_shape *x) {
    int64_t b = zt_attr_int(node, "blocksize", 1);
    struct blocks s = { { 6, { x->dim[0], x->dim[1], x->dim[2] / b, b, x->dim[3] / b, b } }, { 0, 3, 5, 1, 2, 4 } };
    if (is_crd(node))
        memcpy(s.perm, (const int[]){ 0, 1, 3, 5, 2, 4 }, sizeof s.perm);
    return s;
}

/* x: [N, C, H, W], b: blocksize. DepthToSpace: y is [N, C / b^2, H b, W b]; SpaceToDepth: [N, C b^2, H / b, W / b]. */
static bool blocks_infer(struct zt_graph *g, int node, bool to_space, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    const char *mode = zt_attr_text(g->nodes[node], "mode", "DCR");
    int64_t b = zt_attr_int(g->nodes[node], "blocksize", 0);
    struct zt_shape s = x->shape;
    if (s.rank != 4 || b < 1 || b > 1 << 15)
        return zt_node_fail(g, node, err, "wants four axes and a positive blocksize, has %d and %lld", s.rank,
                            (long long)b);
    if (strcmp(mode, "DCR") != 0 && strcmp(mode, "CRD") != 0)
        return zt_node_fail(g, node, err, "attribute \"mode\" is \"%s\", wants DCR or CRD", mode);
    if (to_space ? s.dim[1] % (b * b) : s.dim[2] % b || s.dim[3] % b)
        return zt_node_fail(g, node, err, "blocksize %lld does not divide its input", (long long)b);
    int64_t a = to_space ? b : 1, d = to_space ? 1 : b;
    s.dim[1] = s.dim[1] / (a * a);
    if (!zt_ops_dim_product(g, node, s.dim[1], d * d, &s.dim[1], err) ||
        !zt_ops_dim_product(g, node, s.dim[2] / d, a, &s.dim[2], err) ||
        !zt_ops_dim_product(g, node, s.dim[3] / d, a, &s.dim[3], err))
        return false;
    zt_set_out(g, node, 0, x->dtype, &s);
    return true;
}

static bool depth_to_space_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return blocks_infer(g, node, true, err);
}

static bool space_to_depth_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return blocks_infer(g, node, false, err);
}

static bool depth_to_space_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                                 struct zt_err *err) {
    (void)err;
    const struct blocks s = depth_to_space(g->nodes[node], &zt_in(g, node, 0)->shape);
    permute(&s.from, s.perm, take, arg);
    return true;
}
ZT_MOVES_DESCRIBE(depth_to_space, false)

static bool space_to_depth_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                                 struct zt_err *err) {
    (void)err;
    const struct blocks s = space_to_depth(g->nodes[node], &zt_in(g, node, 0)->shape);
    permute(&s.from, s.perm, take, arg);
    return true;
}
ZT_MOVES_DESCRIBE(space_to_depth, false)

static bool depth_to_space_run(const struct zt_call *call, struct zt_err *err) {
    return zt_strided_copies_run(call, depth_to_space_moves, err);
}

static bool space_to_depth_run(const struct zt_call *call, struct zt_err *err) {
    return zt_strided_copies_run(call, space_to_depth_moves, err);
}

/* dx: dy in the six-axis form of y, transposed back, in the shape of x */
static bool blocks_grad(struct zt_grad *b, int node, struct blocks s) {
    struct zt_shape y = { .rank = 6 };
    int64_t back[6];
    for (int k = 0; k < 6; k++) {
        y.dim[k] = s.from.dim[s.perm[k]];
        back[s.perm[k]] = k;
    }
    int x = zt_grad_graph(b)->nodes[node]->in[0], dy = zt_grad_out(b, node, 0);
    struct zt_attr allow_zero = { .name = "allowzero", .type = ZT_ATTR_INT, .i = 1 };
    int in[2] = { dy, zt_emit_ints(b, y.dim, 6) }, six;
    zt_emit_node(b, &(struct zt_emission){ "Reshape", "", in, 2, NULL, &allow_zero, 1 }, &six, 1);
    zt_grad_give(b, node, 0, zt_emit_reshape_like(b, zt_emit_transpose(b, six, back, 6), x));
    return true;
}

static bool depth_to_space_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return blocks_grad(b, node, depth_to_space(zt_grad_graph(b)->nodes[node], zt_grad_in_shape(b, node, 0)));
}

static bool space_to_depth_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return blocks_grad(b, node, space_to_depth(zt_grad_graph(b)->nodes[node], zt_grad_in_shape(b, node, 0)));
}

static const struct zt_attr_spec blocks_attrs[] = { { "blocksize", ZT_ATTR_INT, true },
                                                    { "mode", ZT_ATTR_STRING },
                                                    { 0 } };

#define BLOCKS_ROW(id, NAME)                                                                                           \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .flags = ZT_OP_LIGHT,                                                                                          \
        .in_types = { ZT_ANY_TYPE },                                                                                   \
        .attrs = blocks_attrs,                                                                                         \
        .infer = id##_infer,                                                                                           \
        .grad = id##_grad,                                                                                             \
        .kernel = { [ZT_REF] = { .run = id##_run },                                                                    \
                    [ZT_CPU] = { .run = id##_run },                                                                    \
                    [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, id##_describe) },                              \
    };

BLOCKS_ROW(depth_to_space, "DepthToSpace")
BLOCKS_ROW(space_to_depth, "SpaceToDepth")
