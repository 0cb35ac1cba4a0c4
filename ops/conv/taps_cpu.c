/* A unit of work is some rows, or a part of a row, of a sample's results. Rows and columns of taps that lie outside the
 * plane are left out. workspace: [ weights | bias ], where weights are
 *
 *     few results           [tap][vector of channels][result channel][vector]
 *     vectors of results    [vectors that are made at once][tap][channel][vector of results] */
#include "ops/conv/taps_cpu.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/conv/axis_cpu.h"
#include "ops/conv/simd/simd_taps.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    AXES = ZT_CONV_AXES,
    MOST_RESULTS = 8,
    MOST_SOURCES = 8,
    MOST_TAPS = 256,
    BAND = 8 /* rows */,
    STRIP = 256 /* results of a phase of a row */
};

/* Results first..end-1 of a phase of columns, whose windows have the columns tap_first..tap_end-1 inside the plane. */
struct part {
    int64_t first, end;
    int tap_first, tap_end;
};

struct zt_taps {
    const struct zt_taps_kernels *kernels;
    bool to_x;
    enum zt_taps_kind kind;
    int64_t samples, channels, results;
    int64_t vectors; /* of channels where results are few, else of results */
    struct zt_conv_sizes size[AXES];
    int phases[AXES];
    struct zt_conv_axis *axis[AXES];        /* of each phase */
    struct part *part[ZT_CONV_AXIS_PHASES]; /* of each phase of columns, in order; the last one has no results */
};

static struct part part_of(const struct zt_conv_axis *columns, int64_t width, int64_t result) {
    struct part p = { result, result + 1, columns->taps, 0 };
    for (int i = 0; i < columns->taps; i++) {
        const int64_t at = columns->at[i] + result * columns->advance;
        if (at < 0 || at >= width)
            continue;
        p.tap_first = i < p.tap_first ? i : p.tap_first;
        p.tap_end = i + 1;
    }
    return p;
}

/* Taps enter and leave the plane one after the other, each once. */
static struct part *parts_of(struct zt_arena *arena, const struct zt_conv_axis *columns, int64_t width) {
    struct part *parts = ZT_NEW_N(arena, struct part, 2 * columns->taps + 2);
    int count = 0;
    for (int64_t i = 0; i < columns->count; i++) {
        const struct part p = part_of(columns, width, i), *last = count > 0 ? &parts[count - 1] : NULL;
        if (last && last->tap_first == p.tap_first && last->tap_end == p.tap_end)
            parts[count - 1].end = p.end;
        else
            parts[count++] = p;
    }
    parts[count] = (struct part){ 0 };
    return parts;
}

/* An additional sum at the end of each result costs some products. Others compute whole vectors of results, and to x
 * whole vectors of sources. */
static bool is_few_results(const struct zt_taps *f) {
    enum { SUM = 8 };
    const int64_t lanes = f->kernels->vector, vectors = zt_ceil_div(f->channels, lanes);
    const int64_t taps = zt_ceil_div(f->size[0].kernel * f->size[1].kernel, f->phases[0] * f->phases[1]);
    const int64_t here = f->results * (vectors * taps + SUM);
    const int64_t others = vectors * lanes * taps * zt_ceil_div(f->results, lanes);
    return f->results <= MOST_RESULTS && f->channels >= lanes && 10 * here < 7 * others;
}

/* Where oneDNN's kernels are slower: over time; where taps are so far apart that whole tiles of results lack some;
 * strided with few taps for each input; and where channels leave a fifth of their vectors empty, by which oneDNN
 * multiplies too. With vectors of 8 those of dilated convolutions, and strided ones over time to x. */
static bool is_dense(const struct zt_taps *f) {
    enum { FAR = 4, SHORT = 3, LEAST = 16 };
    const struct zt_conv_sizes *rows = &f->size[0], *columns = &f->size[1];
    const int64_t taps = rows->kernel * columns->kernel;
    const int64_t places = f->to_x ? zt_ceil_div(columns->in, columns->stride) : columns->out; /* of a phase */
    if (zt_min_int(f->results, f->channels) < f->kernels->vector || taps == 1)
        return false;
    const bool time = rows->in == 1 && rows->out == 1, strided = rows->stride * columns->stride > 1;
    if (f->kernels->vector < 16 && columns->dilation == 1 && !(f->to_x && time && strided))
        return false;
    if ((time && places >= LEAST) || (columns->kernel > 1 && columns->dilation >= FAR))
        return true;
    if (!strided && f->channels * 5 <= zt_ceil_div(f->channels, f->kernels->vector) * f->kernels->vector * 4)
        return true;
    if (!strided)
        return false;
    if (!f->to_x)
        return columns->dilation == 1 && columns->kernel <= SHORT;
    return f->vectors > 1 && (columns->dilation > 1 || columns->kernel <= 2 * columns->stride);
}

/* False where other kernels are faster or the convolution does not fit. */
static bool describe(const struct zt_conv *c, enum zt_conv_direction direction, struct zt_taps *to) {
    *to = (struct zt_taps){ .kernels = zt_taps_kernels(),
                            .to_x = direction == ZT_CONV_TO_X,
                            .samples = c->n,
                            .channels = direction == ZT_CONV_TO_X ? c->m : c->c,
                            .results = direction == ZT_CONV_TO_X ? c->c : c->m };
    if (!to->kernels || c->groups != 1 || c->window.axes > AXES || c->window.kernel_elems > MOST_TAPS)
        return false;
    for (int a = 0; a < AXES; a++) {
        to->size[a] = zt_conv_sizes_of(&c->window, a);
        to->phases[a] = zt_conv_axis_phases(&to->size[a], direction);
        if (to->phases[a] == 0)
            return false;
    }
    const bool few_sources = to->to_x && to->channels <= MOST_SOURCES;
    to->kind = few_sources ? ZT_TAPS_OF_FEW : is_few_results(to) ? ZT_TAPS_TO_FEW : ZT_TAPS_DENSE;
    to->vectors = zt_ceil_div(to->kind == ZT_TAPS_TO_FEW ? to->channels : to->results, to->kernels->vector);
    return to->kind == ZT_TAPS_TO_FEW || (few_sources ? to->results >= to->kernels->vector : is_dense(to));
}

bool zt_taps_is_few(const struct zt_conv *c, enum zt_conv_direction direction) {
    struct zt_taps f;
    return direction != ZT_CONV_TO_W && describe(c, direction, &f) && f.kind != ZT_TAPS_DENSE;
}

const struct zt_taps *zt_taps_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_conv_direction direction) {
    struct zt_taps f, *made;
    if (!describe(c, direction, &f))
        return NULL;
    for (int a = 0; a < AXES; a++) {
        f.axis[a] = ZT_NEW_N(arena, struct zt_conv_axis, f.phases[a]);
        for (int i = 0; i < f.phases[a]; i++)
            zt_conv_axis_read(&f.size[a], direction, i, &f.axis[a][i]);
    }
    for (int i = 0; i < f.phases[1]; i++)
        f.part[i] = parts_of(arena, &f.axis[1][i], f.to_x ? f.size[1].out : f.size[1].in);
    made = ZT_NEW(arena, struct zt_taps);
    *made = f;
    return made;
}

enum zt_taps_kind zt_taps_kind_of(const struct zt_taps *f) {
    return f->kind;
}

/* ---- weights ---- */

static int64_t taps_of(const struct zt_taps *f) {
    return f->size[0].kernel * f->size[1].kernel;
}

/* Channels of the input that have weights. */
static int64_t depth_of(const struct zt_taps *f) {
    const int64_t lanes = f->kernels->vector;
    return f->kind == ZT_TAPS_TO_FEW ? zt_ceil_div(f->channels, lanes) * lanes : f->channels;
}

/* Floats of the weights of a tap and a channel that a run of the kernel reads. */
static int64_t weight_step(const struct zt_taps *f, int64_t vector) {
    return zt_min_int(f->vectors - vector, ZT_TAPS_VECTORS) * f->kernels->vector;
}

static int64_t weight_elems(const struct zt_taps *f) {
    return taps_of(f) * depth_of(f) * (f->kind == ZT_TAPS_TO_FEW ? f->results : f->vectors * f->kernels->vector);
}

static int64_t bias_elems(const struct zt_taps *f) {
    return zt_align_floats(f->kind == ZT_TAPS_TO_FEW ? f->results : f->vectors * f->kernels->vector);
}

size_t zt_taps_bytes(const struct zt_taps *f) {
    return (size_t)(weight_elems(f) + bias_elems(f)) * sizeof(float);
}

struct job {
    const struct zt_taps *f;
    const struct zt_conv_data *data;
    float *weights, *bias;
};

static void pack_few_results(const struct zt_taps *f, const float *w, float *to) {
    const int64_t taps = taps_of(f), lanes = f->kernels->vector;
    const int64_t channel = taps * (f->to_x ? f->results : 1), result = taps * (f->to_x ? 1 : f->channels);
    for (int64_t t = 0; t < taps; t++)
        for (int64_t v = 0; v < f->vectors; v++)
            for (int64_t m = 0; m < f->results; m++)
                for (int64_t l = 0; l < lanes; l++) {
                    const int64_t c = v * lanes + l;
                    *to++ = c < f->channels ? w[c * channel + m * result + t] : 0;
                }
}

/* A vector of results. */
static void pack_vector(void *arg, int64_t vector) {
    const struct job *job = arg;
    const struct zt_taps *f = job->f;
    const int64_t taps = taps_of(f), lanes = f->kernels->vector, depth = depth_of(f);
    const int64_t channel = taps * (f->to_x ? f->results : 1), result = taps * (f->to_x ? 1 : f->channels);
    const int64_t first = vector / ZT_TAPS_VECTORS * ZT_TAPS_VECTORS, step = weight_step(f, first);
    const int64_t used = zt_min_int(lanes, f->results - vector * lanes);
    const float *from = job->data->w + vector * lanes * result;
    float *to = job->weights + first * lanes * taps * depth + (vector - first) * lanes;
    for (int64_t c = 0; c < depth; c++, to += step)
        for (int64_t l = 0; l < lanes; l++)
            for (int64_t t = 0; t < taps; t++)
                to[t * depth * step + l] = l < used ? from[c * channel + l * result + t] : 0;
}

/* ---- results ---- */

static int64_t height_of(const struct zt_taps *f) {
    return f->to_x ? f->size[0].in : f->size[0].out;
}

static int64_t width_of(const struct zt_taps *f) {
    return f->to_x ? f->size[1].in : f->size[1].out;
}

/* Units of work of a row: of the results of its longest phase. */
static int64_t strips_of(const struct zt_taps *f) {
    return zt_ceil_div(f->axis[1][0].count, STRIP);
}

/* A row of results of one phase of columns, first..end-1 of them, and what a run of the kernel makes at once: channels
 * or vectors from `at` on. */
struct line {
    const struct zt_conv_axis *rows, *columns;
    int64_t row; /* its index in the phase of rows */
    int64_t first, end, at;
    const float *from;
    int64_t to; /* element of the first result of the phase */
};

/* Sets what depends on the channels of the result. */
static zt_taps_row_run *set_channels(const struct job *job, const struct line *line, struct zt_taps_row *r) {
    const struct zt_taps *f = job->f;
    const struct zt_planes *from = &job->data->from_planes, *to = &job->data->to_planes;
    const int64_t lanes = f->kernels->vector, at = line->at;
    r->y_plane = to->group;
    if (f->kind == ZT_TAPS_TO_FEW) {
        r->vectors = f->vectors;
        r->plane = from->group / from->vector * lanes;
        r->w = job->weights + at * lanes;
        r->w_step = f->results * lanes;
        r->bias = job->bias + at;
        r->y = job->data->to + line->to + at * to->group;
        return f->kernels->results[zt_min_int(f->results - at, ZT_TAPS_RESULTS) - 1];
    }
    const int64_t channel = zt_planes_channel(to, at * lanes);
    r->vectors = r->channels = f->channels;
    r->plane = from->group;
    r->group = from->vector;
    r->result_vectors = (int)zt_min_int(f->vectors - at, ZT_TAPS_VECTORS);
    r->w = job->weights + at * lanes * taps_of(f) * depth_of(f);
    r->w_step = weight_step(f, at);
    r->bias = job->bias + at * lanes;
    r->y = job->data->to + line->to + channel;
    r->y_plane = zt_planes_channel(to, (at + 1) * lanes) - channel;
    r->added = job->data->added ? job->data->added + line->to + channel : NULL;
    r->relu = job->data->relu;
    return f->kind == ZT_TAPS_DENSE ? f->kernels->dense : f->kernels->sources[r->result_vectors - 1];
}

static void run_part(const struct job *job, const struct line *line, const struct part *part) {
    const struct zt_taps *f = job->f;
    const struct zt_planes *planes = &job->data->from_planes;
    const int64_t height = f->to_x ? f->size[0].out : f->size[0].in, width = f->to_x ? f->size[1].out : f->size[1].in;
    const int64_t first = zt_max_int(part->first, line->first), end = zt_min_int(part->end, line->end);
    int64_t at[MOST_TAPS], of[MOST_TAPS];
    if (first >= end)
        return;
    struct zt_taps_row r = { .at = at, .of = of, .count = end - first };
    zt_taps_row_run *run = set_channels(job, line, &r);
    r.step = line->columns->advance * planes->pixel;
    r.y_step = line->columns->step * job->data->to_planes.pixel;
    r.x = line->from + first * r.step;
    r.y += first * r.y_step;
    r.added = r.added ? r.added + first * r.y_step : NULL;
    const int64_t tap = f->kind == ZT_TAPS_TO_FEW ? f->vectors * r.w_step : depth_of(f) * r.w_step;
    for (int i = 0; i < line->rows->taps; i++) {
        const int64_t row = line->row * line->rows->advance + line->rows->at[i];
        if (row < 0 || row >= height)
            continue;
        for (int j = part->tap_first; j < part->tap_end; j++) {
            at[r.taps] = (row * width + line->columns->at[j]) * planes->pixel;
            of[r.taps++] = (line->rows->tap[i] * f->size[1].kernel + line->columns->tap[j]) * tap;
        }
    }
    run(&r);
}

/* All phases of a row of results. */
static void run_row(const struct job *job, int64_t sample, int64_t row, struct line *line) {
    const struct zt_taps *f = job->f;
    const struct zt_planes *to = &job->data->to_planes;
    line->rows = &f->axis[0][row % f->phases[0]];
    line->row = row / f->phases[0];
    for (int phase = 0; phase < f->phases[1]; phase++) {
        line->columns = &f->axis[1][phase];
        line->to = sample * to->sample + (row * width_of(f) + line->columns->first) * to->pixel;
        for (const struct part *p = f->part[phase]; p->end > 0; p++)
            run_part(job, line, p);
    }
}

static void run_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_taps *f = job->f;
    const bool few = f->kind == ZT_TAPS_TO_FEW;
    const int64_t height = height_of(f), bands = zt_ceil_div(height, BAND), strips = strips_of(f);
    const int64_t sample = unit / strips / bands, first = unit / strips % bands * BAND;
    struct line line = { .first = unit % strips * STRIP, .from = job->data->from };
    line.from += sample * job->data->from_planes.sample;
    line.end = line.first + STRIP;
    for (; line.at < (few ? f->results : f->vectors); line.at += few ? ZT_TAPS_RESULTS : ZT_TAPS_VECTORS)
        for (int64_t row = first; row < zt_min_int(first + BAND, height); row++)
            run_row(job, sample, row, &line);
}

void zt_taps_run(const struct zt_taps *f, const struct zt_conv_data *data, void *workspace, int threads) {
    struct job job = { .f = f, .data = data, .weights = workspace };
    job.bias = job.weights + weight_elems(f);
    memset(job.bias, 0, (size_t)bias_elems(f) * sizeof *job.bias);
    if (data->bias)
        memcpy(job.bias, data->bias, (size_t)f->results * sizeof *job.bias);
    if (f->kind == ZT_TAPS_TO_FEW)
        pack_few_results(f, data->w, job.weights);
    else
        zt_parallel_for(threads, f->vectors, pack_vector, &job);
    zt_parallel_for(threads, f->samples * zt_ceil_div(height_of(f), BAND) * strips_of(f), run_unit, &job);
}
