/* Gather and its gradient. Indices are read once, into the workspace, whatever integers they are.
 *
 * x is [outer][size][inner], y [outer][count][inner]: row k of y is row index[k] of x. Forwards threads share the rows.
 * Backwards they share the columns, so that each adds the rows of dy in their order, whatever indices repeat; how many
 * columns a thread has changes no result. */
#include "ops/movement/gather_cpu.h"

#include "device/threads.h"
#include "ops/movement/gather.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    INDICES = 1 << 12, /* that a thread reads at a time */
    BYTES = 1 << 16,   /* of rows that a thread copies at a time */
    ZEROS = 1 << 16,   /* floats that a thread clears at a time */
    ADDED = 1 << 12,   /* elements that a thread adds at a time, at least */
    COLUMNS = 16,      /* a line of the cache */
    AHEAD = 4,         /* rows fetched ahead */
};

struct job {
    const struct zt_call *call;
    int64_t outer, size, count, inner;
    int64_t *index;
    int outside;             /* set by any thread */
    size_t bytes;            /* of a row */
    int64_t rows;            /* a block */
    int64_t columns, blocks; /* of columns */
    int64_t places;          /* of the outer axes that a thread adds to at a time */
    float *dx;
    const float *dy;
};

/* `x`: the tensor that is indexed. */
static struct job job_of(const struct zt_call *call, const struct zt_view *x) {
    const int axis = zt_gather_axis(call->node, x->shape.rank);
    struct job job = { .call = call,
                       .outer = zt_dims(&x->shape, 0, axis),
                       .size = x->shape.dim[axis],
                       .count = zt_shape_count(&call->in[1].shape),
                       .inner = zt_dims(&x->shape, axis + 1, x->shape.rank),
                       .index = call->workspace };
    job.bytes = zt_dtype_bytes(x->dtype) * (size_t)job.inner;
    return job;
}

static void read_block(void *arg, int64_t block) {
    struct job *job = arg;
    const struct zt_view *indices = &job->call->in[1];
    const int64_t first = block * INDICES, n = zt_min_int(INDICES, job->count - first);
    bool outside = false;
    zt_load_block_int(indices->dtype, indices->data, first, 1, n, job->index + first);
    for (int64_t k = first; k < first + n; k++) {
        job->index[k] = zt_wrap_index(job->index[k], job->size);
        outside |= job->index[k] < 0;
    }
    if (outside)
        __atomic_store_n(&job->outside, 1, __ATOMIC_RELAXED);
}

/* Fills job->index; false where one is outside. */
static bool read_indices(struct job *job, struct zt_err *err) {
    const struct zt_view *indices = &job->call->in[1];
    zt_parallel_for(zt_threads_worth(job->call->threads, (double)job->count), zt_ceil_div(job->count, INDICES),
                    read_block, job);
    for (int64_t k = 0; k < job->count && job->outside; k++)
        if (job->index[k] < 0)
            return zt_call_fail(job->call, err, "index %lld at place %lld is outside an axis of %lld",
                                (long long)zt_load_int(indices->dtype, indices->data, k), (long long)k,
                                (long long)job->size);
    return true;
}

bool zt_gather_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    p->workspace_bytes = sizeof(int64_t) * (size_t)zt_shape_count(&zt_in(p->graph, p->node, 1)->shape);
    p->in_layout[0] = p->in_layout[1] = NULL;
    return true;
}

/* ---- y ---- */

#define ELEMENTS(TYPE)                                                                                                 \
    for (int64_t k = first; k < end; k++)                                                                              \
    ((TYPE *)to)[k] = ((const TYPE *)from)[job->index[k]]

/* Rows first..end-1 at one place of the outer axes. */
static void copy_rows(const struct job *job, int64_t first, int64_t end, const char *from, char *to) {
    if (job->bytes == 4)
        ELEMENTS(uint32_t);
    else if (job->bytes == 8)
        ELEMENTS(uint64_t);
    else
        for (int64_t k = first; k < end; k++) {
            if (k + AHEAD < job->count)
                __builtin_prefetch(zt_element((void *)from, job->bytes, job->index[k + AHEAD]));
            memcpy(to + (size_t)k * job->bytes, from + (size_t)job->index[k] * job->bytes, job->bytes);
        }
}

static void copy_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const int64_t end = zt_min_int((block + 1) * job->rows, job->outer * job->count);
    int64_t row = block * job->rows, o = row / job->count, first = row % job->count;
    for (; row < end; o++, first = 0) {
        const int64_t n = zt_min_int(job->count - first, end - row);
        copy_rows(job, first, first + n, zt_element(job->call->in[0].data, job->bytes, o * job->size),
                  zt_element(job->call->out[0].data, job->bytes, o * job->count));
        row += n;
    }
}

/* An element of each row of x: one index on the last axis. */
static bool takes_elements(const struct job *job) {
    return job->count == 1 && job->inner == 1;
}

#define SELECTED(TYPE)                                                                                                 \
    for (int64_t o = first; o < end; o++)                                                                              \
    ((TYPE *)to)[o] = ((const TYPE *)from)[o * job->size + job->index[0]]

static void copy_elements(void *arg, int64_t block) {
    const struct job *job = arg;
    const int64_t first = block * job->rows, end = zt_min_int(first + job->rows, job->outer);
    const void *from = job->call->in[0].data;
    void *to = job->call->out[0].data;
    if (job->bytes == 4)
        SELECTED(uint32_t);
    else
        SELECTED(uint64_t);
}

bool zt_gather_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job job = job_of(call, &call->in[0]);
    const int64_t rows = job.outer * job.count;
    if (rows == 0 || job.inner == 0)
        return true;
    if (!read_indices(&job, err))
        return false;
    job.rows = zt_max_int(1, (int64_t)(BYTES / job.bytes));
    zt_parallel_for(zt_threads_worth(call->threads, (double)(rows * job.inner)), zt_ceil_div(rows, job.rows),
                    takes_elements(&job) && (job.bytes == 4 || job.bytes == 8) ? copy_elements : copy_block, &job);
    return true;
}

/* ---- dx ---- */

bool zt_gather_grad_cpu_supports(const struct zt_graph *g, int node) {
    return zt_in(g, node, 0)->dtype == ZT_FLOAT;
}

static void clear_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const int64_t first = block * ZEROS, count = job->outer * job->size * job->inner;
    memset(job->dx + first, 0, (size_t)zt_min_int(ZEROS, count - first) * sizeof *job->dx);
}

/* Columns [first, first + width) at place o of the outer axes. */
static void add_columns(const struct job *job, int64_t o, int64_t first, int64_t width) {
    float *dx = job->dx + o * job->size * job->inner + first;
    const float *dy = job->dy + o * job->count * job->inner + first;
    for (int64_t k = 0; k < job->count; k++) {
        float *restrict to = dx + job->index[k] * job->inner;
        const float *restrict from = dy + k * job->inner;
        if (k + AHEAD < job->count)
            __builtin_prefetch(dx + job->index[k + AHEAD] * job->inner, 1);
        for (int64_t e = 0; e < width; e++)
            to[e] += from[e];
    }
}

/* A block of columns at some places of the outer axes. */
static void add_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const int64_t o = block / job->blocks * job->places, first = block % job->blocks * job->columns;
    const int64_t width = zt_min_int(job->columns, job->inner - first), end = zt_min_int(o + job->places, job->outer);
    for (int64_t k = o; k < end; k++)
        add_columns(job, k, first, width);
}

/* job->places elements, each of a row of dx. */
static void add_elements(void *arg, int64_t block) {
    const struct job *job = arg;
    const int64_t end = zt_min_int((block + 1) * job->places, job->outer);
    for (int64_t o = block * job->places; o < end; o++)
        job->dx[o * job->size + job->index[0]] += job->dy[o];
}

bool zt_gather_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job job = job_of(call, &call->out[0]);
    job.dx = call->out[0].data;
    job.dy = call->in[0].data;
    const int64_t elems = job.outer * job.size * job.inner, added = job.outer * job.count * job.inner;
    if (!read_indices(&job, err))
        return false;
    zt_parallel_for(zt_threads_worth(call->threads, (double)elems), zt_ceil_div(elems, ZEROS), clear_block, &job);
    if (added == 0)
        return true;
    const int threads = zt_threads_worth(call->threads, (double)added);
    job.columns = zt_max_int(1, zt_ceil_div(zt_ceil_div(job.inner, threads), COLUMNS)) * COLUMNS;
    job.blocks = zt_ceil_div(job.inner, job.columns);
    job.places = zt_max_int(1, ADDED / (job.count * zt_min_int(job.columns, job.inner)));
    zt_parallel_for(threads, zt_ceil_div(job.outer, job.places) * job.blocks,
                    takes_elements(&job) ? add_elements : add_block, &job);
    return true;
}
