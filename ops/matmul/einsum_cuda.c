/* Einsum and its gradient on CUDA. Two operands whose labels form four groups are a batch of matrix products:
 *
 *     y[EACH, ROWS, COLUMNS] = sum over DEPTH of a[EACH, ROWS, DEPTH] b[EACH, DEPTH, COLUMNS]
 *
 * An operand or the result is used in place where each group has one stride and one side of the matrix is contiguous;
 * else it is copied to that order first (the result from it). einsum.cu computes everything else. */
#include "ops/cuda/blas_cuda.h"
#include "ops/cuda/describe.h"
#include "ops/matmul/einsum.h"
#include "ops/matmul/launch_einsum.h"
#include "ops/cuda/broadcast_cuda.h"
#include "ops/kernel/merge_axes.h"

#include <string.h>

_Static_assert((int)ZT_LAUNCH_OPERANDS == (int)ZT_EINSUM_OPERANDS, "all operands fit");

enum { EACH, ROWS, COLUMNS, DEPTH, GROUPS };
enum { A, B, Y, TENSORS };

/* Axes that belong together, outermost first. */
struct group {
    int count;
    int64_t dim[ZT_MAX_RANK], step[TENSORS][ZT_MAX_RANK], all; /* all: product of dims */
};

/* A tensor of the product and its copy. */
struct side {
    bool copied;
    struct zt_launch_strided_copy move; /* tensor to copy; for the result copy to tensor */
    size_t at;                          /* of the copy in the workspace */
};

struct einsum {
    int in[ZT_EINSUM_OPERANDS];
    struct zt_blas *blas; /* NULL: contraction */
    struct side side[TENSORS];
    size_t elem_bytes, blas_bytes;
    bool clears;
    struct zt_launch_contraction contraction;
};

/* ---- matrix products ---- */

static int group_of(const struct zt_contraction *c, int axis) {
    static const int groups[2][2][2] = {
        [1] = { [1] = { DEPTH, EACH }, [0] = { -1, ROWS } }, [0] = { [1] = { -1, COLUMNS }, [0] = { -1, -1 } }
    };
    return groups[c->step[A][axis] != 0][c->step[B][axis] != 0][c->step[Y][axis] != 0];
}

/* Sorts the axes behind those with a larger stride in the leading tensor: the result, or a where the result lacks
 * them. */
static void insert(struct group *g, int lead, int64_t dim, const int64_t step[TENSORS]) {
    int at = g->count++;
    for (; at > 0 && g->step[lead][at - 1] < step[lead]; at--) {
        g->dim[at] = g->dim[at - 1];
        for (int t = 0; t < TENSORS; t++)
            g->step[t][at] = g->step[t][at - 1];
    }
    g->dim[at] = dim;
    for (int t = 0; t < TENSORS; t++)
        g->step[t][at] = step[t];
    g->all *= dim;
}

static bool read_groups(const struct zt_contraction *c, struct group *group) {
    if (c->operands != 2)
        return false;
    for (int k = 0; k < GROUPS; k++)
        group[k] = (struct group){ .all = 1 };
    for (int i = 0; i < c->axes; i++) {
        const int64_t step[TENSORS] = { c->step[0][i], c->step[1][i], c->step[2][i] };
        const int g = group_of(c, i);
        if (c->dim[i] == 1)
            continue;
        if (g < 0 || c->dim[i] < 1 || group[g].count == ZT_MAX_RANK)
            return false;
        insert(&group[g], g == DEPTH ? A : Y, c->dim[i], step);
    }
    for (int k = 0; k < GROUPS; k++)
        if (group[k].all > INT32_MAX)
            return false;
    return true;
}

/* The one stride of a group in a tensor; -1: it has several; 0: the group is empty. */
static int64_t step_of(const struct group *g, int tensor) {
    int64_t dim[ZT_MAX_RANK], step[ZT_MAX_RANK];
    memcpy(dim, g->dim, sizeof dim);
    memcpy(step, g->step[tensor], sizeof step);
    const int axes = zt_merge_axes(g->count, dim, 1, (int64_t *[]){ step });
    return axes == 0 ? 0 : axes == 1 ? step[0] : -1;
}

/* Whether the matrices of `rows` by `columns` can be used in place. The result must not be transposed. */
static bool lies_so(const struct group *const order[3], int tensor, enum zt_dtype dtype, struct zt_blas_matrix *to) {
    const struct group *each = order[0], *rows = order[1], *columns = order[2];
    const int64_t batch = step_of(each, tensor), row = step_of(rows, tensor), column = step_of(columns, tensor);
    if (batch < 0 || row < 0 || column < 0)
        return false;
    *to = (struct zt_blas_matrix){
        .dtype = dtype, .rows = rows->all, .columns = columns->all, .row_step = row, .batch_step = batch
    };
    if (columns->all > 1 && column != 1) {
        to->transposed = true;
        to->rows = columns->all;
        to->columns = rows->all;
        to->row_step = column;
    }
    if (to->rows == 1)
        to->row_step = to->columns;
    return !(tensor == Y && to->transposed) && (!to->transposed || rows->all == 1 || row == 1) &&
           to->row_step >= to->columns;
}

/* The matrices of the copy, contiguous and row-major. */
static void copy_so(const struct group *const order[3], int tensor, enum zt_dtype dtype, struct zt_blas_matrix *to,
                    struct side *side) {
    int64_t dim[ZT_MAX_RANK], own[ZT_MAX_RANK], packed[ZT_MAX_RANK], next = 1;
    int count = 0;
    for (int g = 0; g < 3; g++)
        count += order[g]->count;
    const int axes = count;
    for (int g = 2; g >= 0; g--)
        for (int k = order[g]->count - 1; k >= 0; k--) {
            dim[--count] = order[g]->dim[k];
            own[count] = order[g]->step[tensor][k];
            packed[count] = next;
            next *= order[g]->dim[k];
        }
    side->copied = true;
    side->move =
        tensor == Y ? zt_strided_copy_cuda(axes, dim, packed, own) : zt_strided_copy_cuda(axes, dim, own, packed);
    *to = (struct zt_blas_matrix){ .dtype = dtype,
                                   .rows = order[1]->all,
                                   .columns = order[2]->all,
                                   .row_step = order[2]->all,
                                   .batch_step = order[1]->all * order[2]->all };
}

/* Reserves workspace for a copy; returns the matrices of the copy. */
static size_t place(struct side *side, int64_t elems, size_t elem_bytes, size_t taken) {
    side->at = zt_room_cuda(taken);
    return side->at + (size_t)elems * elem_bytes;
}

/* The groups of a tensor's axes: of the batch, of the rows, of the columns of its matrices. */
static void order_of(const struct group *group, int tensor, const struct group *to[3]) {
    static const int orders[TENSORS][3] = {
        [A] = { EACH, ROWS, DEPTH }, [B] = { EACH, DEPTH, COLUMNS }, [Y] = { EACH, ROWS, COLUMNS }
    };
    for (int k = 0; k < 3; k++)
        to[k] = &group[orders[tensor][k]];
}

/* A product whose tensors all have at most as many axes as a strided copy. */
static bool is_product(const struct zt_contraction *c, struct group *group) {
    bool is = read_groups(c, group);
    for (int t = 0; is && t < TENSORS; t++) {
        const struct group *order[3];
        order_of(group, t, order);
        is = order[0]->count + order[1]->count + order[2]->count <= ZT_MAX_RANK;
    }
    return is;
}

static bool prepare_product(struct zt_prepare *q, const struct group *group, struct einsum *e, struct zt_err *err) {
    const enum zt_dtype dtype = zt_in(q->graph, q->node, 0)->dtype;
    struct zt_blas_spec spec = { .batch = (int)group[EACH].all, .tf32 = q->device->tf32 };
    struct zt_blas_matrix *const matrix[TENSORS] = { [A] = &spec.a, [B] = &spec.b, [Y] = &spec.y };
    size_t bytes = 0;
    for (int t = 0; t < TENSORS; t++) {
        const struct group *order[3];
        order_of(group, t, order);
        if (lies_so(order, t, dtype, matrix[t]))
            continue;
        copy_so(order, t, dtype, matrix[t], &e->side[t]);
        bytes = place(&e->side[t], order[0]->all * order[1]->all * order[2]->all, e->elem_bytes, bytes);
    }
    e->blas = zt_blas_create(q->device, &spec, err);
    e->blas_bytes = zt_room_cuda(bytes); /* offset of cuBLASLt's workspace */
    q->workspace_bytes = e->blas ? e->blas_bytes + zt_blas_workspace_bytes(e->blas) : 0;
    return e->blas != NULL;
}

/* ---- other sums ---- */

/* Writes the merged axes `from`..`to` - 1, and how many points they have to `all`; returns their number. */
static int merge_range(const struct zt_contraction *c, int from, int to, int64_t *dim, int64_t (*step)[ZT_MAX_RANK],
                       int64_t *all) {
    int64_t *of[ZT_EINSUM_OPERANDS + 1];
    *all = 1;
    for (int t = 0; t <= c->operands; t++)
        of[t] = step[t];
    for (int k = from; k < to; k++) {
        dim[k - from] = c->dim[k];
        *all *= c->dim[k];
        for (int t = 0; t <= c->operands; t++)
            step[t][k - from] = c->step[t][k];
    }
    return zt_merge_axes(to - from, dim, c->operands + 1, of);
}

static void prepare_contraction(const struct zt_contraction *c, struct zt_launch_contraction *to) {
    to->operands = c->operands;
    to->result_axes = merge_range(c, 0, c->result_axes, to->result_dim, to->result_step, &to->results);
    to->reduced_axes = merge_range(c, c->result_axes, c->axes, to->reduced_dim, to->reduced_step, &to->reduced);
}

/* ---- the kernel ---- */

static void release(void *state) {
    struct einsum *e = state;
    if (e)
        zt_blas_destroy(e->blas);
    free(e);
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    const struct zt_node *n = q->graph->nodes[q->node];
    struct zt_contraction c;
    struct group group[GROUPS];
    int64_t reached = 1;
    if (!zt_describe_to_cuda(q, &c, err))
        return false;
    for (int k = 0; k < c.result_axes; k++)
        reached *= c.dim[k];
    struct einsum *e = zt_calloc(1, sizeof *e);
    memcpy(e->in, c.in, sizeof e->in);
    e->elem_bytes = zt_dtype_bytes(zt_in(q->graph, q->node, 0)->dtype);
    e->clears = reached < zt_shape_count(&zt_out(q->graph, q->node, 0)->shape);
    if (!is_product(&c, group))
        prepare_contraction(&c, &e->contraction);
    else if (!prepare_product(q, group, e, err)) {
        release(e);
        return zt_err_within(err, 0, "%s (%s)", n->name, n->op_type);
    }
    q->state = e;
    if (e->blas)
        q->path.name = "cuBLASLt";
    else
        q->path = (struct zt_path){ ZT_PATH_OWN, "the labels are no batch of matrix products" };
    return true;
}

static bool multiply(const struct zt_call *call, const struct einsum *e, struct zt_err *err) {
    char *work = call->workspace;
    char *at[TENSORS] = { call->in[e->in[0]].data, call->in[e->in[1]].data, call->out[0].data };
    char *const y = at[Y];
    for (int t = 0; t < TENSORS; t++) {
        if (!e->side[t].copied)
            continue;
        if (t != Y && !zt_launched(call,
                                   zt_launch_strided_copy(zt_stream_of(call), e->elem_bytes, &e->side[t].move, at[t],
                                                          work + e->side[t].at),
                                   err))
            return false;
        at[t] = work + e->side[t].at;
    }
    const struct zt_blas_data data = { .a = at[A], .b = at[B], .y = at[Y], .alpha = 1 };
    return zt_blas_run(e->blas, &data, work + e->blas_bytes, call->node->name, err) &&
           (at[Y] == y ||
            zt_launched(call, zt_launch_strided_copy(zt_stream_of(call), e->elem_bytes, &e->side[Y].move, at[Y], y),
                        err));
}

static bool add_up(const struct zt_call *call, const struct einsum *e, struct zt_err *err) {
    struct zt_launch_contraction c = e->contraction;
    for (int n = 0; n < c.operands; n++)
        c.operand[n] = zt_in_cuda(call, e->in[n]);
    c.y = zt_out_cuda(call, 0);
    return zt_launched(call, zt_launch_contraction(zt_stream_of(call), &c), err);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct einsum *e = call->state;
    const struct zt_view *y = &call->out[0];
    if (e->clears && !call->device->api->zero(call->device, y->data, zt_all_bytes_of(y), err))
        return false;
    return e->blas ? multiply(call, e, err) : add_up(call, e, err);
}

const struct zt_kernel zt_kernel_einsum_cuda = { .prepare = prepare, .run = run, .release = release };
