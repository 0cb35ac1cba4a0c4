/* DeformConv in float on the CPU: columns of sampled values, and products of matrices.
 *
 *     forward       a block of places of a sample:  taps -> columns [c, kernel, places] -> y = w columns
 *     grad input    some samples at a time:         columns = w^T dy; then planes of dx, then taps of doffset and dmask
 *     grad weight   some samples at a time:         taps -> columns; then dw += dy columns^T, sample by sample
 *
 * A tap's cell is found once for all channels of its offset group. Blocks depend on the shape alone, a plane of dx is
 * summed up by one thread in the order of taps and places, and dw is summed up over the samples in order. */
#include "ops/detection/deform_conv.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/detection/kernels.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum { AXES = 3, CORNERS = 1 << AXES };

/* Bytes of the columns of a block of places, which stay in the second cache, and of the samples that run together. */
static const int64_t block_bytes = 1 << 19, together_bytes = 1 << 23;
enum { FEWEST_PLACES = 32 };

/* Pixels and weights that a tap reads at a position. */
struct tap {
    int32_t pixel[CORNERS]; /* -1: outside */
    float weight[CORNERS];  /* times the mask */
    float part[AXES], mask;
};

struct plan {
    struct zt_deform_conv d;
    const struct zt_simd_gemm_kernel *kernel;
    struct zt_simd_gemm gemm;                     /* of a group and a sample; forward: of a whole block of places */
    int64_t depth, taps;                          /* rows of columns of a group; taps of a place */
    int64_t block;                                /* forward: places of a block; else samples that run together */
    size_t taps_bytes, columns_bytes, gemm_bytes; /* forward: a thread's, else all */
};

/* ---- preparation ---- */

static bool supports(const struct zt_graph *g, int node) {
    const struct zt_deform_inputs *in = zt_deform_inputs(g->nodes[node]);
    struct zt_deform_conv d;
    struct zt_err err = { 0 };
    if (zt_in(g, node, 0)->dtype != ZT_FLOAT || !zt_simd_gemm_best() || !in->read(g, node, &d, &err))
        return false;
    const struct zt_window *w = &d.conv.window;
    return w->axes <= AXES && w->in_elems <= INT32_MAX && w->in_elems > 0 && w->out_elems > 0 && d.conv.n > 0 &&
           d.conv.c > 0 && d.conv.m > 0;
}

bool zt_deform_conv_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node);
}
bool zt_deform_conv_grad_input_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node);
}
bool zt_deform_conv_grad_weight_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node);
}

static struct plan *start_plan(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    struct plan *s = zt_calloc(1, sizeof *s);
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    for (int i = 0; i < n->out_count; i++)
        p->out_layout[i] = NULL;
    if (!zt_deform_inputs(n)->read(p->graph, p->node, &s->d, err)) {
        free(s);
        return NULL;
    }
    s->kernel = zt_simd_gemm_best();
    s->depth = s->d.conv.c / s->d.conv.groups * s->d.conv.window.kernel_elems;
    s->taps = s->d.offset_groups * s->d.conv.window.kernel_elems;
    return s;
}

static int64_t column_rows(const struct plan *s) {
    return s->d.conv.c * s->d.conv.window.kernel_elems;
}

bool zt_deform_conv_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct plan *s = start_plan(p, err);
    if (!s)
        return false;
    const int64_t places = s->d.conv.window.out_elems, rows = s->d.conv.m / s->d.conv.groups;
    const int64_t fit = block_bytes / (column_rows(s) * (int64_t)sizeof(float)) / 16 * 16;
    s->block = zt_min_int(places, zt_max_int(fit, FEWEST_PLACES));
    s->gemm = (struct zt_simd_gemm){ .count = 1,
                                     .m = rows,
                                     .n = s->block,
                                     .k = s->depth,
                                     .a_row = s->depth,
                                     .a_col = 1,
                                     .b_row = s->block,
                                     .b_col = 1,
                                     .y_row = places,
                                     .bias_row = 1,
                                     .alpha = 1,
                                     .beta = 1 };
    s->taps_bytes = zt_align_64((size_t)(s->taps * s->block) * sizeof(struct tap));
    s->columns_bytes = zt_align_64((size_t)(column_rows(s) * s->block) * sizeof(float));
    s->gemm_bytes = zt_align_64(zt_simd_gemm_bytes(s->kernel, &s->gemm, 1));
    p->workspace_bytes = (s->taps_bytes + s->columns_bytes + s->gemm_bytes) * (size_t)(p->threads > 0 ? p->threads : 1);
    p->state = s;
    return true;
}

/* For the gradients: all samples that run together share the workspace. */
static void lay_out_samples(struct zt_prepare *p, struct plan *s) {
    const struct zt_window *w = &s->d.conv.window;
    const int64_t sample = column_rows(s) * w->out_elems;
    s->block = zt_max_int(1, zt_min_int(s->d.conv.n, together_bytes / (sample * (int64_t)sizeof(float))));
    s->taps_bytes = zt_align_64((size_t)(s->block * s->taps * w->out_elems) * sizeof(struct tap));
    s->columns_bytes = zt_align_64((size_t)(s->block * sample) * sizeof(float));
    s->gemm_bytes = zt_align_64(zt_simd_gemm_bytes(s->kernel, &s->gemm, p->threads > 0 ? p->threads : 1));
    p->workspace_bytes = s->taps_bytes + s->columns_bytes + s->gemm_bytes;
    p->state = s;
}

bool zt_deform_conv_grad_input_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct plan *s = start_plan(p, err);
    if (!s)
        return false;
    const int64_t places = s->d.conv.window.out_elems;
    s->gemm = (struct zt_simd_gemm){ .count = s->d.conv.groups,
                                     .m = s->depth,
                                     .n = places,
                                     .k = s->d.conv.m / s->d.conv.groups,
                                     .a_step = s->d.conv.m / s->d.conv.groups * s->depth,
                                     .a_row = 1,
                                     .a_col = s->depth,
                                     .b_step = s->d.conv.m / s->d.conv.groups * places,
                                     .b_row = places,
                                     .b_col = 1,
                                     .y_step = s->depth * places,
                                     .y_row = places,
                                     .alpha = 1 };
    lay_out_samples(p, s);
    return true;
}

bool zt_deform_conv_grad_weight_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct plan *s = start_plan(p, err);
    if (!s)
        return false;
    const int64_t places = s->d.conv.window.out_elems, rows = s->d.conv.m / s->d.conv.groups;
    s->gemm = (struct zt_simd_gemm){ .count = s->d.conv.groups,
                                     .m = rows,
                                     .n = s->depth,
                                     .k = places,
                                     .a_step = rows * places,
                                     .a_row = places,
                                     .a_col = 1,
                                     .b_step = s->depth * places,
                                     .b_row = 1,
                                     .b_col = places,
                                     .y_step = rows * s->depth,
                                     .y_row = s->depth,
                                     .alpha = 1 };
    lay_out_samples(p, s);
    return true;
}

void zt_deform_conv_cpu_release(void *state) {
    free(state);
}
void zt_deform_conv_grad_input_cpu_release(void *state) {
    free(state);
}
void zt_deform_conv_grad_weight_cpu_release(void *state) {
    free(state);
}

/* ---- taps and columns ---- */

struct job {
    const struct zt_call *call;
    const struct plan *s;
    const struct zt_view *offset;
    const float *x, *mask; /* mask NULL: none */
    int64_t first;         /* sample of the samples that run together */
    struct tap *taps;      /* [sample, tap, place] */
    float *columns;        /* [sample, c, kernel, place] */
};

static void find_tap(const struct job *job, const int64_t at[3], struct tap *to) {
    const struct plan *s = job->s;
    const struct zt_window *w = &s->d.conv.window;
    struct zt_deform_position p;
    zt_deform_position(&s->d, job->offset, at, &p);
    to->mask = job->mask ? job->mask[(at[0] * s->taps + at[1]) * w->out_elems + at[2]] : 1;
    for (int a = 0; a < w->axes; a++)
        to->part[a] = (float)p.part[a];
    for (int i = 0; i < 1 << w->axes; i++) {
        to->pixel[i] = (int32_t)zt_deform_pixel(&s->d, &p, i);
        to->weight[i] = (float)zt_deform_weight(w->axes, &p, i, -1) * to->mask;
    }
}

/* One row of columns. A macro's constant `corners` would do the same: the caller's constant unrolls the loop. */
static inline __attribute__((always_inline)) void read_places(const struct tap *tap, const float *x, int64_t count,
                                                              const int corners, float *to) {
    for (int64_t q = 0; q < count; q++) {
        float sum = 0;
        for (int i = 0; i < corners; i++)
            sum += tap[q].pixel[i] >= 0 ? tap[q].weight[i] * x[tap[q].pixel[i]] : 0;
        to[q] = sum;
    }
}

static void read_row(int axes, const struct tap *tap, const float *x, int64_t count, float *to) {
    if (axes == 1)
        read_places(tap, x, count, 2, to);
    else if (axes == 2)
        read_places(tap, x, count, 4, to);
    else
        read_places(tap, x, count, 8, to);
}

/* Channel c of a sample; taps and columns of `count` places. */
static void read_channel(const struct job *job, int64_t n, int64_t c, int64_t count, const struct tap *taps,
                         float *columns) {
    const struct zt_deform_conv *d = &job->s->d;
    const struct zt_window *w = &d->conv.window;
    const float *x = job->x + (n * d->conv.c + c) * w->in_elems;
    const struct tap *own = taps + c / (d->conv.c / d->offset_groups) * w->kernel_elems * count;
    for (int64_t k = 0; k < w->kernel_elems; k++)
        read_row(w->axes, own + k * count, x, count, columns + (c * w->kernel_elems + k) * count);
}

static const float *floats_in(const struct zt_call *call, int i) {
    return i >= 0 && i < call->in_count ? call->in[i].data : NULL;
}

static struct job start(const struct zt_call *call) {
    const struct zt_deform_inputs *in = zt_deform_inputs(call->node);
    const struct plan *s = call->state;
    return (struct job){ .call = call,
                         .s = s,
                         .offset = &call->in[in->offset],
                         .x = call->in[in->x].data,
                         .mask = floats_in(call, in->mask),
                         .taps = call->workspace,
                         .columns = (float *)((char *)call->workspace + s->taps_bytes) };
}

/* ---- forward ---- */

static void multiply_block(const struct job *job, int64_t n, int64_t first, int64_t count, const float *columns,
                           void *scratch) {
    const struct plan *s = job->s;
    const struct zt_conv *c = &s->d.conv;
    const int64_t rows = c->m / c->groups;
    const float *w = job->call->in[1].data, *bias = floats_in(job->call, 3);
    float *y = (float *)job->call->out[0].data + n * c->m * c->window.out_elems + first;
    struct zt_simd_gemm gemm = s->gemm;
    gemm.n = gemm.b_row = count;
    for (int64_t group = 0; group < c->groups; group++)
        zt_simd_gemm_run(s->kernel, &gemm,
                         &(struct zt_simd_gemm_operands){ .a = w + group * rows * s->depth,
                                                          .b = columns + group * s->depth * count,
                                                          .bias = bias ? bias + group * rows : NULL,
                                                          .y = y + group * rows * c->window.out_elems },
                         scratch, 1);
}

static void run_block(void *arg, int64_t at) {
    const struct job *job = arg;
    const struct plan *s = job->s;
    const int64_t places = s->d.conv.window.out_elems, blocks = zt_ceil_div(places, s->block);
    const int64_t n = at / blocks, first = at % blocks * s->block, count = zt_min_int(s->block, places - first);
    const size_t own = s->taps_bytes + s->columns_bytes + s->gemm_bytes;
    char *work = (char *)job->call->workspace + (size_t)zt_parallel_thread() * own;
    struct tap *taps = (struct tap *)work;
    float *columns = (float *)(work + s->taps_bytes);
    for (int64_t tap = 0; tap < s->taps; tap++)
        for (int64_t q = 0; q < count; q++)
            find_tap(job, (const int64_t[]){ n, tap, first + q }, &taps[tap * count + q]);
    for (int64_t c = 0; c < s->d.conv.c; c++)
        read_channel(job, n, c, count, taps, columns);
    multiply_block(job, n, first, count, columns, work + s->taps_bytes + s->columns_bytes);
}

bool zt_deform_conv_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct job job = start(call);
    const int64_t blocks = zt_ceil_div(job.s->d.conv.window.out_elems, job.s->block);
    zt_parallel_for(call->threads, job.s->d.conv.n * blocks, run_block, &job);
    return true;
}

/* ---- samples that run together ---- */

static void find_taps(void *arg, int64_t at) {
    const struct job *job = arg;
    const int64_t places = job->s->d.conv.window.out_elems, taps = job->s->taps;
    for (int64_t q = 0; q < places; q++)
        find_tap(job, (const int64_t[]){ job->first + at / taps, at % taps, q }, &job->taps[at * places + q]);
}

static struct tap *taps_of(const struct job *job, int64_t sample) {
    return job->taps + sample * job->s->taps * job->s->d.conv.window.out_elems;
}
static float *columns_of(const struct job *job, int64_t sample) {
    return job->columns + sample * column_rows(job->s) * job->s->d.conv.window.out_elems;
}

static void multiply_sample(const struct job *job, const struct zt_simd_gemm *gemm, const float *a, const float *b,
                            float *y) {
    char *scratch = (char *)job->call->workspace + job->s->taps_bytes + job->s->columns_bytes;
    zt_simd_gemm_run(job->s->kernel, gemm, &(struct zt_simd_gemm_operands){ .a = a, .b = b, .y = y }, scratch,
                     job->call->threads);
}

/* ---- gradient of the weight ---- */

static void read_plane(void *arg, int64_t at) {
    const struct job *job = arg;
    const struct zt_conv *c = &job->s->d.conv;
    const int64_t sample = at / c->c;
    read_channel(job, job->first + sample, at % c->c, c->window.out_elems, taps_of(job, sample),
                 columns_of(job, sample));
}

bool zt_deform_conv_grad_weight_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct job job = start(call);
    const struct zt_conv *c = &job.s->d.conv;
    const float *dy = call->in[1].data;
    struct zt_simd_gemm gemm = job.s->gemm;
    for (job.first = 0; job.first < c->n; job.first += job.s->block) {
        const int64_t samples = zt_min_int(job.s->block, c->n - job.first);
        zt_parallel_for(call->threads, samples * job.s->taps, find_taps, &job);
        zt_parallel_for(call->threads, samples * c->c, read_plane, &job);
        for (int64_t i = 0; i < samples; i++) {
            gemm.add = job.first + i > 0;
            multiply_sample(&job, &gemm, dy + (job.first + i) * c->m * c->window.out_elems, columns_of(&job, i),
                            call->out[0].data);
        }
    }
    return true;
}

/* ---- gradients of x, offset and mask ---- */

static inline __attribute__((always_inline)) void add_places(const struct tap *tap, const float *column, int64_t count,
                                                             const int corners, float *dx) {
    for (int64_t q = 0; q < count; q++)
        for (int i = 0; i < corners; i++)
            if (tap[q].pixel[i] >= 0)
                dx[tap[q].pixel[i]] += tap[q].weight[i] * column[q];
}

static void add_plane(void *arg, int64_t at) {
    const struct job *job = arg;
    const struct zt_deform_conv *d = &job->s->d;
    const struct zt_window *w = &d->conv.window;
    const int64_t sample = at / d->conv.c, c = at % d->conv.c, places = w->out_elems;
    const struct tap *taps = taps_of(job, sample) + c / (d->conv.c / d->offset_groups) * w->kernel_elems * places;
    const float *columns = columns_of(job, sample) + c * w->kernel_elems * places;
    float *dx = (float *)job->call->out[0].data + (job->first * d->conv.c + at) * w->in_elems;
    memset(dx, 0, (size_t)w->in_elems * sizeof *dx);
    if (w->axes == 1)
        add_places(taps, columns, w->kernel_elems * places, 2, dx);
    else if (w->axes == 2)
        add_places(taps, columns, w->kernel_elems * places, 4, dx);
    else
        add_places(taps, columns, w->kernel_elems * places, 8, dx);
}

/* q[corner] = sum over the channels of the group of the columns' gradient times x there, which doffset and dmask share.
 */
enum { PLACES = 64 };

static void sum_channels(const struct job *job, int64_t at, int64_t first, int64_t count, float (*q)[CORNERS]) {
    const struct zt_deform_conv *d = &job->s->d;
    const struct zt_window *w = &d->conv.window;
    const int64_t sample = at / job->s->taps, tap = at % job->s->taps, width = d->conv.c / d->offset_groups;
    const struct tap *taps = taps_of(job, sample) + tap * w->out_elems + first;
    const int corners = 1 << w->axes;
    for (int64_t c = tap / w->kernel_elems * width, end = c + width; c < end; c++) {
        const float *x = job->x + ((job->first + sample) * d->conv.c + c) * w->in_elems;
        const float *column =
            columns_of(job, sample) + (c * w->kernel_elems + tap % w->kernel_elems) * w->out_elems + first;
        for (int64_t p = 0; p < count; p++)
            for (int i = 0; i < corners; i++)
                if (taps[p].pixel[i] >= 0)
                    q[p][i] += column[p] * x[taps[p].pixel[i]];
    }
}

/* The sum over corners of weight (slope along axis `moved`) times q, without the mask. */
static float join_corners(int axes, const struct tap *tap, const float *q, int moved) {
    float sum = 0;
    for (int i = 0; i < 1 << axes; i++) {
        float weight = 1;
        for (int a = 0; a < axes; a++) {
            const bool upper = i >> a & 1;
            weight *= a == moved ? (upper ? 1 : -1) : upper ? tap->part[a] : 1 - tap->part[a];
        }
        sum += tap->pixel[i] >= 0 ? weight * q[i] : 0;
    }
    return sum;
}

static void move_tap(void *arg, int64_t at) {
    const struct job *job = arg;
    const struct zt_window *w = &job->s->d.conv.window;
    const struct tap *taps = job->taps + at * w->out_elems;
    const int64_t all = job->first * job->s->taps + at; /* over all samples */
    float *doffset = job->call->out[1].data, *dmask = job->call->out_count > 2 ? job->call->out[2].data : NULL;
    for (int64_t first = 0; first < w->out_elems; first += PLACES) {
        const int64_t count = zt_min_int(PLACES, w->out_elems - first);
        float q[PLACES][CORNERS] = { { 0 } };
        sum_channels(job, at, first, count, q);
        for (int64_t p = 0; p < count; p++) {
            const struct tap *tap = &taps[first + p];
            for (int a = 0; doffset && a < w->axes; a++)
                doffset[(all * w->axes + a) * w->out_elems + first + p] =
                    tap->mask * join_corners(w->axes, tap, q[p], a);
            if (dmask)
                dmask[all * w->out_elems + first + p] = join_corners(w->axes, tap, q[p], -1);
        }
    }
}

bool zt_deform_conv_grad_input_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct job job = start(call);
    const struct zt_conv *c = &job.s->d.conv;
    const float *w = call->in[1].data, *dy = call->in[3].data;
    for (job.first = 0; job.first < c->n; job.first += job.s->block) {
        const int64_t samples = zt_min_int(job.s->block, c->n - job.first);
        zt_parallel_for(call->threads, samples * job.s->taps, find_taps, &job);
        for (int64_t i = 0; i < samples; i++)
            multiply_sample(&job, &job.s->gemm, w, dy + (job.first + i) * c->m * c->window.out_elems,
                            columns_of(&job, i));
        if (call->out[0].data)
            zt_parallel_for(call->threads, samples * c->c, add_plane, &job);
        if (call->out_count > 1)
            zt_parallel_for(call->threads, samples * job.s->taps, move_tap, &job);
    }
    return true;
}
