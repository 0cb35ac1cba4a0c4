/* Reductions of floats. Adjacent axes that are all kept or all reduced are merged. The last axis decides the loop:
 *
 *     reduced last   [kept.., n]   a result is folded along rows, in several partial results
 *     kept last      [.., n, k]    blocks of adjacent results, into which rows are folded one after the other (bias
 *                                  gradients)
 *
 * Partial sums are float over at most SPAN terms and double beyond, so that long sums stay exact; products are double.
 * Log-sum-exp takes the maximum first and subtracts it. One unit of work computes a result; where there are too few
 * results, the shape determines pieces of the rows, which are joined in order. Results do not depend on threads. */
#include "ops/reduce/reduce_cpu.h"

#include "device/threads.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/simd_reduce.h"
#include "ops/kernel/layout.h"
#include "ops/kernel/merge_axes.h"
#include "ops/kernel/tile.h"

#include <math.h>
#include <string.h>

enum { VECTOR = 16, SPAN = 64, COLUMNS = 256, SHIFTED_COLUMNS = 64, RESULTS = 16 };
enum { UNITS = 16, PIECE = 256 }; /* units wanted, rows of a piece at least */
enum { FEW = 1 << 15 };           /* elements not worth waking threads for */

/* ID_merge joins two results; ID_flush joins the results of columns with their partial results and resets these. A
 * product folds rows into the results directly, and its partial results stay 1. Macros, as MERGE is an expression. */
#define FOLD(id, START, JOIN, MERGE, ...)                                                                              \
    static double id##_merge(double a, double x) {                                                                     \
        return MERGE;                                                                                                  \
    }                                                                                                                  \
    static void id##_flush(int64_t columns, float *part, double *total) {                                              \
        for (int64_t k = 0; k < columns; k++) {                                                                        \
            total[k] = id##_merge(total[k], (double)part[k]);                                                          \
            part[k] = START;                                                                                           \
        }                                                                                                              \
    }
#define FOLDS(FOLD) ZT_FLOAT_FOLDS(FOLD) FOLD(product, 1, , (a) * (x), )
FOLDS(FOLD)

/* Sixteen partial products. */
static double product_row(const float *x, int64_t n) {
    double part[VECTOR], total = 1;
    for (int k = 0; k < VECTOR; k++)
        part[k] = 1;
    for (int64_t i = 0; i < n; i += VECTOR)
        for (int k = 0; k < VECTOR && i + k < n; k++)
            part[k] *= (double)x[i + k];
    for (int k = 0; k < VECTOR; k++)
        total *= part[k];
    return total;
}

#define ROW(id, START, ...) [ZT_FOLD_##id] = { ZT_FOLD_##id, START, id##_merge, id##_flush },
static const struct fold {
    enum zt_row_fold id;
    double start;
    double (*merge)(double a, double b);
    void (*flush)(int64_t columns, float *part, double *total);
} folds[ZT_FOLDS] = { FOLDS(ROW) };

enum finish { AS_IT_IS, MEAN, ROOT, LOG };

/* The ops, and the function after the fold. */
static const struct kind {
    const char *op;
    enum zt_row_fold fold;
    enum finish finish;
    bool shifted; /* exp(x - maximum) is folded, and the maximum added in the end */
} kinds[] = {
    { "ReduceSum", ZT_FOLD_sum, AS_IT_IS, false },
    { "ReduceMean", ZT_FOLD_sum, MEAN, false },
    { "ReduceL1", ZT_FOLD_abs, AS_IT_IS, false },
    { "ReduceL2", ZT_FOLD_square, ROOT, false },
    { "ReduceSumSquare", ZT_FOLD_square, AS_IT_IS, false },
    { "ReduceLogSum", ZT_FOLD_sum, LOG, false },
    { "ReduceLogSumExp", ZT_FOLD_sum, LOG, true },
    { "ReduceMax", ZT_FOLD_max, AS_IT_IS, false },
    { "ReduceMin", ZT_FOLD_min, AS_IT_IS, false },
    { "ReduceProd", ZT_FOLD_product, AS_IT_IS, false },
    { 0 },
};

struct plan {
    const struct kind *kind;
    int axes;
    int64_t dim[ZT_MAX_RANK], stride[ZT_MAX_RANK];
    bool reduced[ZT_MAX_RANK];
    int64_t results;
    double count; /* of elements a result */
    struct zt_reduce_channels channels;
    /* kept last: results of a block, blocks of a row of results, rows folded for a result, pieces of these rows */
    int64_t columns, blocks, rows, pieces;
};

bool zt_reduce_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_value *x = zt_in(g, node, 0);
    return x->dtype == ZT_FLOAT && zt_shape_count(&x->shape) > 0;
}

/* Divides the work where the last axis is kept; returns the bytes for the results of pieces. */
static size_t cut_rows(struct plan *plan) {
    const int64_t width = plan->dim[plan->axes - 1], rows = plan->results / width;
    plan->columns = plan->kind->shifted ? SHIFTED_COLUMNS : COLUMNS;
    plan->blocks = zt_ceil_div(width, plan->columns);
    plan->rows = (int64_t)plan->count;
    plan->pieces = zt_min_int(UNITS / (rows * plan->blocks), plan->rows / PIECE);
    if (plan->kind->shifted || plan->pieces < 2)
        plan->pieces = 1;
    return plan->pieces > 1 ? sizeof(double) * (size_t)(rows * plan->blocks * plan->pieces * COLUMNS) : 0;
}

bool zt_reduce_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct plan *plan = ZT_NEW(p->graph->arena, struct plan);
    bool over[ZT_MAX_RANK];
    if (!zt_reduce_axes(p->graph, p->node, over, err))
        return false;
    const struct zt_shape x = zt_reduce_memory(p, over, &plan->channels);
    plan->axes = zt_merge_marked_axes(&x, over, plan->dim, plan->reduced);
    if (plan->axes == 0)
        plan->dim[plan->axes++] = 1;
    int64_t stride = 1;
    plan->results = 1;
    for (int k = plan->axes - 1; k >= 0; stride *= plan->dim[k--]) {
        plan->stride[k] = stride;
        plan->results *= plan->reduced[k] ? 1 : plan->dim[k];
    }
    plan->count = (double)(stride / plan->results);
    plan->kind = kinds;
    while (strcmp(plan->kind->op, p->graph->nodes[p->node]->op->name) != 0)
        plan->kind++;
    if (!plan->reduced[plan->axes - 1])
        p->workspace_bytes = cut_rows(plan);
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

/* Offset of place `i` counted over the reduced (or kept) axes before `last`. */
static int64_t offset_of(const struct plan *plan, bool reduced, int last, int64_t i) {
    int64_t offset = 0;
    for (int k = last - 1; k >= 0; k--)
        if (plan->reduced[k] == reduced) {
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

/* The number subtracted before exp: the maximum, or 0 where it is infinite, as infinity - infinity is NaN. */
static float shift_of(double most) {
    return isfinite(most) ? (float)most : 0;
}

/* Rows of n terms that lie `step` apart; their shifts are shared, and shift_step apart (0 or 1). */
struct terms {
    const float *x, *shift;
    int64_t step, shift_step, rows, n;
};

/* to[row * n + i] = exp(x[row * step + i] - shift[i * shift_step]) */
static void exponentials(const struct terms *t, float *to) {
    for (int64_t row = 0; row < t->rows; row++)
        for (int64_t i = 0; i < t->n; i++)
            to[row * t->n + i] = t->x[row * t->step + i] - t->shift[i * t->shift_step];
    struct zt_simd_span span = { .a = to, .b = to, .y = to, .n = t->rows * t->n, .a_step = 1, .b_step = 1 };
    zt_simd_functions()[ZT_SIMD_exp](&span);
}

static double fold_row(const struct fold *fold, const float *shift, const float *x, int64_t n) {
    double total = 0;
    float v[VECTOR * SPAN];
    zt_row_function *row = fold->id == ZT_FOLD_product ? product_row : zt_row_functions()[fold->id];
    if (!shift)
        return row(x, n);
    for (int64_t at = 0; at < n; at += VECTOR * SPAN) {
        const int64_t length = n - at < VECTOR * SPAN ? n - at : VECTOR * SPAN;
        exponentials(&(struct terms){ .x = x + at, .shift = shift, .rows = 1, .n = length }, v);
        total += row(v, length);
    }
    return total;
}

struct job {
    const struct plan *plan;
    const float *x;
    float *y;
    double *left; /* by result and piece, where there are several */
};

/* Result `i` folded over all its rows; shift NULL: the terms themselves. */
static double fold_rows(const struct job *job, const struct fold *fold, int64_t i, const float *shift) {
    const struct plan *plan = job->plan;
    const int last = plan->axes - 1;
    int64_t index[ZT_MAX_RANK] = { 0 }, offset = offset_of(plan, false, last, i);
    double total = fold->start;
    do
        total = fold->merge(total, fold_row(fold, shift, job->x + offset, plan->dim[last]));
    while (next(plan, true, last, index, &offset));
    return total;
}

static void reduced_last(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct plan *plan = job->plan;
    int64_t end = (unit + 1) * RESULTS < plan->results ? (unit + 1) * RESULTS : plan->results;
    for (int64_t i = unit * RESULTS; i < end; i++) {
        float shift = plan->kind->shifted ? shift_of(fold_rows(job, &folds[ZT_FOLD_max], i, NULL)) : 0;
        double total = fold_rows(job, &folds[plan->kind->fold], i, plan->kind->shifted ? &shift : NULL);
        job->y[i] = (float)finish(plan, total, (double)shift);
    }
}

/* A unit of work: columns first..first+columns-1 of a row of results, folded from rows from..end-1. */
struct block {
    int64_t row, first, columns, from, end;
};

static struct block block_of(const struct plan *plan, int64_t unit) {
    const int64_t piece = unit % plan->pieces, at = unit / plan->pieces, width = plan->dim[plan->axes - 1];
    struct block b = { .row = at / plan->blocks, .first = at % plan->blocks * plan->columns };
    b.columns = zt_min_int(plan->columns, zt_reduce_width(&plan->channels, b.row, width) - b.first);
    b.from = plan->rows * piece / plan->pieces;
    b.end = plan->rows * (piece + 1) / plan->pieces;
    return b;
}

/* Rows that lie one step apart, at most SPAN, are folded in one call; of shifted ones as many as v holds. */
static void fold_columns(const struct job *job, const struct fold *fold, const struct block *b, const float *shift,
                         double *total) {
    const struct plan *plan = job->plan;
    const int last = plan->axes - 1;
    const int64_t dense = last ? plan->dim[last - 1] : 1; /* of the reduced axis before, whose rows lie `step` apart */
    const int64_t step = last ? plan->stride[last - 1] : 0;
    const int64_t start = offset_of(plan, false, last, b->row) + b->first;
    float part[COLUMNS], v[VECTOR * SPAN];
    const int64_t fitting = shift ? VECTOR * SPAN / b->columns : SPAN;
    for (int64_t k = 0; k < b->columns; k++) {
        part[k] = (float)fold->start;
        total[k] = fold->start;
    }
    for (int64_t row = b->from; row < b->end;) {
        int64_t rows = zt_min_int(zt_min_int(dense - row % dense, zt_min_int(SPAN, fitting)), b->end - row);
        const float *x = job->x + start + offset_of(plan, true, last, row);
        if (shift)
            exponentials(&(struct terms){ x, shift, step, 1, rows, b->columns }, v);
        zt_rows_functions()[fold->id](
            &(struct zt_row_block){ shift ? v : x, shift ? b->columns : step, rows, b->columns, part, total });
        fold->flush(b->columns, part, total);
        row += rows;
    }
}

/* shift NULL: none. */
static void give(const struct job *job, const struct block *b, const double *total, const float *shift) {
    const struct plan *plan = job->plan;
    float *y = job->y + zt_reduce_row(&plan->channels, b->row, plan->dim[plan->axes - 1]) + b->first;
    for (int64_t k = 0; k < b->columns; k++)
        y[k] = (float)finish(plan, total[k], shift ? (double)shift[k] : 0);
}

static void kept_last(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct plan *plan = job->plan;
    const struct block b = block_of(plan, unit);
    double total[COLUMNS];
    float shift[SHIFTED_COLUMNS];
    if (!plan->kind->shifted) {
        fold_columns(job, &folds[plan->kind->fold], &b, NULL, total);
        if (plan->pieces > 1)
            memcpy(job->left + unit * COLUMNS, total, (size_t)b.columns * sizeof *total);
        else
            give(job, &b, total, NULL);
        return;
    }
    fold_columns(job, &folds[ZT_FOLD_max], &b, NULL, total);
    for (int64_t k = 0; k < b.columns; k++)
        shift[k] = shift_of(total[k]);
    fold_columns(job, &folds[ZT_FOLD_sum], &b, shift, total);
    give(job, &b, total, shift);
}

/* Joins the pieces of a block. */
static void join_pieces(const struct job *job, int64_t block) {
    const struct plan *plan = job->plan;
    const struct block b = block_of(plan, block * plan->pieces);
    double *total = job->left + block * plan->pieces * COLUMNS;
    for (int64_t piece = 1; piece < plan->pieces; piece++)
        for (int64_t k = 0; k < b.columns; k++)
            total[k] = folds[plan->kind->fold].merge(total[k], total[piece * COLUMNS + k]);
    give(job, &b, total, NULL);
}

bool zt_reduce_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct plan *plan = call->state;
    struct job job = { plan, call->in[0].data, call->out[0].data, call->workspace };
    int threads = zt_shape_count(&call->in[0].shape) < FEW ? 1 : call->threads;
    if (plan->reduced[plan->axes - 1]) {
        zt_parallel_for(threads, (plan->results + RESULTS - 1) / RESULTS, reduced_last, &job);
        return true;
    }
    const int64_t blocks = plan->results / plan->dim[plan->axes - 1] * plan->blocks;
    zt_parallel_for(threads, blocks * plan->pieces, kept_last, &job);
    for (int64_t block = 0; plan->pieces > 1 && block < blocks; block++)
        join_pieces(&job, block);
    return true;
}
