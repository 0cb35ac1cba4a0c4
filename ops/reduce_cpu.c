/* Reductions of floats. Neighbouring axes that are kept or reduced alike are one; what remains is done along the last
 * one:
 *
 *     reduced last   [kept.., n]   a result is folded along rows, 16 partial results side by side
 *     kept last      [.., n, k]    blocks of COLUMNS results, rows folded one under the other (bias gradients)
 *
 * Partial sums are float over at most SPAN terms and double beyond, so that long sums keep their digits; products are
 * double throughout. Log-sum-exp takes the maximum first and subtracts it. A result is made by one chunk alone, so
 * threads change nothing. */
#include "ops/reduce_cpu.h"

#include "device/threads.h"
#include "ops/elementwise_lanes.h"
#include "ops/reduce.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, SPAN = 64, COLUMNS = 64, RESULTS = 16 };
enum { FEW = 1 << 15 }; /* elements not worth waking threads for */

/* How terms become one: part = JOIN(part, term). */
#define ADD(a, x)        ((a) + (x))
#define ADD_ABS(a, x)    ((a) + fabsf(x))
#define ADD_SQUARE(a, x) ((a) + (x) * (x))
#define MULTIPLY(a, x)   ((a) * (x))
#define LARGER(a, x)     ((((a) > (x)) | ((a) != (a))) ? (a) : (x))
#define SMALLER(a, x)    ((((a) < (x)) | ((a) != (a))) ? (a) : (x))

/* NAME_row folds a row; NAME_rows adds a row to partial results of columns; NAME_flush joins those to the whole,
 * NAME_merge two wholes. TYPE is that of a row's partial results, MERGE joins two of them. */
#define FOLD(name, TYPE, START, JOIN, MERGE)                                                                           \
    static double name##_row(const float *x, int64_t n) {                                                              \
        double total = START;                                                                                          \
        for (int64_t at = 0; at < n; at += LANES * SPAN) {                                                             \
            int64_t length = n - at < LANES * SPAN ? n - at : LANES * SPAN, whole = length / LANES * LANES;            \
            TYPE part[LANES];                                                                                          \
            for (int k = 0; k < LANES; k++)                                                                            \
                part[k] = START;                                                                                       \
            for (int64_t i = 0; i < whole; i += LANES)                                                                 \
                for (int k = 0; k < LANES; k++)                                                                        \
                    part[k] = (TYPE)JOIN(part[k], x[at + i + k]);                                                      \
            for (int64_t i = whole; i < length; i++)                                                                   \
                part[i - whole] = (TYPE)JOIN(part[i - whole], x[at + i]);                                              \
            for (int k = 0; k < LANES; k++)                                                                            \
                total = MERGE(total, (double)part[k]);                                                                 \
        }                                                                                                              \
        return total;                                                                                                  \
    }                                                                                                                  \
    static void name##_rows(float *restrict part, const float *restrict x, int64_t columns) {                          \
        if (columns == COLUMNS) {                                                                                      \
            for (int k = 0; k < COLUMNS; k++)                                                                          \
                part[k] = JOIN(part[k], x[k]);                                                                         \
        } else {                                                                                                       \
            for (int64_t k = 0; k < columns; k++)                                                                      \
                part[k] = JOIN(part[k], x[k]);                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static double name##_merge(double a, double b) {                                                                   \
        return MERGE(a, b);                                                                                            \
    }                                                                                                                  \
                                                                                                                       \
    static void name##_flush(float *restrict part, double *restrict total) {                                           \
        for (int k = 0; k < COLUMNS; k++) {                                                                            \
            total[k] = MERGE(total[k], (double)part[k]);                                                               \
            part[k] = (float)(START);                                                                                  \
        }                                                                                                              \
    }

FOLD(sum, float, 0, ADD, ADD)
FOLD(abs, float, 0, ADD_ABS, ADD)
FOLD(square, float, 0, ADD_SQUARE, ADD)
FOLD(product, double, 1, MULTIPLY, MULTIPLY)
FOLD(max, float, -INFINITY, LARGER, LARGER)
FOLD(min, float, INFINITY, SMALLER, SMALLER)

struct fold {
    double start;
    int span; /* rows after which partial results are flushed */
    double (*row)(const float *x, int64_t n);
    void (*rows)(float *part, const float *x, int64_t columns);
    void (*flush)(float *part, double *total);
    double (*merge)(double a, double b);
};
static const struct fold sums = { 0, SPAN, sum_row, sum_rows, sum_flush, sum_merge };
static const struct fold absolutes = { 0, SPAN, abs_row, abs_rows, abs_flush, abs_merge };
static const struct fold squares = { 0, SPAN, square_row, square_rows, square_flush, square_merge };
static const struct fold products = { 1, 1, product_row, product_rows, product_flush, product_merge };
static const struct fold maxima = { -INFINITY, SPAN, max_row, max_rows, max_flush, max_merge };
static const struct fold minima = { INFINITY, SPAN, min_row, min_rows, min_flush, min_merge };

enum finish { AS_IT_IS, MEAN, ROOT, LOG };

/* The rows, and what follows the fold. */
static const struct kind {
    const char *op;
    const struct fold *fold;
    enum finish finish;
    bool shifted; /* exp(x - maximum) is folded, and the maximum added in the end */
} kinds[] = {
    { "ReduceSum", &sums, AS_IT_IS, false },
    { "ReduceMean", &sums, MEAN, false },
    { "ReduceL1", &absolutes, AS_IT_IS, false },
    { "ReduceL2", &squares, ROOT, false },
    { "ReduceSumSquare", &squares, AS_IT_IS, false },
    { "ReduceLogSum", &sums, LOG, false },
    { "ReduceLogSumExp", &sums, LOG, true },
    { "ReduceMax", &maxima, AS_IT_IS, false },
    { "ReduceMin", &minima, AS_IT_IS, false },
    { "ReduceProd", &products, AS_IT_IS, false },
    { 0 },
};

struct plan {
    const struct kind *kind;
    int axes;
    int64_t dim[ZT_MAX_RANK], stride[ZT_MAX_RANK];
    bool reduced[ZT_MAX_RANK];
    int64_t results;
    double count; /* of elements a result */
};

bool zt_reduce_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_value *x = zt_in(g, node, 0);
    return x->dtype == ZT_FLOAT && zt_shape_count(&x->shape) > 0;
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
    plan->count = (double)(count / plan->results);
    plan->kind = kinds;
    while (strcmp(plan->kind->op, p->graph->nodes[p->node].op->name) != 0)
        plan->kind++;
    for (int i = 0; i < p->graph->nodes[p->node].in_count; i++)
        p->in_layout[i] = NULL;
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

static double finish(const struct plan *plan, double total, double shift) {
    switch (plan->kind->finish) {
    case MEAN:
        return total / plan->count;
    case ROOT:
        return sqrt(total);
    case LOG:
        return log(total) + shift;
    default:
        return total;
    }
}

/* What is subtracted before exp: the maximum, but no infinity, which would make NaN of infinities. */
static float shift_of(double most) {
    return isfinite(most) ? (float)most : 0;
}

/* to[i] = exp(x[i] - shift[i * step]) */
static void exponentials(const float *x, const float *shift, int64_t step, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = x[i] - shift[i * step];
    struct zt_lane_span span = { .a = to, .b = to, .y = to, .n = n, .a_step = 1, .b_step = 1 };
    zt_lane_functions()[ZT_LANE_exp](&span);
}

static double fold_row(const struct fold *fold, const float *shift, const float *x, int64_t n) {
    double total = 0;
    float v[LANES * SPAN];
    if (!shift)
        return fold->row(x, n);
    for (int64_t at = 0; at < n; at += LANES * SPAN) {
        const int64_t length = n - at < LANES * SPAN ? n - at : LANES * SPAN;
        exponentials(x + at, shift, 0, length, v);
        total += fold->row(v, length);
    }
    return total;
}

struct job {
    const struct plan *plan;
    const float *x;
    float *y;
    int64_t blocks; /* kept last: of columns, a result row */
};

/* Result `i` folded over all its rows; shift NULL: the terms themselves. */
static double fold_rows(const struct job *job, const struct fold *fold, int64_t i, const float *shift) {
    const struct plan *plan = job->plan;
    const int last = plan->axes - 1;
    int64_t index[ZT_MAX_RANK] = { 0 }, offset = kept_offset(plan, last, i);
    double total = fold->start;
    do
        total = fold->merge(total, fold_row(fold, shift, job->x + offset, plan->dim[last]));
    while (next(plan, true, last, index, &offset));
    return total;
}

static void reduced_last(void *arg, int64_t chunk) {
    const struct job *job = arg;
    const struct plan *plan = job->plan;
    int64_t end = (chunk + 1) * RESULTS < plan->results ? (chunk + 1) * RESULTS : plan->results;
    for (int64_t i = chunk * RESULTS; i < end; i++) {
        float shift = plan->kind->shifted ? shift_of(fold_rows(job, &maxima, i, NULL)) : 0;
        double total = fold_rows(job, plan->kind->fold, i, plan->kind->shifted ? &shift : NULL);
        job->y[i] = (float)finish(plan, total, (double)shift);
    }
}

/* A block of columns folded over all its rows. */
static void fold_columns(const struct job *job, const struct fold *fold, int64_t chunk, const float *shift,
                         double *total) {
    const struct plan *plan = job->plan;
    const int last = plan->axes - 1;
    const int64_t row = chunk / job->blocks, first = chunk % job->blocks * COLUMNS, width = plan->dim[last];
    const int64_t columns = width - first < COLUMNS ? width - first : COLUMNS;
    int64_t index[ZT_MAX_RANK] = { 0 }, offset = kept_offset(plan, last, row), rows = 0;
    float part[COLUMNS], v[COLUMNS];
    for (int k = 0; k < COLUMNS; k++) {
        part[k] = (float)fold->start;
        total[k] = fold->start;
    }
    do {
        if (shift)
            exponentials(job->x + offset + first, shift, 1, columns, v);
        fold->rows(part, shift ? v : job->x + offset + first, columns);
        if (++rows % fold->span == 0)
            fold->flush(part, total);
    } while (next(plan, true, last, index, &offset));
    fold->flush(part, total);
}

static void kept_last(void *arg, int64_t chunk) {
    const struct job *job = arg;
    const struct plan *plan = job->plan;
    const int64_t width = plan->dim[plan->axes - 1];
    const int64_t row = chunk / job->blocks, first = chunk % job->blocks * COLUMNS;
    const int64_t columns = width - first < COLUMNS ? width - first : COLUMNS;
    double total[COLUMNS];
    float shift[COLUMNS] = { 0 };
    if (plan->kind->shifted) {
        fold_columns(job, &maxima, chunk, NULL, total);
        for (int64_t k = 0; k < columns; k++)
            shift[k] = shift_of(total[k]);
    }
    fold_columns(job, plan->kind->fold, chunk, plan->kind->shifted ? shift : NULL, total);
    for (int64_t k = 0; k < columns; k++)
        job->y[row * width + first + k] = (float)finish(plan, total[k], (double)shift[k]);
}

bool zt_reduce_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct plan *plan = call->state;
    const int64_t width = plan->dim[plan->axes - 1];
    struct job job = { plan, call->in[0].data, call->out[0].data, (width + COLUMNS - 1) / COLUMNS };
    int threads = zt_shape_count(&call->in[0].shape) < FEW ? 1 : call->threads;
    if (plan->reduced[plan->axes - 1])
        zt_parallel_for(threads, (plan->results + RESULTS - 1) / RESULTS, reduced_last, &job);
    else
        zt_parallel_for(threads, plan->results / width * job.blocks, kept_last, &job);
    return true;
}
