/* ReduceSum, ReduceMean and ReduceLogSumExp of floats. Neighbouring axes that are kept or reduced alike are one; what
 * remains is done along the last one:
 *
 *     reduced last   [kept.., n]   a result is a sum along rows, 16 partial sums side by side
 *     kept last      [.., n, k]    blocks of COLUMNS results, rows added one under the other (bias gradients)
 *
 * ReduceLogSumExp is taken along one stretch of axes, in bundles of lines (lanes_lines.h).
 *
 * Partial sums are float over at most SPAN terms and double beyond, so that long sums keep their digits. A result is
 * made by one chunk alone, so threads change nothing. */
#include "ops/reduce_cpu.h"

#include "device/threads.h"
#include "ops/lanes_lines.h"
#include "ops/reduce.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, SPAN = 64, COLUMNS = 64, RESULTS = 16 };
enum { FEW = 1 << 15 }; /* elements not worth waking threads for */

struct plan {
    int axes;
    int64_t dim[ZT_MAX_RANK], stride[ZT_MAX_RANK];
    bool reduced[ZT_MAX_RANK];
    int64_t results;
    float scale; /* 1, or 1 / n */
    bool log_sum_exp;
    struct zt_bundles bundles; /* of log_sum_exp */
};

static bool is_log_sum_exp(const struct zt_graph *g, int node) {
    return strcmp(g->nodes[node].op->name, "ReduceLogSumExp") == 0;
}

/* x as lines along the reduced axes; false where these are apart, or not known yet. */
static bool lines_of(const struct zt_graph *g, int node, struct zt_lines *to) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    bool marked[ZT_MAX_RANK];
    struct zt_err err = { 0 };
    int from = 0, end = x->rank;
    if (!zt_reduce_axes(g, node, marked, &err))
        return false;
    while (from < end && !marked[from])
        from++;
    while (end > from && !marked[end - 1])
        end--;
    for (int k = from; k < end; k++)
        if (!marked[k] && x->dim[k] != 1)
            return false;
    *to = (struct zt_lines){ zt_dims(x, 0, from), zt_dims(x, from, end), zt_dims(x, end, x->rank) };
    return from < end;
}

bool zt_reduce_cpu_supports(const struct zt_graph *g, int node) {
    const char *name = g->nodes[node].op->name;
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_lines lines;
    return x->dtype == ZT_FLOAT && zt_shape_count(&x->shape) > 0 &&
           ((is_log_sum_exp(g, node) && zt_line_kernels() && lines_of(g, node, &lines)) ||
            strcmp(name, "ReduceSum") == 0 || strcmp(name, "ReduceMean") == 0);
}

bool zt_reduce_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(p->graph, p->node, 0)->shape;
    struct plan *plan = ZT_NEW(p->graph->arena, struct plan);
    bool marked[ZT_MAX_RANK];
    if (!zt_reduce_axes(p->graph, p->node, marked, err))
        return false;
    for (int k = 0; k < x->rank; k++) {
        if (x->dim[k] == 1)
            continue;
        if (plan->axes == 0 || plan->reduced[plan->axes - 1] != marked[k])
            plan->dim[plan->axes++] = 1;
        plan->dim[plan->axes - 1] *= x->dim[k];
        plan->reduced[plan->axes - 1] = marked[k];
    }
    if (plan->axes == 0)
        plan->dim[plan->axes++] = 1;
    int64_t stride = 1, count = zt_shape_count(x);
    for (int k = plan->axes - 1; k >= 0; stride *= plan->dim[k--])
        plan->stride[k] = stride;
    plan->results = zt_shape_count(&zt_out(p->graph, p->node, 0)->shape);
    bool mean = strcmp(p->graph->nodes[p->node].op->name, "ReduceMean") == 0;
    plan->scale = mean ? 1 / (float)(count / plan->results) : 1;
    for (int i = 0; i < p->graph->nodes[p->node].in_count; i++)
        p->in_layout[i] = NULL;
    struct zt_lines lines;
    plan->log_sum_exp = is_log_sum_exp(p->graph, p->node);
    if (plan->log_sum_exp && lines_of(p->graph, p->node, &lines))
        plan->bundles = zt_bundles_of(&lines, ZT_FLOAT, zt_line_kernels()->lanes);
    p->state = plan;
    return true;
}

/* Moves to the next index along the axes before `last` that are reduced (or kept); false after the last. *offset
 * follows. */
static bool next(const struct plan *plan, bool reduced, int last, int64_t *index, int64_t *offset) {
    for (int k = last - 1; k >= 0; k--) {
        if (plan->reduced[k] != reduced)
            continue;
        *offset += plan->stride[k];
        if (++index[k] < plan->dim[k])
            return true;
        *offset -= plan->dim[k] * plan->stride[k];
        index[k] = 0;
    }
    return false;
}

/* Offset of result `i` counted over the kept axes before `last`. */
static int64_t kept_offset(const struct plan *plan, int last, int64_t i) {
    int64_t offset = 0;
    for (int k = last - 1; k >= 0; k--)
        if (!plan->reduced[k]) {
            offset += i % plan->dim[k] * plan->stride[k];
            i /= plan->dim[k];
        }
    return offset;
}

static double sum_row(const float *x, int64_t n) {
    double total = 0;
    for (int64_t at = 0; at < n; at += LANES * SPAN) {
        int64_t length = n - at < LANES * SPAN ? n - at : LANES * SPAN, whole = length / LANES * LANES;
        float part[LANES] = { 0 };
        for (int64_t i = 0; i < whole; i += LANES)
            for (int k = 0; k < LANES; k++)
                part[k] += x[at + i + k];
        for (int64_t i = whole; i < length; i++)
            part[i - whole] += x[at + i];
        for (int k = 0; k < LANES; k++)
            total += (double)part[k];
    }
    return total;
}

static void add_row(float *restrict part, const float *restrict x, int64_t columns) {
    if (columns == COLUMNS) {
        for (int k = 0; k < COLUMNS; k++)
            part[k] += x[k];
    } else {
        for (int64_t k = 0; k < columns; k++)
            part[k] += x[k];
    }
}

static void flush(float *part, double *total) {
    for (int k = 0; k < COLUMNS; k++) {
        total[k] += (double)part[k];
        part[k] = 0;
    }
}

struct job {
    const struct plan *plan;
    const float *x;
    float *y;
    int64_t blocks; /* kept last: of columns, a result row */
};

static void reduced_last(void *arg, int64_t chunk) {
    const struct job *job = arg;
    const struct plan *plan = job->plan;
    const int last = plan->axes - 1;
    int64_t end = (chunk + 1) * RESULTS < plan->results ? (chunk + 1) * RESULTS : plan->results;
    for (int64_t i = chunk * RESULTS; i < end; i++) {
        int64_t index[ZT_MAX_RANK] = { 0 }, offset = kept_offset(plan, last, i);
        double total = 0;
        do
            total += sum_row(job->x + offset, plan->dim[last]);
        while (next(plan, true, last, index, &offset));
        job->y[i] = (float)(total * (double)plan->scale);
    }
}

static void kept_last(void *arg, int64_t chunk) {
    const struct job *job = arg;
    const struct plan *plan = job->plan;
    const int last = plan->axes - 1;
    int64_t row = chunk / job->blocks, first = chunk % job->blocks * COLUMNS, width = plan->dim[last];
    int64_t columns = width - first < COLUMNS ? width - first : COLUMNS, rows = 0;
    int64_t index[ZT_MAX_RANK] = { 0 }, offset = kept_offset(plan, last, row);
    float part[COLUMNS] = { 0 };
    double total[COLUMNS] = { 0 };
    do {
        add_row(part, job->x + offset + first, columns);
        if (++rows % SPAN == 0)
            flush(part, total);
    } while (next(plan, true, last, index, &offset));
    flush(part, total);
    for (int64_t k = 0; k < columns; k++)
        job->y[row * width + first + k] = (float)(total[k] * (double)plan->scale);
}

/* Of a line whose maximum is infinite: that, or NaN where it holds one. */
static float infinite(const float *x, const struct zt_bundle *b, int k, int64_t length, float max) {
    for (int64_t i = 0; i < length; i++)
        if (isnan(x[b->across ? i : i * b->step + k]))
            return NAN;
    return max;
}

static void log_sum_exp(void *arg, int64_t chunk) {
    const struct job *job = arg;
    const struct zt_bundles *all = &job->plan->bundles;
    float max[COLUMNS], sum[COLUMNS];
    for (int64_t i = chunk * all->grain; i < all->count && i < (chunk + 1) * all->grain; i++) {
        int64_t start, line;
        struct zt_bundle b = zt_bundle_at(all, i, &start, &line);
        zt_line_kernels()->exp_sum(&b, job->x + start, max, sum);
        for (int k = 0; k < (b.across ? 1 : b.lanes); k++)
            job->y[line + k] = isinf(max[k]) ? infinite(job->x + start, &b, k, all->lines.length, max[k])
                                             : (float)((double)max[k] + log((double)sum[k]));
    }
}

bool zt_reduce_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct plan *plan = call->state;
    const int64_t width = plan->dim[plan->axes - 1];
    struct job job = { plan, call->in[0].data, call->out[0].data, (width + COLUMNS - 1) / COLUMNS };
    int threads = zt_shape_count(&call->in[0].shape) < FEW ? 1 : call->threads;
    if (plan->log_sum_exp)
        zt_parallel_for(threads, zt_bundle_chunks(&plan->bundles), log_sum_exp, &job);
    else if (plan->reduced[plan->axes - 1])
        zt_parallel_for(threads, (plan->results + RESULTS - 1) / RESULTS, reduced_last, &job);
    else
        zt_parallel_for(threads, plan->results / width * job.blocks, kept_last, &job);
    return true;
}
