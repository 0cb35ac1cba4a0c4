/* Input planes get margins of zeros as wide as windows reach outside, so that all results of a phase (axis_cpu.h) read
 * the same taps. To w: tap by tap, the products of y with the elements of x that the results of "to y" read.
 *
 * A unit of work is a plane of a block of channels; of weight gradients, a block over a piece of the batch. The pieces
 * are added in order. */
#include "ops/conv/group_cpu.h"

#include "device/threads.h"
#include "ops/conv/axis_cpu.h"
#include "ops/conv/simd/simd_group.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/cpu/block_sum.h"
#include "ops/cpu/fetch.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    AXES = ZT_CONV_AXES,
    PIECES = 16,
    RESULTS = 64 /* at least, of a call */,
    LINE = 16 /* floats of a cache line */
};
static const int64_t most_elems = INT64_C(1) << 22; /* of a plane with margins */

/* Results whose taps are the same. */
struct phase {
    struct zt_simd_group grid;
    int64_t first; /* elements to the first of them */
};

struct zt_conv_group {
    const struct zt_simd_group_kernel *kernel;
    enum zt_conv_direction direction;
    int64_t n, channels, blocks, pieces; /* blocks: of channels, the last may have unused ones */
    struct zt_conv_sizes size[AXES];
    int phases_along[AXES];
    int taps;
    int64_t lead[AXES], wide[AXES]; /* margins before the input plane, and its sizes with all margins */
    bool margins;
    struct phase *phase;
    int phases;
};

/* ---- geometry ---- */

static void set_margins(struct zt_conv_group *g) {
    for (int a = 0; a < AXES; a++) {
        const int64_t size = g->direction == ZT_CONV_TO_X ? g->size[a].out : g->size[a].in;
        int64_t least = 0, most = size - 1;
        for (int phase = 0; phase < g->phases_along[a]; phase++) {
            struct zt_conv_axis axis;
            zt_conv_axis_read(&g->size[a], g->direction, phase, &axis);
            for (int i = 0; i < axis.taps; i++) {
                least = zt_min_int(least, axis.at[i]);
                most = zt_max_int(most, axis.at[i] + (axis.count - 1) * axis.advance);
            }
        }
        g->lead[a] = -least;
        g->wide[a] = most - least + 1;
        g->margins |= g->wide[a] != size;
    }
}

static void set_phase(const struct zt_conv_group *g, int phase, struct phase *to) {
    const int vector = g->kernel->vector;
    const int64_t width = g->direction == ZT_CONV_TO_X ? g->size[1].in : g->size[1].out;
    struct zt_simd_group *grid = &to->grid;
    struct zt_conv_axis rows, cols;
    zt_conv_axis_read(&g->size[0], g->direction, phase / g->phases_along[1], &rows);
    zt_conv_axis_read(&g->size[1], g->direction, phase % g->phases_along[1], &cols);
    to->first = (rows.first * width + cols.first) * vector;
    grid->rows = rows.count;
    grid->cols = cols.count;
    grid->x_row = rows.advance * g->wide[1] * vector;
    grid->x_step = cols.advance * vector;
    grid->y_row = rows.step * width * vector;
    grid->y_step = cols.step * vector;
    for (int i = 0; i < rows.taps; i++)
        for (int j = 0; j < cols.taps; j++) {
            const int64_t row = g->lead[0] + rows.at[i], col = g->lead[1] + cols.at[j];
            grid->x[grid->taps] = (row * g->wide[1] + col) * vector;
            grid->w[grid->taps++] = (rows.tap[i] * g->size[1].kernel + cols.tap[j]) * g->kernel->width * vector;
        }
}

bool zt_conv_group_fits(const struct zt_conv *c) {
    const struct zt_simd_group_kernel *kernel = zt_simd_group_kernel(c->c / c->groups);
    return kernel && c->m == c->c && (c->groups > 1 || c->c % kernel->vector == 0) && c->window.axes <= AXES &&
           c->window.kernel_elems <= ZT_GROUP_TAPS;
}

const struct zt_conv_group *zt_conv_group_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_dtype dtype,
                                               enum zt_conv_direction direction) {
    const struct zt_simd_group_kernel *kernel = zt_simd_group_kernel(c->c / c->groups);
    if (dtype != ZT_FLOAT || !zt_conv_group_fits(c))
        return NULL;
    struct zt_conv_group *g = ZT_NEW(arena, struct zt_conv_group);
    *g = (struct zt_conv_group){ .kernel = kernel,
                                 .direction = direction,
                                 .n = c->n,
                                 .channels = c->c,
                                 .blocks = zt_ceil_div(c->c, kernel->vector) };
    int phases = 1;
    for (int a = 0; a < AXES; a++) {
        g->size[a] = zt_conv_sizes_of(&c->window, a);
        g->phases_along[a] = zt_conv_axis_phases(&g->size[a], direction);
        phases *= g->phases_along[a];
    }
    g->taps = (int)c->window.kernel_elems;
    g->pieces = zt_min_int(c->n, zt_ceil_div(PIECES, g->blocks));
    if (phases == 0 || phases > ZT_CONV_AXIS_PHASES)
        return NULL;
    set_margins(g);
    if (g->wide[0] > most_elems || g->wide[1] > most_elems || g->wide[0] * g->wide[1] * kernel->vector > most_elems)
        return NULL;
    g->phases = phases;
    g->phase = ZT_NEW_N(arena, struct phase, g->phases);
    for (int i = 0; i < g->phases; i++)
        set_phase(g, i, &g->phase[i]);
    return g;
}

const struct zt_layout *zt_conv_group_layout(const struct zt_conv_group *g, struct zt_arena *arena,
                                             const struct zt_shape *shape) {
    return zt_layout_of(arena, ZT_ORDER_BLOCKED, g->kernel->vector, ZT_FLOAT, shape);
}

/* ---- workspace: [ weights or their partial sums | a plane with margins a thread ] ---- */

/* Elements to the bias of a block, which stands behind its weights, [tap][width][vector]. */
static int64_t bias_at(const struct zt_conv_group *g) {
    return (int64_t)g->taps * g->kernel->width * g->kernel->vector;
}

/* Elements of a block's weights and bias. */
static int64_t weight_elems(const struct zt_conv_group *g) {
    return bias_at(g) + g->kernel->vector;
}

/* Channels of a block. */
static int channels_of(const struct zt_conv_group *g, int64_t block) {
    return (int)zt_min_int(g->kernel->vector, g->channels - block * g->kernel->vector);
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
    const bool to_x = g->direction == ZT_CONV_TO_X;
    const int64_t size[AXES] = { to_x ? g->size[0].out : g->size[0].in, to_x ? g->size[1].out : g->size[1].in };
    const int64_t row = g->wide[1] * g->kernel->vector;
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
        zt_fetch_ahead(plane + (r - g->lead[0]) * inside, inside);
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
    const struct zt_planes_weights *weights;
    float *packed, *scratch; /* weights or their partial sums, planes */
};

/* Unused channels have zeros, so that their results are zeros. */
static void pack_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const struct zt_conv_group *g = job->g;
    const float *bias = job->planes->bias;
    const int vector = g->kernel->vector, channels = channels_of(g, block);
    float *to = job->packed + block * weight_elems(g);
    memset(to, 0, (size_t)weight_elems(g) * sizeof *to);
    for (int t = 0; t < g->taps; t++)
        for (int k = 0; k < g->kernel->width; k++, to += vector)
            for (int l = 0; l < channels; l++)
                to[l] = job->planes->weight[weight_at(g, block, l, k, t, g->direction == ZT_CONV_TO_Y)];
    for (int l = 0; bias && l < channels; l++)
        to[l] = bias[block * vector + l];
}

/* A plane with its margins, the next plane that is read, and the results. */
struct on_plane {
    const float *from, *next;
    float *to;
    int64_t next_elems, block;
};

static void fetch(const float *from, const float *end) {
    for (; from < end; from += LINE)
        __builtin_prefetch(from, 0, 2);
}

/* Some rows at a time; with the first phase the next plane is fetched meanwhile. */
static void run_phase(const struct job *job, int phase, const struct on_plane *p) {
    const struct zt_conv_group *g = job->g;
    const float *weights = job->packed + p->block * weight_elems(g);
    struct zt_simd_group part = g->phase[phase].grid;
    const int64_t rows = part.rows, beside = zt_max_int(1, RESULTS / zt_max_int(1, part.cols));
    for (int64_t r = 0; r < rows; r += beside) {
        part.rows = zt_min_int(beside, rows - r);
        if (phase == 0)
            fetch(p->next + p->next_elems * r / rows, p->next + p->next_elems * (r + part.rows) / rows);
        g->kernel->run(&part, p->from + r * part.x_row, weights, weights + bias_at(g), job->planes->relu,
                       p->to + g->phase[phase].first + r * part.y_row);
    }
}

/* Also clears the channels that the last block does not use, where the activation gives others than 0 there. */
static void activate(const struct job *job, int64_t block, const float *from, int64_t elems, float *to) {
    const struct zt_activation *activation = &job->planes->activation;
    const int vector = job->g->kernel->vector, channels = channels_of(job->g, block);
    zt_activation_run(activation, ZT_FLOAT, elems, from, to);
    for (int64_t i = 0; channels < vector && !activation->keeps_zero && i < elems; i += vector)
        memset(to + i + channels, 0, (size_t)(vector - channels) * sizeof *to);
}

static void run_plane(void *arg, int64_t plane) {
    const struct job *job = arg;
    const struct zt_conv_group *g = job->g;
    const int vector = g->kernel->vector;
    const int64_t x = g->size[0].in * g->size[1].in * vector, y = g->size[0].out * g->size[1].out * vector,
                  block = plane % g->blocks;
    const bool to_x = g->direction == ZT_CONV_TO_X;
    const int64_t from_elems = to_x ? y : x, elems = to_x ? x : y;
    const float *plane_from = job->planes->from + plane * from_elems, *next = plane_from + from_elems;
    const float *from = with_margins(g, plane_from, job->scratch + zt_parallel_thread() * plane_elems(g));
    float *to = job->planes->to + plane * elems;
    for (int i = 0; i < g->phases; i++)
        run_phase(job, i, &(struct on_plane){ from, next, to, from_elems, block });
    if (job->planes->activation.run)
        activate(job, block, to, elems, job->planes->activated + plane * elems);
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
    const int64_t x = g->size[0].in * g->size[1].in * vector, y = g->size[0].out * g->size[1].out * vector;
    const int64_t block = unit / g->pieces, piece = unit % g->pieces;
    float *sums = job->packed + unit * weight_elems(g), *scratch = job->scratch + zt_parallel_thread() * plane_elems(g);
    memset(sums, 0, (size_t)weight_elems(g) * sizeof *sums);
    for (int64_t n = g->n * piece / g->pieces; n < g->n * (piece + 1) / g->pieces; n++) {
        const float *dy = (const float *)job->weights->dy + (n * g->blocks + block) * y;
        fetch(dy, dy + y);
        if (job->weights->dw)
            g->kernel->weight_gradient(
                &g->phase->grid, with_margins(g, (const float *)job->weights->x + (n * g->blocks + block) * x, scratch),
                dy, sums);
        if (job->weights->db)
            add_plane(dy, g->size[0].out * g->size[1].out, vector, sums + bias_at(g));
    }
}

/* The pieces of a block added in order, to plain weights. */
static void finish_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const struct zt_conv_group *g = job->g;
    const int vector = g->kernel->vector, width = g->kernel->width;
    const int channels = channels_of(g, block);
    float *sums = job->packed + block * g->pieces * weight_elems(g);
    zt_sum_blocks(sums, weight_elems(g), g->pieces, 1);
    for (int i = 0; job->weights->dw && i < bias_at(g); i++) {
        const int tap = i / vector / width, channel = i % vector, other = (channel + i / vector) % width;
        if (channel >= channels)
            continue;
        float *to = job->weights->dw + weight_at(g, block, channel, other, tap, false);
        *to = job->weights->accumulate ? *to + sums[i] : sums[i];
    }
    for (int l = 0; job->weights->db && l < channels; l++)
        job->weights->db[block * vector + l] = sums[bias_at(g) + l];
}

void zt_conv_group_weight_gradient(const struct zt_conv_group *g, const struct zt_planes_weights *weights,
                                   void *workspace, int threads) {
    struct job job = { .g = g, .weights = weights, .packed = workspace };
    job.scratch = job.packed + weights_elems(g);
    zt_parallel_for(threads, g->blocks * g->pieces, gradient_piece, &job);
    zt_parallel_for(threads, g->blocks, finish_block, &job);
}
