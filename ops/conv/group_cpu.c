/* Input planes get margins of zeros as wide as windows reach outside, so that all results of a plane read the same
 * taps:
 *
 *     to y   result o reads x at o stride - pad + k dilation, tap k
 *     to x   result i meets y at (i + pad - k dilation) / stride where that divides: results that are equal modulo the
 *            stride read the same taps of y one after the other. There are stride x stride such phases
 *     to w   tap by tap, the products of y with the elements of x that the results of "to y" read
 *
 * A unit of work is a plane of a block of channels; of weight gradients, a block over a piece of the batch. The pieces
 * are added in order. */
#include "ops/conv/group_cpu.h"

#include "device/threads.h"
#include "ops/conv/simd_group.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/cpu/block_sum.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum { AXES = 2, PHASES = 16, PIECES = 16 };
static const int64_t most_elems = INT64_C(1) << 22; /* of a plane with margins */

/* Results whose taps are the same. */
struct phase {
    struct zt_simd_group grid;
    int64_t first; /* elements to the first of them */
};

struct zt_conv_group {
    const struct zt_simd_group_kernel *kernel;
    enum zt_conv_direction direction;
    int64_t n, blocks, pieces;
    int64_t in[AXES], out[AXES], kernel_size[AXES], stride[AXES], dilation[AXES], pad[AXES];
    int taps;
    int64_t lead[AXES], wide[AXES]; /* margins before the input plane, and its sizes with all margins */
    bool margins;
    struct phase *phase;
    int phases;
};

/* ---- geometry ---- */

static void read_axes(struct zt_conv_group *g, const struct zt_window *w) {
    for (int a = 0; a < AXES; a++) {
        const int from = a - (AXES - w->axes);
        g->in[a] = from < 0 ? 1 : w->in[from];
        g->out[a] = from < 0 ? 1 : w->out[from];
        g->kernel_size[a] = from < 0 ? 1 : w->kernel[from];
        g->stride[a] = from < 0 ? 1 : w->stride[from];
        g->dilation[a] = from < 0 ? 1 : w->dilation[from];
        g->pad[a] = from < 0 ? 0 : w->pad[from];
    }
}

/* The index of tap k of the first result of a phase along an axis of the input plane; false where the phase has no such
 * tap. */
static bool tap_at(const struct zt_conv_group *g, int axis, int64_t phase, int64_t k, int64_t *at) {
    const int64_t reach = k * g->dilation[axis], to_x = phase + g->pad[axis] - reach;
    *at = reach - g->pad[axis];
    if (g->direction != ZT_CONV_TO_X)
        return true;
    *at = to_x / g->stride[axis];
    return to_x % g->stride[axis] == 0;
}

static int64_t phases_along(const struct zt_conv_group *g, int axis) {
    return g->direction == ZT_CONV_TO_X ? g->stride[axis] : 1;
}

/* The number of results of a phase along an axis; step: from the input of a result to that of the next one. */
static int64_t results_along(const struct zt_conv_group *g, int axis, int64_t phase, int64_t *step) {
    *step = g->direction == ZT_CONV_TO_X ? 1 : g->stride[axis];
    return g->direction == ZT_CONV_TO_X ? zt_ceil_div(g->in[axis] - phase, g->stride[axis]) : g->out[axis];
}

static void set_margins(struct zt_conv_group *g) {
    for (int a = 0; a < AXES; a++) {
        const int64_t size = g->direction == ZT_CONV_TO_X ? g->out[a] : g->in[a];
        int64_t least = 0, most = size - 1, at, step;
        for (int64_t phase = 0; phase < phases_along(g, a); phase++)
            for (int64_t k = 0; k < g->kernel_size[a]; k++)
                if (tap_at(g, a, phase, k, &at)) {
                    least = zt_min_int(least, at);
                    const int64_t results = results_along(g, a, phase, &step);
                    most = zt_max_int(most, at + (results - 1) * step);
                }
        g->lead[a] = -least;
        g->wide[a] = most - least + 1;
        g->margins |= g->wide[a] != size;
    }
}

static void set_phase(const struct zt_conv_group *g, int64_t p0, int64_t p1, struct phase *to) {
    const int vector = g->kernel->vector;
    const int64_t width = g->direction == ZT_CONV_TO_X ? g->in[1] : g->out[1];
    const int64_t jump[AXES] = { g->direction == ZT_CONV_TO_X ? g->stride[0] : 1,
                                 g->direction == ZT_CONV_TO_X ? g->stride[1] : 1 };
    struct zt_simd_group *grid = &to->grid;
    int64_t step[AXES], row, col;
    to->first = (p0 * width + p1) * vector;
    grid->rows = results_along(g, 0, p0, &step[0]);
    grid->cols = results_along(g, 1, p1, &step[1]);
    grid->x_row = step[0] * g->wide[1] * vector;
    grid->x_step = step[1] * vector;
    grid->y_row = jump[0] * width * vector;
    grid->y_step = jump[1] * vector;
    for (int64_t k = 0; k < g->taps; k++)
        if (tap_at(g, 0, p0, k / g->kernel_size[1], &row) && tap_at(g, 1, p1, k % g->kernel_size[1], &col)) {
            grid->x[grid->taps] = ((g->lead[0] + row) * g->wide[1] + g->lead[1] + col) * vector;
            grid->w[grid->taps++] = k * g->kernel->width * vector;
        }
}

const struct zt_conv_group *zt_conv_group_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_dtype dtype,
                                               enum zt_conv_direction direction) {
    const int64_t width = c->c / c->groups;
    const struct zt_simd_group_kernel *kernel = zt_simd_group_kernel(width);
    if (dtype != ZT_FLOAT || !kernel || c->m != c->c || c->c % kernel->vector || c->window.axes > AXES ||
        c->window.kernel_elems > ZT_GROUP_TAPS)
        return NULL;
    struct zt_conv_group *g = ZT_NEW(arena, struct zt_conv_group);
    *g = (struct zt_conv_group){ .kernel = kernel, .direction = direction, .n = c->n, .blocks = c->c / kernel->vector };
    read_axes(g, &c->window);
    g->taps = (int)c->window.kernel_elems;
    g->pieces = zt_min_int(c->n, zt_ceil_div(PIECES, g->blocks));
    if (g->stride[0] > PHASES || g->stride[1] > PHASES || g->pad[0] < 0 || g->pad[1] < 0)
        return NULL;
    set_margins(g);
    if (g->wide[0] > most_elems || g->wide[1] > most_elems || g->wide[0] * g->wide[1] * kernel->vector > most_elems)
        return NULL;
    const int64_t phases = phases_along(g, 0) * phases_along(g, 1);
    if (phases > PHASES)
        return NULL;
    g->phases = (int)phases;
    g->phase = ZT_NEW_N(arena, struct phase, g->phases);
    for (int i = 0; i < g->phases; i++)
        set_phase(g, i / phases_along(g, 1), i % phases_along(g, 1), &g->phase[i]);
    return g;
}

const struct zt_layout *zt_conv_group_layout(const struct zt_conv_group *g, struct zt_arena *arena,
                                             const struct zt_shape *shape) {
    return zt_layout_of(arena, ZT_ORDER_BLOCKED, g->kernel->vector, ZT_FLOAT, shape);
}

/* ---- workspace: [ weights or their partial sums | a plane with margins a thread ] ---- */

/* Elements of a block's weights, [tap][width][vector]; a partial sum has a vector more, that of the bias. */
static int64_t weight_elems(const struct zt_conv_group *g) {
    return (int64_t)(g->taps * g->kernel->width + (g->direction == ZT_CONV_TO_W)) * g->kernel->vector;
}

static int64_t weights_elems(const struct zt_conv_group *g) {
    return zt_ceil_div(weight_elems(g) * g->blocks * (g->direction == ZT_CONV_TO_W ? g->pieces : 1), 16) * 16;
}

static int64_t plane_elems(const struct zt_conv_group *g) {
    return g->margins ? g->wide[0] * g->wide[1] * g->kernel->vector : 0;
}

size_t zt_conv_group_bytes(const struct zt_conv_group *g, int threads) {
    return (size_t)(weights_elems(g) + plane_elems(g) * (threads > 0 ? threads : 1)) * sizeof(float);
}

/* An input plane with margins: the plane itself where there are none, else a copy at `to`. */
static const float *with_margins(const struct zt_conv_group *g, const float *plane, float *to) {
    const int64_t *size = g->direction == ZT_CONV_TO_X ? g->out : g->in, row = g->wide[1] * g->kernel->vector;
    const int64_t before = g->lead[1] * g->kernel->vector, inside = size[1] * g->kernel->vector;
    if (!g->margins)
        return plane;
    for (int64_t r = 0; r < g->wide[0]; r++) {
        float *out = to + r * row;
        if (r < g->lead[0] || r >= g->lead[0] + size[0]) {
            memset(out, 0, (size_t)row * sizeof *out);
            continue;
        }
        memset(out, 0, (size_t)before * sizeof *out);
        memcpy(out + before, plane + (r - g->lead[0]) * inside, (size_t)inside * sizeof *out);
        memset(out + before + inside, 0, (size_t)(row - before - inside) * sizeof *out);
    }
    return to;
}

/* Element of the plain weight [channel][width][tap]: `channel` is one of the block, `other` one of the same group.
 * of_y: `channel` belongs to y and `other` to x, else the reverse. */
static int64_t weight_at(const struct zt_conv_group *g, int64_t block, int channel, int other, int tap, bool of_y) {
    const int width = g->kernel->width, group = channel / width * width;
    const int64_t out = block * g->kernel->vector + (of_y ? channel : group + other);
    return (out * width + (of_y ? other : channel - group)) * g->taps + tap;
}

/* ---- to y, to x ---- */

struct job {
    const struct zt_conv_group *g;
    const struct zt_conv_group_planes *planes;
    const struct zt_conv_weights *weights;
    float *packed, *scratch; /* weights or their partial sums, planes */
};

static void pack_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const struct zt_conv_group *g = job->g;
    float *to = job->packed + block * weight_elems(g);
    for (int t = 0; t < g->taps; t++)
        for (int k = 0; k < g->kernel->width; k++)
            for (int l = 0; l < g->kernel->vector; l++)
                *to++ = job->planes->weight[weight_at(g, block, l, k, t, g->direction == ZT_CONV_TO_Y)];
}

static void run_plane(void *arg, int64_t plane) {
    static const float no_bias[16];
    const struct job *job = arg;
    const struct zt_conv_group *g = job->g;
    const int vector = g->kernel->vector;
    const int64_t x = g->in[0] * g->in[1] * vector, y = g->out[0] * g->out[1] * vector, block = plane % g->blocks;
    const bool to_x = g->direction == ZT_CONV_TO_X;
    const float *from = with_margins(g, job->planes->from + plane * (to_x ? y : x),
                                     job->scratch + zt_parallel_thread() * plane_elems(g));
    const float *bias = job->planes->bias ? job->planes->bias + block * vector : no_bias;
    const int64_t elems = to_x ? x : y;
    float *to = job->planes->to + plane * elems;
    for (int i = 0; i < g->phases; i++)
        g->kernel->run(&g->phase[i].grid, from, job->packed + block * weight_elems(g), bias, job->planes->relu,
                       to + g->phase[i].first);
    if (job->planes->activation.run)
        zt_activation_run(&job->planes->activation, ZT_FLOAT, elems, to, job->planes->activated + plane * elems);
}

void zt_conv_group_run(const struct zt_conv_group *g, const struct zt_conv_group_planes *planes, void *workspace,
                       int threads) {
    struct job job = { .g = g, .planes = planes, .packed = workspace };
    job.scratch = job.packed + weights_elems(g);
    zt_parallel_for(threads, g->blocks, pack_block, &job);
    zt_parallel_for(threads, g->n * g->blocks, run_plane, &job);
}

/* ---- to w ---- */

/* to[l] += sum over the plane */
static void add_plane(const float *plane, int64_t pixels, int vector, float *to) {
    float sum[16] = { 0 };
    for (int64_t p = 0; p < pixels; p++)
        for (int l = 0; l < vector; l++)
            sum[l] += plane[p * vector + l];
    for (int l = 0; l < vector; l++)
        to[l] += sum[l];
}

static void gradient_piece(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_conv_group *g = job->g;
    const int vector = g->kernel->vector;
    const int64_t x = g->in[0] * g->in[1] * vector, y = g->out[0] * g->out[1] * vector;
    const int64_t block = unit / g->pieces, piece = unit % g->pieces;
    float *sums = job->packed + unit * weight_elems(g), *scratch = job->scratch + zt_parallel_thread() * plane_elems(g);
    memset(sums, 0, (size_t)weight_elems(g) * sizeof *sums);
    for (int64_t n = g->n * piece / g->pieces; n < g->n * (piece + 1) / g->pieces; n++) {
        const float *dy = job->weights->dy + (n * g->blocks + block) * y;
        if (job->weights->dw)
            g->kernel->weight_gradient(
                &g->phase->grid, with_margins(g, job->weights->x + (n * g->blocks + block) * x, scratch), dy, sums);
        if (job->weights->db)
            add_plane(dy, g->out[0] * g->out[1], vector, sums + weight_elems(g) - vector);
    }
}

/* The pieces of a block added in order, to plain weights. */
static void finish_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const struct zt_conv_group *g = job->g;
    const int vector = g->kernel->vector, width = g->kernel->width;
    const int64_t elems = weight_elems(g);
    float *sums = job->packed + block * g->pieces * elems;
    zt_sum_blocks(sums, elems, g->pieces, 1);
    for (int i = 0; job->weights->dw && i < g->taps * width * vector; i++) {
        const int tap = i / vector / width, channel = i % vector, other = (channel + i / vector) % width;
        float *to = job->weights->dw + weight_at(g, block, channel, other, tap, false);
        *to = job->weights->accumulate ? *to + sums[i] : sums[i];
    }
    for (int l = 0; job->weights->db && l < vector; l++)
        job->weights->db[block * vector + l] = sums[elems - vector + l];
}

void zt_conv_group_weight_gradient(const struct zt_conv_group *g, const struct zt_conv_weights *weights,
                                   void *workspace, int threads) {
    struct job job = { .g = g, .weights = weights, .packed = workspace };
    job.scratch = job.packed + weights_elems(g);
    zt_parallel_for(threads, g->blocks * g->pieces, gradient_piece, &job);
    zt_parallel_for(threads, g->blocks, finish_block, &job);
}
