/* Einsum of two operands as matrix products.
 *
 *     axes of a, b and the result    one product for each point of these axes
 *     of a and the result            rows m       one axis of each kind is the product's, after adjacent axes that are
 *     of b and the result            columns n    contiguous in all tensors were merged. The other axes of rows and
 *     summed                         depth k      columns are points too, those of the depth are products that are
 * added
 *
 * a is the operand that lacks the result's innermost axis. */
#include "ops/matmul/kernels.h"
#include "ops/matmul/einsum.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/kernel/merge_axes.h"

#include "base/align.h"
#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

enum { A, B, Y, TENSORS };
enum { POINTS = 8 }; /* from so many products on a thread computes whole ones */

struct axis {
    int64_t dim, step[TENSORS];
};

struct product {
    struct zt_simd_gemm gemm;
    int in[2]; /* inputs of the node that are a and b */
    struct axis point[ZT_EINSUM_LABELS], sum[ZT_EINSUM_LABELS];
    int points, sums;         /* axes of them */
    int64_t products, depths; /* how many that makes */
    bool clear;               /* the result has elements that no axis leads to */
    const struct zt_simd_gemm_kernel *kernel;
    size_t scratch; /* bytes of one product's memory */
};

/* ---- axes ---- */

enum kind { EACH, ROWS, COLUMNS, DEPTH };

static enum kind kind_of(const struct axis *a) {
    if (a->step[Y] == 0)
        return DEPTH;
    if (a->step[A] && a->step[B])
        return EACH;
    return a->step[A] ? ROWS : a->step[B] ? COLUMNS : EACH;
}

/* Outer axes first. */
static int by_step(const void *left, const void *right) {
    const struct axis *l = left, *r = right;
    for (int t = 0; t < TENSORS; t++)
        if (l->step[t] != r->step[t])
            return l->step[t] > r->step[t] ? -1 : 1;
    return 0;
}

/* The axes of a kind, merged; returns how many. */
static int collect(const struct axis *all, int count, enum kind kind, struct axis *to) {
    int64_t dim[ZT_EINSUM_LABELS], a[ZT_EINSUM_LABELS], b[ZT_EINSUM_LABELS], y[ZT_EINSUM_LABELS];
    int found = 0;
    for (int i = 0; i < count; i++)
        if (kind_of(&all[i]) == kind)
            to[found++] = all[i];
    qsort(to, (size_t)found, sizeof *to, by_step);
    for (int i = 0; i < found; i++)
        dim[i] = to[i].dim, a[i] = to[i].step[A], b[i] = to[i].step[B], y[i] = to[i].step[Y];
    found = zt_merge_axes(found, dim, TENSORS, (int64_t *[]){ [A] = a, [B] = b, [Y] = y });
    for (int i = 0; i < found; i++)
        to[i] = (struct axis){ dim[i], { [A] = a[i], [B] = b[i], [Y] = y[i] } };
    return found;
}

/* Removes the longest axis from a list (`unit`: the axis along which the result is contiguous); an axis of length 1
 * where there is none. */
static struct axis take(struct axis *list, int *count, bool unit) {
    struct axis taken = { .dim = 1 };
    int at = -1;
    for (int i = 0; i < *count; i++)
        if (unit ? list[i].step[Y] == 1 : at < 0 || list[i].dim > list[at].dim)
            at = i;
    if (at >= 0) {
        taken = list[at];
        list[at] = list[--*count];
    }
    return taken;
}

static bool has_unit(const struct axis *all, int count, enum kind kind) {
    for (int i = 0; i < count; i++)
        if (kind_of(&all[i]) == kind && all[i].step[Y] == 1)
            return true;
    return false;
}

static bool has_any(const struct axis *all, int count, enum kind kind) {
    for (int i = 0; i < count; i++)
        if (kind_of(&all[i]) == kind)
            return true;
    return false;
}

static void swap_operands(struct axis *all, int count, int *in) {
    for (int i = 0; i < count; i++) {
        int64_t a = all[i].step[A];
        all[i].step[A] = all[i].step[B];
        all[i].step[B] = a;
    }
    int a = in[A];
    in[A] = in[B];
    in[B] = a;
}

/* False where columns of the result are not adjacent. */
static bool choose_operands(struct axis *all, int count, int *in) {
    if (has_unit(all, count, COLUMNS))
        return true;
    if (has_unit(all, count, ROWS) || !has_any(all, count, ROWS)) {
        swap_operands(all, count, in);
        return true;
    }
    return !has_any(all, count, COLUMNS);
}

static int64_t count_points(const struct axis *list, int count) {
    int64_t n = 1;
    for (int i = 0; i < count; i++)
        n *= list[i].dim;
    return n;
}

/* ---- a node ---- */

static int list_axes(const struct zt_contraction *c, struct axis *to) {
    int count = 0;
    for (int i = 0; i < c->axes; i++)
        if (c->dim[i] > 1)
            to[count++] = (struct axis){ c->dim[i], { c->step[0][i], c->step[1][i], c->step[2][i] } };
    return count;
}

static bool read_product(const struct zt_graph *g, int node, bool grad, struct product *to) {
    struct zt_contraction c;
    struct zt_err err = { 0 };
    struct axis all[ZT_EINSUM_LABELS], rows[ZT_EINSUM_LABELS], columns[ZT_EINSUM_LABELS];
    *to = (struct product){ 0 };
    if (zt_out(g, node, 0)->dtype != ZT_FLOAT || !zt_simd_gemm_best() ||
        !zt_contraction_read(g, node, grad, &c, &err) || c.operands != 2)
        return false;
    int count = list_axes(&c, all);
    for (int i = 0; i < c.axes; i++)
        if (c.dim[i] < 1)
            return false;
    to->in[A] = c.in[0];
    to->in[B] = c.in[1];
    if (!choose_operands(all, count, to->in))
        return false;
    int row_count = collect(all, count, ROWS, rows), column_count = collect(all, count, COLUMNS, columns);
    to->points = collect(all, count, EACH, to->point);
    to->sums = collect(all, count, DEPTH, to->sum);
    struct axis n = take(columns, &column_count, true), m = take(rows, &row_count, false),
                k = take(to->sum, &to->sums, false);
    memcpy(to->point + to->points, rows, sizeof *rows * (size_t)row_count);
    memcpy(to->point + to->points + row_count, columns, sizeof *columns * (size_t)column_count);
    to->points += row_count + column_count;
    to->products = count_points(to->point, to->points);
    to->depths = count_points(to->sum, to->sums);
    to->clear = to->products * m.dim * n.dim < zt_shape_count(&zt_out(g, node, 0)->shape);
    to->gemm = (struct zt_simd_gemm){ .count = 1,
                                      .m = m.dim,
                                      .n = n.dim,
                                      .k = k.dim,
                                      .a_row = m.step[A],
                                      .a_col = k.step[A],
                                      .b_row = k.step[B],
                                      .b_col = n.step[B],
                                      .y_row = m.step[Y],
                                      .alpha = 1,
                                      .beta = 1 };
    return true;
}

bool zt_einsum_cpu_supports(const struct zt_graph *g, int node) {
    struct product p;
    return read_product(g, node, false, &p);
}
bool zt_einsum_grad_cpu_supports(const struct zt_graph *g, int node) {
    struct product p;
    return read_product(g, node, true, &p);
}

/* Bytes of a product's memory, a multiple of 64. */
static size_t scratch_of(const struct product *p, int threads) {
    return zt_align_64(zt_simd_gemm_bytes(p->kernel, &p->gemm, threads));
}

static bool prepare(struct zt_prepare *p, bool grad, struct zt_err *err) {
    struct product *product = zt_calloc(1, sizeof *product);
    int threads = p->threads > 0 ? p->threads : 1;
    if (!read_product(p->graph, p->node, grad, product)) {
        free(product);
        return zt_node_fail(p->graph, p->node, err, "a sum that the CPU kernels do not take");
    }
    product->kernel = zt_simd_gemm_best();
    product->scratch = scratch_of(product, 1);
    size_t whole = product->scratch * (size_t)threads, shared = scratch_of(product, threads);
    p->workspace_bytes = whole > shared ? whole : shared;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    p->state = product;
    return true;
}

bool zt_einsum_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}
bool zt_einsum_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}
void zt_einsum_cpu_release(void *state) {
    free(state);
}
void zt_einsum_grad_cpu_release(void *state) {
    free(state);
}

/* ---- running ---- */

struct job {
    const struct zt_call *call;
    const struct product *p;
};

/* Moves offsets on to point `i` of axes. */
static void advance(const struct axis *list, int count, int64_t i, int64_t *offset) {
    for (int k = count - 1; k >= 0; i /= list[k--].dim)
        for (int t = 0; t < TENSORS; t++)
            offset[t] += i % list[k].dim * list[k].step[t];
}

static void multiply(const struct job *job, int64_t point, void *scratch, int threads) {
    const struct product *p = job->p;
    const float *a = job->call->in[p->in[A]].data, *b = job->call->in[p->in[B]].data;
    int64_t start[TENSORS] = { 0 };
    advance(p->point, p->points, point, start);
    for (int64_t depth = 0; depth < p->depths; depth++) {
        struct zt_simd_gemm gemm = p->gemm;
        int64_t offset[TENSORS];
        memcpy(offset, start, sizeof offset);
        advance(p->sum, p->sums, depth, offset);
        gemm.add = depth > 0;
        const struct zt_simd_gemm_operands operands = { .a = a + offset[A],
                                                        .b = b + offset[B],
                                                        .y = (float *)job->call->out[0].data + offset[Y] };
        zt_simd_gemm_run(p->kernel, &gemm, &operands, scratch, threads);
    }
}

static void multiply_whole(void *arg, int64_t point) {
    const struct job *job = arg;
    multiply(job, point, (char *)job->call->workspace + job->p->scratch * (size_t)zt_parallel_thread(), 1);
}

static bool run(const struct zt_call *call) {
    struct job job = { call, call->state };
    if (job.p->clear)
        memset(call->out[0].data, 0, (size_t)zt_shape_count(&call->out[0].shape) * sizeof(float));
    if (job.p->products >= POINTS)
        zt_parallel_for(call->threads, job.p->products, multiply_whole, &job);
    for (int64_t i = 0; job.p->products < POINTS && i < job.p->products; i++)
        multiply(&job, i, call->workspace, call->threads);
    return true;
}

bool zt_einsum_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return run(call);
}
bool zt_einsum_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return run(call);
}
