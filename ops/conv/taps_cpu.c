/* A unit of work is some rows of a sample's results. Rows and columns of taps that lie outside the plane are left out.
 * workspace: [ weights | bias ], where weights are
 *
 *     few results    [tap][vector of channels][result channel][vector]
 *     few sources    [tap][channel][result channel, whole vectors] */
#include "ops/conv/taps_cpu.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/conv/axis_cpu.h"
#include "ops/conv/simd/simd_taps.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum { AXES = ZT_CONV_AXES, MOST_RESULTS = 8, MOST_SOURCES = 8, MOST_TAPS = 256, BAND = 8 /* rows */ };

/* Results first..end-1 of a phase of columns, whose windows have the columns tap_first..tap_end-1 inside the plane. */
struct part {
    int64_t first, end;
    int tap_first, tap_end;
};

struct zt_taps {
    const struct zt_taps_kernels *kernels;
    bool to_x, sources; /* sources: few channels of the input, not of the results */
    int64_t samples, channels, results;
    int64_t vectors; /* of channels; of results where sources are few */
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
static bool is_faster(const struct zt_taps *f) {
    enum { SUM = 8 };
    if (f->sources)
        return f->results >= f->kernels->vector;
    const int64_t lanes = f->kernels->vector, phases = f->phases[0] * f->phases[1];
    const int64_t taps = zt_ceil_div(f->size[0].kernel * f->size[1].kernel, phases);
    const int64_t here = f->results * (f->vectors * taps + SUM);
    const int64_t others = f->vectors * lanes * taps * zt_ceil_div(f->results, lanes);
    return f->results <= MOST_RESULTS && f->channels >= lanes && 10 * here < 7 * others;
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
    to->sources = to->to_x && to->channels <= MOST_SOURCES;
    to->vectors = zt_ceil_div(to->sources ? to->results : to->channels, to->kernels->vector);
    return is_faster(to);
}

bool zt_taps_fits(const struct zt_conv *c, enum zt_conv_direction direction) {
    struct zt_taps f;
    return direction != ZT_CONV_TO_W && describe(c, direction, &f);
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

bool zt_taps_reads_plain(const struct zt_taps *f) {
    return f->sources;
}

/* ---- weights ---- */

static int64_t tap_elems(const struct zt_taps *f) {
    return f->vectors * f->kernels->vector * (f->sources ? f->channels : f->results);
}

static int64_t weight_elems(const struct zt_taps *f) {
    return f->size[0].kernel * f->size[1].kernel * tap_elems(f);
}

static int64_t bias_elems(const struct zt_taps *f) {
    return zt_align_floats(f->sources ? f->vectors * f->kernels->vector : f->results);
}

size_t zt_taps_bytes(const struct zt_taps *f) {
    return (size_t)(weight_elems(f) + bias_elems(f)) * sizeof(float);
}

static void pack(const struct zt_taps *f, const float *w, float *to) {
    const int64_t taps = f->size[0].kernel * f->size[1].kernel, lanes = f->kernels->vector;
    const int64_t channel = taps * (f->to_x ? f->results : 1), result = taps * (f->to_x ? 1 : f->channels);
    for (int64_t t = 0; t < taps; t++)
        for (int64_t v = 0; v < f->vectors; v++)
            for (int64_t m = 0; m < f->results; m++)
                for (int64_t l = 0; l < lanes; l++) {
                    const int64_t c = v * lanes + l;
                    *to++ = c < f->channels ? w[c * channel + m * result + t] : 0;
                }
}

static void pack_sources(const struct zt_taps *f, const float *w, float *to) {
    const int64_t taps = f->size[0].kernel * f->size[1].kernel;
    for (int64_t t = 0; t < taps; t++)
        for (int64_t c = 0; c < f->channels; c++)
            for (int64_t m = 0; m < f->vectors * f->kernels->vector; m++)
                *to++ = m < f->results ? w[(c * f->results + m) * taps + t] : 0;
}

/* ---- results ---- */

struct job {
    const struct zt_taps *f;
    const struct zt_taps_data *data;
    float *weights, *bias;
};

static int64_t height_of(const struct zt_taps *f) {
    return f->to_x ? f->size[0].in : f->size[0].out;
}

static int64_t width_of(const struct zt_taps *f) {
    return f->to_x ? f->size[1].in : f->size[1].out;
}

/* A row of results of one phase of columns. */
struct line {
    const struct zt_conv_axis *rows, *columns;
    int64_t row; /* its index in the phase of rows */
    const float *from;
    float *to;
};

/* All result channels of a row whose other members are set; `to`: its first result. */
static void give_channels(const struct job *job, float *to, struct zt_taps_row *r) {
    const struct zt_taps *f = job->f;
    r->y_plane = job->data->to_planes.group;
    for (int64_t m = 0; m < f->results; m += ZT_TAPS_RESULTS) {
        r->w = job->weights + m * f->kernels->vector;
        r->bias = job->bias + m;
        r->y = to + m * r->y_plane;
        f->kernels->run[zt_min_int(f->results - m, ZT_TAPS_RESULTS) - 1](r);
    }
}

static void give_vectors(const struct job *job, float *to, struct zt_taps_row *r) {
    const struct zt_taps *f = job->f;
    const int64_t lanes = f->kernels->vector;
    for (int64_t v = 0; v < f->vectors; v += ZT_TAPS_VECTORS) {
        const int64_t at = zt_planes_channel(&job->data->to_planes, v * lanes);
        r->w = job->weights + v * lanes;
        r->bias = job->bias + v * lanes;
        r->y = to + at;
        r->y_plane = zt_planes_channel(&job->data->to_planes, (v + 1) * lanes) - at;
        f->kernels->sources[zt_min_int(f->vectors - v, ZT_TAPS_VECTORS) - 1](r);
    }
}

static void run_part(const struct job *job, const struct line *line, const struct part *part) {
    const struct zt_taps *f = job->f;
    const struct zt_planes *planes = &job->data->from_planes;
    const int64_t height = f->to_x ? f->size[0].out : f->size[0].in, width = f->to_x ? f->size[1].out : f->size[1].in;
    int64_t at[MOST_TAPS], of[MOST_TAPS];
    struct zt_taps_row r = { .x = line->from + part->first * line->columns->advance * planes->pixel,
                             .step = line->columns->advance * planes->pixel,
                             .plane = planes->group / planes->vector * (f->sources ? 1 : f->kernels->vector),
                             .vectors = f->sources ? f->channels : f->vectors,
                             .at = at,
                             .of = of,
                             .w_step = (f->sources ? f->vectors : f->results) * f->kernels->vector,
                             .y_step = line->columns->step * job->data->to_planes.pixel,
                             .count = part->end - part->first };
    for (int i = 0; i < line->rows->taps; i++) {
        const int64_t row = line->row * line->rows->advance + line->rows->at[i];
        if (row < 0 || row >= height)
            continue;
        for (int j = part->tap_first; j < part->tap_end; j++) {
            at[r.taps] = (row * width + line->columns->at[j]) * planes->pixel;
            of[r.taps++] = (line->rows->tap[i] * f->size[1].kernel + line->columns->tap[j]) * tap_elems(f);
        }
    }
    (f->sources ? give_vectors : give_channels)(job, line->to + part->first * r.y_step, &r);
}

static void run_band(void *arg, int64_t band) {
    const struct job *job = arg;
    const struct zt_taps *f = job->f;
    const int64_t height = height_of(f), width = width_of(f), bands = zt_ceil_div(height, BAND);
    const int64_t sample = band / bands, first = band % bands * BAND;
    const struct zt_planes *to = &job->data->to_planes;
    struct line line = { .from = job->data->from + sample * job->data->from_planes.sample };
    for (int64_t row = first; row < zt_min_int(first + BAND, height); row++) {
        line.rows = &f->axis[0][row % f->phases[0]];
        line.row = row / f->phases[0];
        for (int phase = 0; phase < f->phases[1]; phase++) {
            line.columns = &f->axis[1][phase];
            line.to = job->data->to + sample * to->sample + (row * width + line.columns->first) * to->pixel;
            for (const struct part *p = f->part[phase]; p->end > 0; p++)
                run_part(job, &line, p);
        }
    }
}

void zt_taps_run(const struct zt_taps *f, const struct zt_taps_data *data, void *workspace, int threads) {
    struct job job = { .f = f, .data = data, .weights = workspace };
    job.bias = job.weights + weight_elems(f);
    memset(job.bias, 0, (size_t)bias_elems(f) * sizeof *job.bias);
    if (data->bias)
        memcpy(job.bias, data->bias, (size_t)f->results * sizeof *job.bias);
    (f->sources ? pack_sources : pack)(f, data->w, job.weights);
    zt_parallel_for(threads, f->samples * zt_ceil_div(height_of(f), BAND), run_band, &job);
}
