/* A unit of work is a group of channels in a chunk of the batch: some samples, or a band of rows of one. Its planes are
 * copied with margins of zeros; the margin after a row is the one before the next, and so it is of rows:
 *
 *     line of a channel    | lead | sample 0: row 0 | margin | row 1 | margin | ... | margin rows | sample 1: ...
 *
 * Result (r, c) of sample s stands at s * line + r * pitch + c, and reads there at a distance for each tap. Results
 * that stand on margins are computed as well and left out, or are zeros as dy. To x is a convolution of dy with the
 * reversed taps.
 *
 * The workspace of results, to y and x:
 *
 *     weights [group][some channels of results][source][channel] | biases | of each thread: lines of x, of results
 *
 * and of weights:
 *
 *     of each piece: sums of dw, of db | of each thread: lines of x, of dy */
#include "ops/conv/lines_cpu.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/conv/conv_cpu.h"
#include "ops/conv/simd/simd_lines.h"
#include "ops/cpu/block_sum.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    AXES = 2,
    LINE = 2048 /* results of a chunk, some */,
    CHUNK = 1 << 16 /* floats of it */,
    WINDOW = 8 /* vectors of results, of all channels one after the other */,
    MOST_TAPS = 1 << 10,
    MOST_PIECES = 16
};

/* Along an axis: the first result reads at -lead, and the last one `trail` beyond the end. */
struct axis {
    int64_t in, out, taps, dilation, lead, trail;
};

struct zt_lines {
    const struct zt_lines_kernels *kernels;
    enum zt_conv_direction direction;
    int64_t samples, groups, channels, results; /* channels of a group: those read, and of the results */
    struct axis axis[AXES];
    int64_t pitch, rows, bands; /* floats of a row; rows of results of a band */
    int64_t line, beside;       /* floats of a sample; samples of a chunk */
    int64_t segments, count;    /* parts of a line that have results, `line` apart; vectors of each */
    int64_t x_elems, y_elems;   /* of a channel's lines */
    int64_t sources, at_once;   /* taps of all channels; channels of results that a run takes */
    int64_t chunks, pieces;
    int64_t *at; /* of each source, and as many as dots take at once beyond */
};

/* ---- geometry ---- */

static struct axis axis_of(const struct zt_window *w, int axis, bool to_x) {
    const int a = axis + w->axes - AXES;
    if (a < 0)
        return (struct axis){ .in = 1, .out = 1, .taps = 1, .dilation = 1 };
    const int64_t span = (w->kernel[a] - 1) * w->dilation[a];
    struct axis to = { w->in[a], w->out[a], w->kernel[a], w->dilation[a], w->pad[a], 0 };
    if (to_x)
        to = (struct axis){ w->out[a], w->in[a], w->kernel[a], w->dilation[a], span - w->pad[a], 0 };
    to.trail = zt_max_int(0, to.out + span - to.lead - to.in);
    return to;
}

static int64_t span_of(const struct axis *a) {
    return (a->taps - 1) * a->dilation;
}

static void set_chunk(struct zt_lines *l) {
    const struct axis *rows = &l->axis[0], *columns = &l->axis[1];
    const int64_t lanes = l->kernels->vector, sides = l->channels + l->results;
    l->pitch = zt_max_int(columns->out, columns->in + zt_max_int(columns->lead, columns->trail));
    l->line = zt_max_int(rows->out, rows->in + zt_max_int(rows->lead, rows->trail)) * l->pitch;
    l->rows = rows->out;
    l->beside = zt_min_int(LINE / l->line, CHUNK / (sides * l->line));
    if (l->beside < 2) {
        l->beside = 1;
        l->rows = zt_max_int(1, zt_min_int(LINE, CHUNK / sides) / l->pitch);
        l->bands = zt_ceil_div(rows->out, l->rows);
        l->rows = zt_ceil_div(rows->out, zt_max_int(1, l->bands));
    }
    l->beside = zt_max_int(1, zt_min_int(l->beside, l->samples));
    l->bands = zt_ceil_div(rows->out, zt_max_int(1, l->rows));
    const int64_t used = (l->rows - 1) * l->pitch + columns->out;
    const int64_t joined = zt_ceil_div((l->beside - 1) * l->line + used, lanes);
    l->segments = l->beside;
    l->count = zt_ceil_div(used, lanes);
    if (joined <= l->segments * l->count) { /* so too where vectors reach into the next sample */
        l->segments = 1;
        l->count = joined;
    }
    const int64_t last = span_of(rows) * l->pitch + span_of(columns);
    l->y_elems = zt_align_floats((l->segments - 1) * l->line + l->count * lanes);
    l->x_elems = zt_max_int(l->y_elems + last, (l->beside - 1) * l->line + (l->rows + span_of(rows) + 1) * l->pitch);
    l->x_elems = zt_align_floats(l->x_elems);
    l->chunks = zt_ceil_div(l->samples, l->beside) * l->bands;
}

static bool describe(const struct zt_conv *c, enum zt_conv_direction direction, struct zt_lines *to) {
    const struct zt_window *w = &c->window;
    const bool to_x = direction == ZT_CONV_TO_X;
    *to = (struct zt_lines){ .kernels = zt_lines_kernels(),
                             .direction = direction,
                             .samples = c->n,
                             .groups = c->groups,
                             .channels = (to_x ? c->m : c->c) / c->groups,
                             .results = (to_x ? c->c : c->m) / c->groups };
    if (!to->kernels || w->axes < 1 || w->axes > AXES || w->kernel_elems > MOST_TAPS ||
        c->n * w->in_elems * w->out_elems == 0)
        return false;
    for (int a = 0; a < w->axes; a++)
        if (w->stride[a] != 1 || w->pad[a] < 0)
            return false;
    for (int a = 0; a < AXES; a++) {
        to->axis[a] = axis_of(w, a, to_x);
        if (to->axis[a].lead < 0)
            return false;
    }
    to->sources = to->channels * w->kernel_elems;
    to->at_once = zt_ceil_div(to->results, zt_ceil_div(to->results, ZT_LINES_RESULTS));
    set_chunk(to);
    return true;
}

/* The share of an axis's pairs of a result and a tap that lie inside. */
static double inside(const struct axis *a) {
    int64_t pairs = 0;
    for (int64_t t = 0; t < a->taps; t++) {
        const int64_t at = t * a->dilation - a->lead;
        pairs += zt_max_int(0, zt_min_int(a->out, a->in - at) - zt_max_int(0, -at));
    }
    return (double)pairs / (double)(a->out * a->taps);
}

/* The share of the vectors of `channels` that they fill. */
static double filled(const struct zt_lines *l, int64_t channels) {
    const int64_t lanes = l->kernels->vector;
    return (double)channels / (double)(zt_ceil_div(channels, lanes) * lanes);
}

/* oneDNN leaves vectors of channels part empty. It reads up to READ_ALONE channels one by one forwards and to w, so
 * that only those of y leave room, which long kernels and many taps outweigh. */
static bool is_faster(const struct zt_lines *l) {
    enum { FEW = 8, READ_ALONE = 3, LONG = 32, LONG_TO_W = 15, MANY = 25 };
    const double most_filled = 0.7, least_inside = 0.5;
    const bool to_x = l->direction == ZT_CONV_TO_X, to_w = l->direction == ZT_CONV_TO_W;
    const int64_t taps = l->axis[0].taps * l->axis[1].taps, x = to_x ? l->results : l->channels,
                  y = to_x ? l->channels : l->results;
    if (taps == 1 || inside(&l->axis[0]) * inside(&l->axis[1]) < least_inside)
        return false;
    if (l->groups > 1)
        return filled(l, x) * filled(l, y) <= most_filled;
    if (!to_x && x <= FEW && l->axis[1].taps >= (to_w ? LONG_TO_W : LONG))
        return true;
    if (filled(l, y) == 1)
        return to_w && x > READ_ALONE && x < FEW;
    return x < FEW && (to_x || x > READ_ALONE || taps >= MANY);
}

bool zt_lines_fits(const struct zt_conv *c, enum zt_conv_direction direction) {
    struct zt_lines l;
    return describe(c, direction, &l) && is_faster(&l);
}

static int64_t weight_elems(const struct zt_lines *l) {
    return l->groups * l->results * l->sources;
}

/* The sources of results are in oneDNN's order, tap by tap; those of dots in that of dw. */
static int64_t source_of(const struct zt_lines *l, int64_t channel, int64_t tap) {
    return l->direction == ZT_CONV_TO_W ? channel * (l->sources / l->channels) + tap : tap * l->channels + channel;
}

const struct zt_lines *zt_lines_make(struct zt_arena *arena, const struct zt_conv *c,
                                     enum zt_conv_direction direction) {
    struct zt_lines l;
    if (!describe(c, direction, &l) || !is_faster(&l))
        return NULL;
    const struct axis *rows = &l.axis[0], *columns = &l.axis[1];
    l.pieces = zt_min_int(l.chunks, zt_min_int(MOST_PIECES, zt_conv_pieces(c)));
    l.at = ZT_NEW_N(arena, int64_t, l.sources + l.kernels->sources);
    for (int64_t k = 0; k < l.channels; k++)
        for (int64_t i = 0; i < rows->taps; i++)
            for (int64_t j = 0; j < columns->taps; j++)
                l.at[source_of(&l, k, i * columns->taps + j)] =
                    k * l.x_elems + i * rows->dilation * l.pitch + j * columns->dilation;
    for (int i = 0; i < l.kernels->sources; i++)
        l.at[l.sources + i] = l.at[l.sources - 1];
    return zt_arena_copy(arena, &l, sizeof l);
}

static int64_t of_thread(const struct zt_lines *l) {
    return l->channels * l->x_elems + l->results * l->y_elems;
}

/* Of weights or of the sums of a piece, and of biases behind. */
static int64_t held_elems(const struct zt_lines *l) {
    return zt_align_floats(weight_elems(l) + l->groups * l->results);
}

size_t zt_lines_bytes(const struct zt_lines *l, int threads) {
    const int64_t held = held_elems(l) * (l->direction == ZT_CONV_TO_W ? l->pieces : 1);
    return (size_t)(held + of_thread(l) * zt_max_int(1, threads)) * sizeof(float);
}

/* ---- lines ---- */

struct job {
    const struct zt_lines *l;
    const struct zt_lines_data *data;
    const struct zt_planes_weights *weights;
    float *held, *threads;
};

/* A chunk of the batch: its samples, and the band of rows of results. */
struct chunk {
    int64_t sample, samples, row, rows;
};

static struct chunk chunk_of(const struct zt_lines *l, int64_t index) {
    const int64_t sample = index / l->bands * l->beside, row = index % l->bands * l->rows;
    return (struct chunk){ sample, zt_min_int(l->beside, l->samples - sample), row,
                           zt_min_int(l->rows, l->axis[0].out - row) };
}

/* Rows are often shorter than a call of memcpy is worth: the last floats are copied once more with others before. */
static inline void copy_row(const float *from, int64_t count, float *to) {
    enum { WHOLE = 16, HALF = 8, FEW = 4 };
    if (count >= WHOLE) {
        for (int64_t i = 0; i + WHOLE <= count; i += WHOLE)
            memcpy(to + i, from + i, WHOLE * sizeof *to);
        memcpy(to + count - WHOLE, from + count - WHOLE, WHOLE * sizeof *to);
    } else if (count >= HALF) {
        memcpy(to, from, HALF * sizeof *to);
        memcpy(to + count - HALF, from + count - HALF, HALF * sizeof *to);
    } else if (count >= FEW) {
        memcpy(to, from, FEW * sizeof *to);
        memcpy(to + count - FEW, from + count - FEW, FEW * sizeof *to);
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i];
    }
}

/* Channel `channel` of x, or of dy to x. */
static void read_line(const struct zt_lines *l, const struct chunk *c, const float *from, int64_t channel,
                      float *line) {
    const struct axis *rows = &l->axis[0], *columns = &l->axis[1];
    const int64_t all = l->groups * l->channels, plane = rows->in * columns->in;
    const int64_t first = zt_max_int(0, c->row - rows->lead);
    const int64_t end = zt_min_int(rows->in, c->row + c->rows + span_of(rows) - rows->lead);
    memset(line, 0, (size_t)l->x_elems * sizeof *line);
    for (int64_t s = 0; s < c->samples; s++) {
        const float *at = from + ((c->sample + s) * all + channel) * plane;
        float *to = line + s * l->line + (rows->lead - c->row) * l->pitch + columns->lead;
        for (int64_t r = first; r < end; r++)
            copy_row(at + r * columns->in, columns->in, to + r * l->pitch);
    }
}

/* The results of channel `channel` in a tensor of theirs. */
static int64_t results_at(const struct zt_lines *l, const struct chunk *c, int64_t sample, int64_t channel) {
    const struct axis *rows = &l->axis[0], *columns = &l->axis[1];
    return (((c->sample + sample) * l->groups * l->results + channel) * rows->out + c->row) * columns->out;
}

static void write_results(const struct zt_lines *l, const struct chunk *c, const float *line, int64_t channel,
                          float *to) {
    const int64_t columns = l->axis[1].out;
    for (int64_t s = 0; s < c->samples; s++) {
        float *y = to + results_at(l, c, s, channel);
        for (int64_t r = 0; r < c->rows; r++)
            copy_row(line + s * l->line + r * l->pitch, columns, y + r * columns);
    }
}

static void read_results(const struct zt_lines *l, const struct chunk *c, const float *from, int64_t channel,
                         float *line) {
    const int64_t columns = l->axis[1].out;
    memset(line, 0, (size_t)l->y_elems * sizeof *line);
    for (int64_t s = 0; s < c->samples; s++) {
        const float *dy = from + results_at(l, c, s, channel);
        for (int64_t r = 0; r < c->rows; r++)
            copy_row(dy + r * columns, columns, line + s * l->line + r * l->pitch);
    }
}

/* ---- to y, to x ---- */

/* Weights of `m`, a channel of the results of a group. */
static void pack_channel(const struct job *job, int64_t group, int64_t m) {
    const struct zt_lines *l = job->l;
    const int64_t taps = l->sources / l->channels, first = m / l->at_once * l->at_once;
    const int64_t beside = zt_min_int(l->at_once, l->results - first);
    const bool to_x = l->direction == ZT_CONV_TO_X;
    float *to = job->held + (group * l->results + first) * l->sources + m - first;
    for (int64_t k = 0; k < l->channels; k++)
        for (int64_t t = 0; t < taps; t++) {
            const int64_t of_y = group * (to_x ? l->channels : l->results) + (to_x ? k : m);
            const int64_t pair = of_y * (to_x ? l->results : l->channels) + (to_x ? m : k);
            to[source_of(l, k, t) * beside] = job->data->w[pair * taps + (to_x ? taps - 1 - t : t)];
        }
}

static void pack(void *arg, int64_t channel) {
    const struct job *job = arg;
    const struct zt_lines *l = job->l;
    pack_channel(job, channel / l->results, channel % l->results);
    job->held[weight_elems(l) + channel] = job->data->bias ? job->data->bias[channel] : 0;
}

/* All results of a part of the lines. */
static void run_segment(const struct job *job, int64_t group, const float *x, float *y) {
    const struct zt_lines *l = job->l;
    for (int64_t v = 0; v < l->count; v += WINDOW)
        for (int64_t m = 0; m < l->results; m += l->at_once) {
            const int64_t first = group * l->results + m;
            const struct zt_lines_results r = { .x = x + v * l->kernels->vector,
                                                .at = l->at,
                                                .sources = l->sources,
                                                .count = zt_min_int(WINDOW, l->count - v),
                                                .w = job->held + first * l->sources,
                                                .bias = job->held + weight_elems(l) + first,
                                                .y = y + m * l->y_elems + v * l->kernels->vector,
                                                .y_line = l->y_elems,
                                                .channels = (int)zt_min_int(l->at_once, l->results - m),
                                                .relu = job->data->relu };
            l->kernels->results(&r);
        }
}

static void run_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_lines *l = job->l;
    const struct chunk c = chunk_of(l, unit / l->groups);
    const int64_t group = unit % l->groups;
    float *x = job->threads + zt_parallel_thread() * of_thread(l), *y = x + l->channels * l->x_elems;
    for (int64_t k = 0; k < l->channels; k++)
        read_line(l, &c, job->data->from, group * l->channels + k, x + k * l->x_elems);
    for (int64_t s = 0; s < zt_min_int(l->segments, c.samples); s++)
        run_segment(job, group, x + s * l->line, y + s * l->line);
    for (int64_t m = 0; m < l->results; m++)
        write_results(l, &c, y + m * l->y_elems, group * l->results + m, job->data->to);
}

void zt_lines_run(const struct zt_lines *l, const struct zt_lines_data *data, void *workspace, int threads) {
    struct job job = { .l = l, .data = data, .held = workspace };
    job.threads = job.held + held_elems(l);
    zt_parallel_for(threads, l->groups * l->results, pack, &job);
    zt_parallel_for(threads, l->chunks * l->groups, run_unit, &job);
}

/* ---- to w ---- */

static void sum_dots(const struct zt_lines *l, const float *x, const float *dy, float *dw) {
    for (int64_t m = 0; m < l->results; m += ZT_LINES_DOTS)
        for (int64_t s = 0; s < l->sources; s += l->kernels->sources) {
            const struct zt_lines_dots d = { .x = x,
                                             .dy = dy + m * l->y_elems,
                                             .at = l->at + s,
                                             .segments = l->segments,
                                             .segment = l->line,
                                             .count = l->count,
                                             .dy_line = l->y_elems,
                                             .dw = dw + m * l->sources + s,
                                             .dw_row = l->sources,
                                             .channels = (int)zt_min_int(ZT_LINES_DOTS, l->results - m),
                                             .sources = (int)zt_min_int(l->kernels->sources, l->sources - s) };
            l->kernels->dots(&d);
        }
}

static float sum_line(const float *line, int64_t count) {
    enum { BESIDE = 16 };
    float sum[BESIDE] = { 0 }, all = 0;
    for (int64_t i = 0; i < count; i += BESIDE)
        for (int k = 0; k < BESIDE; k++)
            sum[k] += line[i + k];
    for (int k = 0; k < BESIDE; k++)
        all += sum[k];
    return all;
}

static void do_piece(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_lines *l = job->l;
    const int64_t piece = unit / l->groups, group = unit % l->groups, channel = group * l->results;
    float *sums = job->held + piece * held_elems(l), *dw = sums + channel * l->sources;
    float *db = sums + weight_elems(l) + channel;
    float *x = job->threads + zt_parallel_thread() * of_thread(l), *dy = x + l->channels * l->x_elems;
    memset(dw, 0, (size_t)(l->results * l->sources) * sizeof *dw);
    memset(db, 0, (size_t)l->results * sizeof *db);
    for (int64_t i = l->chunks * piece / l->pieces; i < l->chunks * (piece + 1) / l->pieces; i++) {
        const struct chunk c = chunk_of(l, i);
        for (int64_t k = 0; k < l->channels; k++)
            read_line(l, &c, job->weights->x, group * l->channels + k, x + k * l->x_elems);
        for (int64_t m = 0; m < l->results; m++) {
            read_results(l, &c, job->weights->dy, channel + m, dy + m * l->y_elems);
            db[m] += job->weights->db ? sum_line(dy + m * l->y_elems, l->y_elems) : 0;
        }
        if (job->weights->dw)
            sum_dots(l, x, dy, dw);
    }
}

void zt_lines_weight_gradient(const struct zt_lines *l, const struct zt_planes_weights *data, void *workspace,
                              int threads) {
    struct job job = { .l = l, .weights = data, .held = workspace };
    job.threads = job.held + l->pieces * held_elems(l);
    zt_parallel_for(threads, l->pieces * l->groups, do_piece, &job);
    zt_sum_blocks(job.held, held_elems(l), l->pieces, threads);
    for (int64_t i = 0; data->dw && i < weight_elems(l); i++)
        data->dw[i] = (data->accumulate ? data->dw[i] : 0) + job.held[i];
    if (data->db)
        memcpy(data->db, job.held + weight_elems(l), (size_t)(l->groups * l->results) * sizeof *data->db);
}
