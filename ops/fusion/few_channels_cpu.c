/* A unit of work is a band: some rows of the pool's results of one sample. Its rows of x are copied with their padding,
 * [channel][row][column]. Weights are ordered once a run, [group of output channels][tap][vector]: a tap is a place
 * of the kernel and an input channel, in the order in which oneDNN adds up the channels of one vector, so that a first
 * layer has the same bits with its pool and without.
 *
 * workspace: [ weights | bias | copy of each thread ] */
#include "ops/fusion/few_channels_cpu.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/fetch.h"
#include "ops/fusion/simd_few_channels.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum { COPY_FLOATS = 1 << 13 /* of a band, some: the first cache */ };

struct zt_few_channels {
    const struct zt_few_channels_kernels *kernels;
    struct zt_conv_pool c;
    int64_t columns, pool_rows, rows; /* of the padded x; of a whole band: rows of the pool, of x */
    int64_t groups, taps;
    const int32_t *tap; /* floats from the first input of a result to that of each tap */
};

/* ---- geometry ---- */

/* Whether blocked layouts would fill a quarter of the input's vectors with zeros, or a whole one has few channels. */
static bool leaves_room(int64_t channels, int64_t vector) {
    return channels <= ZT_FEW_CHANNELS || 3 * zt_ceil_div(channels, vector) * vector >= 4 * channels;
}

static int64_t rows_of(const struct zt_conv_pool *c, int64_t pool_rows) {
    const struct zt_window *w = &c->conv.window;
    return (2 * pool_rows - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
}

static const int32_t *taps_of(struct zt_arena *arena, const struct zt_few_channels *s) {
    const struct zt_window *w = &s->c.conv.window;
    int32_t *tap = ZT_NEW_N(arena, int32_t, s->taps);
    for (int64_t t = 0; t < s->taps; t++) {
        const int64_t c = t % s->c.conv.c, i = t / s->c.conv.c / w->kernel[1], j = t / s->c.conv.c % w->kernel[1];
        tap[t] = (int32_t)((c * s->rows + i * w->dilation[0]) * s->columns + j * w->dilation[1]);
    }
    return tap;
}

const struct zt_few_channels *zt_few_channels_make(struct zt_arena *arena, const struct zt_conv_pool *c,
                                                   int64_t channels) {
    const struct zt_few_channels_kernels *kernels = zt_few_channels_kernels();
    const struct zt_window *w = &c->conv.window;
    if (!kernels || channels % kernels->vector != 0 || w->axes != 2 || c->conv.groups != 1 ||
        !leaves_room(c->conv.c, kernels->vector) || !zt_conv_pool_pairs(&c->pool))
        return NULL;
    struct zt_few_channels *s = ZT_NEW(arena, struct zt_few_channels);
    *s = (struct zt_few_channels){ .kernels = kernels, .c = *c, .pool_rows = c->pool.out[0] };
    s->columns = (2 * c->pool.out[1] - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
    while (s->pool_rows > 1 && c->conv.c * rows_of(c, s->pool_rows) * s->columns > COPY_FLOATS)
        s->pool_rows--;
    s->rows = rows_of(c, s->pool_rows);
    s->groups = channels / kernels->vector;
    s->taps = c->conv.c * w->kernel_elems;
    if (c->conv.c * s->rows * s->columns > INT32_MAX) /* taps are 32-bit */
        return NULL;
    s->tap = taps_of(arena, s);
    return s;
}

int zt_few_channels_vector(const struct zt_few_channels *s) {
    return s->kernels->vector;
}

static int64_t weight_elems(const struct zt_few_channels *s) {
    return s->groups * s->taps * s->kernels->vector;
}

static int64_t copy_elems(const struct zt_few_channels *s) {
    return zt_align_floats(s->c.conv.c * s->rows * s->columns);
}

size_t zt_few_channels_bytes(const struct zt_few_channels *s, int threads) {
    return (size_t)(zt_align_floats(weight_elems(s)) + zt_align_floats(s->groups * s->kernels->vector) +
                    copy_elems(s) * threads) *
           sizeof(float);
}

/* ---- run ---- */

struct job {
    const struct zt_few_channels *s;
    const struct zt_few_channels_data *d;
    float *weights, *bias, *copies;
    int64_t bands; /* of a sample */
};

static void order(const struct job *job) {
    const struct zt_few_channels *s = job->s;
    const struct zt_window *w = &s->c.conv.window;
    const int64_t vector = s->kernels->vector;
    memset(job->weights, 0, (size_t)weight_elems(s) * sizeof *job->weights);
    memset(job->bias, 0, (size_t)(s->groups * vector) * sizeof *job->bias);
    for (int64_t m = 0; m < s->c.conv.m; m++) {
        for (int64_t t = 0; t < s->taps; t++)
            job->weights[(m / vector * s->taps + t) * vector + m % vector] =
                job->d->w[m * s->taps + t % s->c.conv.c * w->kernel_elems + t / s->c.conv.c];
        job->bias[m] = job->d->bias ? job->d->bias[m] : 0;
    }
}

/* Rows of the padded x from `top` on. */
static void read_band(const struct job *job, int64_t sample, int64_t top, float *copy) {
    const struct zt_few_channels *s = job->s;
    const struct zt_window *w = &s->c.conv.window;
    const int64_t left = zt_min_int(w->pad[1], s->columns), count = zt_min_int(w->in[1], s->columns - left);
    memset(copy, 0, (size_t)copy_elems(s) * sizeof *copy);
    for (int64_t c = 0; c < s->c.conv.c; c++)
        for (int64_t i = 0; i < s->rows; i++) {
            const int64_t y = top + i - w->pad[0];
            if (y < 0 || y >= w->in[0])
                continue;
            const float *row = job->d->x + ((sample * s->c.conv.c + c) * w->in[0] + y) * w->in[1];
            zt_fetch_ahead(row, count);
            memcpy(copy + (c * s->rows + i) * s->columns + left, row, (size_t)count * sizeof *copy);
        }
}

/* A row of the pool's results, for groups from `group` on. */
static void do_row(const struct job *job, struct zt_few_channels_row r, int64_t group, int64_t windows) {
    const struct zt_few_channels *s = job->s;
    const int64_t groups = zt_min_int(ZT_FEW_CHANNELS_GROUPS, s->groups - group);
    r.w = job->weights + group * s->taps * s->kernels->vector;
    r.bias = job->bias + group * s->kernels->vector;
    for (int64_t x = 0, count; x < windows; x += count) {
        count = zt_min_int(windows - x, s->kernels->windows[groups - 1]);
        s->kernels->run[groups - 1][count - 1](&r);
        r.x += 2 * count * r.column;
        r.p += count * r.pixel;
        r.position += count * r.pixel;
    }
}

static void do_band(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_few_channels *s = job->s;
    const struct zt_window *w = &s->c.conv.window;
    const struct zt_planes *p = &job->d->p_planes;
    const int64_t sample = unit / job->bands, first = unit % job->bands * s->pool_rows, vector = s->kernels->vector;
    float *copy = job->copies + zt_parallel_thread() * copy_elems(s);
    read_band(job, sample, 2 * first * w->stride[0], copy);
    for (int64_t y = first; y < zt_min_int(first + s->pool_rows, s->c.pool.out[0]); y++)
        for (int64_t g = 0; g < s->groups; g += ZT_FEW_CHANNELS_GROUPS) {
            const int64_t at = sample * p->sample + zt_planes_channel(p, g * vector) + y * s->c.pool.out[1] * p->pixel;
            const struct zt_few_channels_row r = { .x = copy + 2 * (y - first) * w->stride[0] * s->columns,
                                                   .column = w->stride[1],
                                                   .row = w->stride[0] * s->columns,
                                                   .tap = s->tap,
                                                   .taps = s->taps,
                                                   .p = job->d->p + at,
                                                   .position = job->d->position + at,
                                                   .group = zt_planes_channel(p, vector),
                                                   .pixel = p->pixel };
            do_row(job, r, g, s->c.pool.out[1]);
        }
}

void zt_few_channels_run(const struct zt_few_channels *s, const struct zt_few_channels_data *d, void *workspace,
                         int threads) {
    struct job job = { .s = s, .d = d, .weights = workspace, .bands = zt_ceil_div(s->c.pool.out[0], s->pool_rows) };
    job.bias = job.weights + zt_align_floats(weight_elems(s));
    job.copies = job.bias + zt_align_floats(s->groups * s->kernels->vector);
    order(&job);
    zt_parallel_for(threads, s->c.conv.n * job.bands, do_band, &job);
}
