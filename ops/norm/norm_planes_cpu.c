/* Group and instance normalisation of planes: the vector loops take the pixels of one group of `vector` channels
 * (simd_norm_planes.h), whatever channels a row of statistics spans. Three steps:
 *
 *     each piece, CHUNK pixels of a plane, in float, to the workspace:
 *         m_k, off_k and squares_k of every channel (struct zt_plane_moments); or the sums of dy and of dy (x - mean)
 *     each row, in double, over its channels and their chunks in order:
 *         mean_k = m_k + off_k / P_k          mean = sum P_k mean_k / M
 *         M var = sum (squares_k - off_k^2 / P_k + P_k (mean_k - mean)^2)
 *         and from them the map of every channel
 *     each piece: the map
 *
 * P_k are the pixels of a chunk, M the elements of the row. Where threads find enough to do, each takes all steps of a
 * part of a sample that is both whole rows and whole vectors, while it is near; else all threads take one step after
 * the other. The numbers are the same. */
#include "ops/norm/norm_planes_cpu.h"
#include "ops/norm/kernels.h"

#include "ops/norm/simd_norm_planes.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/kernel/layout.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "base/align.h"
#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, PARTS_A_THREAD = 4, SUMS = 3, CHANNEL_NUMBERS = 6 };

struct zt_norm_planes {
    struct zt_norm norm;
    struct zt_planes planes;
    const struct zt_norm_plane_kernels *kernels;
    size_t element;              /* bytes, of float or bfloat16 */
    int64_t row_channels, entry; /* channels of a row; channels that share an entry of scale */
    int64_t chunks;              /* of a plane */
    int64_t wide;                /* channels, padding included */
    int64_t part_groups, parts;  /* groups of a part, parts of a sample */
    bool swish;                  /* with Swish: */
    float alpha;
};

/* The workspace: SUMS numbers of each channel of every chunk, then numbers of each channel of every sample: those of
 * its map, and, in gradients, what it adds to dscale and dbias. */
struct job {
    const struct zt_call *call;
    const struct zt_norm_planes *s;
    float *sum[SUMS], *mean, *of_x, *constant, *of_dy, *dscale, *dbias;
};

static struct job job_of(const struct zt_norm_planes *s, const struct zt_call *call) {
    struct job j = { .call = call, .s = s };
    float *at = call->workspace;
    const int64_t all = s->planes.samples * s->wide;
    for (int i = 0; i < SUMS; i++, at += all * s->chunks)
        j.sum[i] = at;
    float **each[CHANNEL_NUMBERS] = { &j.mean, &j.of_x, &j.constant, &j.of_dy, &j.dscale, &j.dbias };
    for (int i = 0; i < CHANNEL_NUMBERS; i++, at += all)
        *each[i] = at;
    return j;
}

/* ---- preparing ---- */

/* Whether rows and the entries of scale are whole channels. */
static bool of_channels(const struct zt_shape *x, const struct zt_norm *norm) {
    const int64_t pixels = zt_dims(x, 2, x->rank);
    return norm->centred && norm->per_scale % pixels == 0 && norm->period * (norm->length / pixels) == x->dim[1];
}

/* Whether dy and x are of this type. */
static bool all_of(const struct zt_graph *g, int node, int x, enum zt_dtype dtype) {
    for (int i = 0; i <= x; i++)
        if (zt_in(g, node, i)->dtype != dtype)
            return false;
    return true;
}

bool zt_norm_planes_takes(const struct zt_prepare *p, const struct zt_norm *norm, int x) {
    int block;
    enum zt_order order = zt_layout_order(p->in_layout[x], &block);
    return (order == ZT_ORDER_BLOCKED || order == ZT_ORDER_CHANNELS_LAST) &&
           (all_of(p->graph, p->node, x, ZT_FLOAT) || all_of(p->graph, p->node, x, ZT_BFLOAT16)) &&
           of_channels(&zt_in(p->graph, p->node, x)->shape, norm);
}

struct zt_norm_planes *zt_norm_planes_prepare(struct zt_prepare *p, const struct zt_norm *norm, int x, bool maps) {
    const struct zt_graph *g = p->graph;
    const struct zt_shape *shape = &zt_in(g, p->node, x)->shape;
    const enum zt_dtype dtype = zt_in(g, p->node, x)->dtype;
    const struct zt_layout *layout = zt_layout_vector(g->arena, p->in_layout[x], dtype, shape);
    for (int i = 0; i < g->nodes[p->node]->in_count; i++)
        p->in_layout[i] = i <= x ? layout : NULL;
    if (maps)
        p->out_layout[0] = layout;
    struct zt_norm_planes *s = zt_calloc(1, sizeof *s);
    s->norm = *norm;
    zt_planes_of(layout, shape, &s->planes);
    s->kernels = zt_norm_plane_kernels(s->planes.vector, dtype);
    s->element = zt_dtype_bytes(dtype);
    s->row_channels = norm->length / s->planes.pixels;
    s->entry = norm->per_scale / s->planes.pixels;
    s->chunks = zt_ceil_div(s->planes.pixels, CHUNK);
    s->wide = s->planes.groups * s->planes.vector;
    s->part_groups = s->row_channels / zt_common_divisor(s->row_channels, s->planes.vector);
    s->part_groups = zt_min_int(s->part_groups, s->planes.groups);
    s->parts = zt_ceil_div(s->planes.groups, s->part_groups);
    const int64_t numbers = SUMS * s->chunks + CHANNEL_NUMBERS;
    p->workspace_bytes = (size_t)(numbers * s->planes.samples * s->wide) * sizeof(float);
    return s;
}

/* ---- numbers of rows and channels ---- */

static const struct zt_view *in(const struct job *j, int i) {
    return i < j->call->in_count && j->call->in[i].data ? &j->call->in[i] : NULL;
}

static double number(const struct zt_view *v, int64_t i) {
    return !v ? 0 : v->dtype == ZT_FLOAT ? (double)((const float *)v->data)[i] : zt_load_double(v->dtype, v->data, i);
}

static void put(const struct job *j, int out, int64_t i, double value) {
    const struct zt_view *v = out < j->call->out_count ? &j->call->out[out] : NULL;
    if (v && v->data)
        zt_store_double(v->dtype, v->data, i, value);
}

/* Of row `row`: its first channel, and the place of that among those of all samples. */
static int64_t first_channel(const struct zt_norm_planes *s, int64_t row) {
    return row % s->norm.period * s->row_channels;
}
static int64_t place_of(const struct zt_norm_planes *s, int64_t row) {
    return row / s->norm.period * s->wide + first_channel(s, row);
}

/* The place of chunk 0 of the channel at `place` among the sums; the next chunk is `wide` further. */
static int64_t sums_of(const struct zt_norm_planes *s, int64_t place) {
    return place / s->wide * s->chunks * s->wide + place % s->wide;
}

static double pixels_of(const struct zt_norm_planes *s, int64_t chunk) {
    return (double)zt_min_int(CHUNK, s->planes.pixels - chunk * CHUNK);
}

/* Padding channels behind a sample's last row get a map to zero. */
static void clear_padding(const struct job *j, int64_t row) {
    const struct zt_norm_planes *s = j->s;
    if ((row + 1) % s->norm.period != 0)
        return;
    const int64_t from = place_of(s, row) + s->row_channels;
    for (int64_t at = from; at < from + s->wide - s->planes.channels; at++)
        j->mean[at] = j->of_x[at] = j->constant[at] = j->of_dy[at] = 0;
}

/* ---- pieces: a chunk of the pixels of a plane ---- */

struct piece {
    struct zt_planes planes; /* of the chunk's pixels */
    int64_t offset;          /* of its first pixel in a tensor */
    int64_t sums, place;     /* of its first channel among the sums and among the channels of all samples */
};

static struct piece piece_of(const struct zt_norm_planes *s, int64_t i) {
    const int64_t chunk = i % s->chunks, plane = i / s->chunks;
    const int64_t sample = plane / s->planes.groups, group = plane % s->planes.groups;
    struct piece p = { .planes = s->planes };
    p.planes.pixels = zt_min_int(CHUNK, s->planes.pixels - chunk * CHUNK);
    p.offset = sample * s->planes.sample + group * s->planes.group + chunk * CHUNK * s->planes.pixel;
    p.place = sample * s->wide + group * s->planes.vector;
    p.sums = sums_of(s, p.place) + chunk * s->wide;
    return p;
}

static void *tensor(const struct job *j, const struct zt_view *v, const struct piece *p) {
    return zt_element(v->data, j->s->element, p->offset);
}

static struct zt_row_map map_of(const struct job *j, const struct piece *p) {
    return (struct zt_row_map){ j->mean + p->place, j->of_x + p->place, j->constant + p->place, j->of_dy + p->place };
}

/* ---- steps ---- */

/* The steps of a kernel, of one piece or row each; the first and the last may be NULL. */
struct steps {
    void (*begin)(void *job, int64_t row);
    void (*measure)(void *job, int64_t piece);
    void (*settle)(void *job, int64_t row);
    void (*apply)(void *job, int64_t piece);
};

struct run {
    struct job j;
    const struct steps *steps;
};

static void run_range(struct job *j, int64_t from, int64_t end, void (*step)(void *job, int64_t i)) {
    for (int64_t i = from; step && i < end; i++)
        step(j, i);
}

static void run_part(void *arg, int64_t i) {
    struct run *r = arg;
    const struct zt_norm_planes *s = r->j.s;
    const int64_t sample = i / s->parts, first = i % s->parts * s->part_groups;
    const int64_t end = zt_min_int(s->planes.groups, first + s->part_groups);
    const int64_t piece = (sample * s->planes.groups + first) * s->chunks, pieces = (end - first) * s->chunks;
    const int64_t rows = sample * s->norm.period, row = rows + first * s->planes.vector / s->row_channels;
    const int64_t row_end = rows + zt_min_int(s->norm.period, end * s->planes.vector / s->row_channels);
    run_range(&r->j, row, row_end, r->steps->begin);
    run_range(&r->j, piece, piece + pieces, r->steps->measure);
    run_range(&r->j, row, row_end, r->steps->settle);
    run_range(&r->j, piece, piece + pieces, r->steps->apply);
}

static void run_step(struct run *r, int64_t count, void (*step)(void *job, int64_t i)) {
    if (step)
        zt_parallel_for(r->j.call->threads, count, step, &r->j);
}

static void run_steps(const struct zt_norm_planes *s, const struct zt_call *call, const struct steps *steps) {
    struct run r = { job_of(s, call), steps };
    const int64_t parts = s->planes.samples * s->parts, pieces = s->planes.samples * s->planes.groups * s->chunks;
    if (call->threads <= 1 || parts >= (int64_t)PARTS_A_THREAD * call->threads) {
        zt_parallel_for(call->threads, parts, run_part, &r);
        return;
    }
    run_step(&r, s->norm.rows, steps->begin);
    run_step(&r, pieces, steps->measure);
    run_step(&r, s->norm.rows, steps->settle);
    run_step(&r, pieces, steps->apply);
}

/* ---- forward ---- */

static void measure(void *job, int64_t i) {
    const struct job *j = job;
    const struct piece p = piece_of(j->s, i);
    const struct zt_plane_moments to = { j->sum[0] + p.sums, j->sum[1] + p.sums, j->sum[2] + p.sums };
    j->s->kernels->moments(&p.planes, tensor(j, &j->call->in[0], &p), &to);
}

/* The mean of a row, from its chunks; and the sum of squares around it. */
static double mean_of(const struct job *j, int64_t row) {
    const struct zt_norm_planes *s = j->s;
    const int64_t at = sums_of(s, place_of(s, row));
    double sum = 0;
    for (int64_t c = 0; c < s->row_channels; c++)
        for (int64_t k = 0; k < s->chunks; k++)
            sum += pixels_of(s, k) * (double)j->sum[0][at + c + k * s->wide] + (double)j->sum[1][at + c + k * s->wide];
    return sum / (double)s->norm.length;
}

static double squares_of(const struct job *j, int64_t row, double mean) {
    const struct zt_norm_planes *s = j->s;
    const int64_t at = sums_of(s, place_of(s, row));
    double sum = 0;
    for (int64_t c = 0; c < s->row_channels; c++)
        for (int64_t k = 0; k < s->chunks; k++) {
            const int64_t here = at + c + k * s->wide;
            const double pixels = pixels_of(s, k), off = (double)j->sum[1][here];
            const double away = (double)j->sum[0][here] + off / pixels - mean;
            sum += (double)j->sum[2][here] - off * off / pixels + pixels * away * away;
        }
    return sum;
}

static void put_statistics(const struct job *j, int64_t row, int out, double *mean, double *inv) {
    *mean = mean_of(j, row);
    *inv = 1 / sqrt(squares_of(j, row, *mean) / (double)j->s->norm.length + j->s->norm.epsilon);
    put(j, out, row, *mean);
    put(j, out + 1, row, *inv);
}

static void settle_statistics(void *job, int64_t row) {
    double mean, inv;
    put_statistics(job, row, 0, &mean, &inv);
}

static void settle_map(void *job, int64_t row) {
    const struct job *j = job;
    const int64_t first = first_channel(j->s, row), at = place_of(j->s, row);
    double mean, inv;
    put_statistics(j, row, 1, &mean, &inv);
    const double off = mean - (double)(float)mean;
    for (int64_t c = 0; c < j->s->row_channels; c++) {
        const int64_t entry = (first + c) / j->s->entry;
        const double factor = inv * number(in(j, 1), entry);
        j->mean[at + c] = (float)mean;
        j->of_x[at + c] = (float)factor;
        j->constant[at + c] = (float)(number(in(j, 2), entry) - off * factor);
    }
    clear_padding(j, row);
}

static void normalise(void *job, int64_t i) {
    const struct job *j = job;
    const struct piece p = piece_of(j->s, i);
    const struct zt_row_map map = map_of(j, &p);
    j->s->kernels->normalise(&p.planes, tensor(j, &j->call->in[0], &p), &map, tensor(j, &j->call->out[0], &p));
}

void zt_norm_planes_normalise(const struct zt_norm_planes *s, const struct zt_call *call) {
    static const struct steps steps = { NULL, measure, settle_map, normalise };
    run_steps(s, call, &steps);
}

void zt_norm_planes_statistics(const struct zt_norm_planes *s, const struct zt_call *call) {
    static const struct steps steps = { NULL, measure, settle_statistics, NULL };
    run_steps(s, call, &steps);
}

/* ---- backward: inputs dy, x, scale, mean, inv_std[, gradients of the row's mean and inv_std] ---- */

/* The mean, which the sums are taken around. */
static void begin_mean(void *job, int64_t row) {
    const struct job *j = job;
    const float mean = (float)number(in(j, 3), row);
    for (int64_t c = 0, at = place_of(j->s, row); c < j->s->row_channels; c++)
        j->mean[at + c] = mean;
    clear_padding(j, row);
}

static void sum_up(void *job, int64_t i) {
    const struct job *j = job;
    const struct piece p = piece_of(j->s, i);
    const struct zt_row_sums to = { .mean = j->mean + p.place, .dy = j->sum[0] + p.sums, .dyx = j->sum[1] + p.sums };
    j->s->kernels->sums(&p.planes, tensor(j, &j->call->in[0], &p), tensor(j, &j->call->in[1], &p), &to);
}

/* Computes the contributions of each channel of a row to dbias and, from the sum of dy (x - mean), to dscale; and the
 * sums of g = dy scale and of g xh over the row. */
static void sum_row(const struct job *j, int64_t row, double inv, double *sum, double *product) {
    const struct zt_norm_planes *s = j->s;
    const int64_t first = first_channel(s, row), at = place_of(s, row), from = sums_of(s, at);
    *sum = *product = 0;
    for (int64_t c = 0; c < s->row_channels; c++) {
        const double scale = number(in(j, 2), (first + c) / s->entry);
        double dy = 0, dyx = 0;
        for (int64_t k = 0; k < s->chunks; k++) {
            dy += (double)j->sum[0][from + c + k * s->wide];
            dyx += (double)j->sum[1][from + c + k * s->wide];
        }
        dyx *= inv;
        j->dscale[at + c] = (float)dyx;
        j->dbias[at + c] = (float)dy;
        *sum += scale * dy;
        *product += scale * dyx;
    }
}

/* The gradient of the row's mean (5) or inv_std (6), which no Swish is behind. */
static double own_gradient(const struct job *j, int i, int64_t row) {
    return j->s->swish ? 0 : number(in(j, i), row);
}

/* dx = inv g - (inv mean(g) + inv xh mean(g xh)), and what the gradients of the row's mean and inv_std add */
static void settle_gradient(void *job, int64_t row) {
    const struct job *j = job;
    const struct zt_norm_planes *s = j->s;
    const int64_t first = first_channel(s, row), at = place_of(s, row);
    const double inv = number(in(j, 4), row), m = (double)s->norm.length;
    double sum, product;
    sum_row(j, row, inv, &sum, &product);
    const double constant = (own_gradient(j, 5, row) - inv * sum) / m;
    const double of_x = (-inv * product - own_gradient(j, 6, row) * inv * inv) / m * inv;
    for (int64_t c = 0; c < s->row_channels; c++) {
        j->of_dy[at + c] = (float)(inv * number(in(j, 2), (first + c) / s->entry));
        j->constant[at + c] = (float)constant;
        j->of_x[at + c] = (float)of_x;
    }
}

static void differentiate(void *job, int64_t i) {
    const struct job *j = job;
    const struct piece p = piece_of(j->s, i);
    const struct zt_row_map map = map_of(j, &p);
    j->s->kernels->normalise_grad(&p.planes, tensor(j, &j->call->in[0], &p), tensor(j, &j->call->in[1], &p), &map,
                                  tensor(j, &j->call->out[0], &p));
}

/* dscale and dbias of an entry, over the samples in order. */
static void add_entry(void *job, int64_t entry) {
    const struct job *j = job;
    const struct zt_norm_planes *s = j->s;
    double dscale = 0, dbias = 0;
    for (int64_t n = 0; n < s->planes.samples; n++)
        for (int64_t c = entry * s->entry; c < (entry + 1) * s->entry; c++) {
            dscale += (double)j->dscale[n * s->wide + c];
            dbias += (double)j->dbias[n * s->wide + c];
        }
    put(j, 1, entry, dscale);
    put(j, 2, entry, dbias);
}

static void run_gradient(const struct zt_norm_planes *s, const struct zt_call *call, const struct steps *steps) {
    struct job j = job_of(s, call);
    run_steps(s, call, steps);
    zt_parallel_for(call->threads, s->planes.channels / s->entry, add_entry, &j);
}

void zt_norm_planes_gradient(const struct zt_norm_planes *s, const struct zt_call *call) {
    const struct steps steps = { begin_mean, sum_up, settle_gradient, call->out[0].data ? differentiate : NULL };
    run_gradient(s, call, &steps);
}

/* ---- with Swish: inputs and outputs of fuse_norm_swish.c ---- */

enum { BIAS = 5, ADDED = 6 }; /* inputs of the gradient */

static bool swish_supports(const struct zt_graph *g, int node, int x) {
    const struct zt_shape *shape = &zt_in(g, node, x)->shape;
    struct zt_err err = { 0 };
    struct zt_norm norm;
    return shape->rank > 2 && zt_shape_count(shape) > 0 && all_of(g, node, x, ZT_FLOAT) &&
           (x ? zt_norm_read_rows(g, node, x, &norm, &err) : zt_norm_read(g, node, &norm, &err)) &&
           of_channels(shape, &norm);
}

bool zt_norm_swish_cpu_supports(const struct zt_graph *g, int node) {
    return swish_supports(g, node, 0);
}
bool zt_norm_swish_grad_cpu_supports(const struct zt_graph *g, int node) {
    return swish_supports(g, node, 1);
}

static bool swish_prepare(struct zt_prepare *p, int x, struct zt_err *err) {
    struct zt_norm norm;
    if (!zt_norm_read_rows(p->graph, p->node, x, &norm, err))
        return false;
    struct zt_norm_planes *s = zt_norm_planes_prepare(p, &norm, x, true);
    s->swish = true;
    s->alpha = zt_attr_float(p->graph->nodes[p->node], "alpha", 1);
    p->state = s;
    return true;
}

bool zt_norm_swish_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return swish_prepare(p, 0, err);
}
bool zt_norm_swish_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    if (!swish_prepare(p, 1, err))
        return false;
    if (p->graph->nodes[p->node]->in_count > ADDED)
        p->in_layout[ADDED] = p->in_layout[0];
    return true;
}
void zt_norm_swish_cpu_release(void *state) {
    free(state);
}
void zt_norm_swish_grad_cpu_release(void *state) {
    free(state);
}

static void swish(void *job, int64_t i) {
    const struct job *j = job;
    const struct piece p = piece_of(j->s, i);
    const struct zt_row_map map = map_of(j, &p);
    const struct zt_plane_activation f = { .kind = ZT_PLANE_SWISH, .alpha = j->s->alpha };
    j->s->kernels->activate(&p.planes, tensor(j, &j->call->in[0], &p), &map, &f, tensor(j, &j->call->out[0], &p));
}

bool zt_norm_swish_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    static const struct steps steps = { NULL, measure, settle_map, swish };
    run_steps(call->state, call, &steps);
    return true;
}

/* The map to what Swish was given. */
static void begin_map(void *job, int64_t row) {
    const struct job *j = job;
    const int64_t first = first_channel(j->s, row), at = place_of(j->s, row);
    const double inv = number(in(j, 4), row);
    begin_mean(job, row);
    for (int64_t c = 0; c < j->s->row_channels; c++) {
        j->of_x[at + c] = (float)(inv * number(in(j, 2), (first + c) / j->s->entry));
        j->constant[at + c] = (float)number(in(j, BIAS), (first + c) / j->s->entry);
    }
}

/* Swish's gradient waits where dx goes. */
static void sum_up_swish(void *job, int64_t i) {
    const struct job *j = job;
    const struct piece p = piece_of(j->s, i);
    const struct zt_swish_grad of = { map_of(j, &p), j->s->alpha, tensor(j, &j->call->out[0], &p) };
    const struct zt_row_sums to = { .dy = j->sum[0] + p.sums, .dyx = j->sum[1] + p.sums };
    j->s->kernels->swish_sums(&p.planes, tensor(j, &j->call->in[0], &p), tensor(j, &j->call->in[1], &p), &of, &to);
}

static void differentiate_swish(void *job, int64_t i) {
    const struct job *j = job;
    const struct piece p = piece_of(j->s, i);
    const struct zt_row_map map = map_of(j, &p);
    float *dx = tensor(j, &j->call->out[0], &p);
    j->s->kernels->normalise_grad(&p.planes, dx, tensor(j, &j->call->in[1], &p), &map, dx);
    if (in(j, ADDED)) /* dx is near */
        j->s->kernels->add(&p.planes, tensor(j, in(j, ADDED), &p), dx);
}

bool zt_norm_swish_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    static const struct steps steps = { begin_map, sum_up_swish, settle_gradient, differentiate_swish };
    run_gradient(call->state, call, &steps);
    return true;
}
