/* Batch normalisation on the CPU: of blocked planes where there are spatial axes and oneDNN's layouts, of lines of
 * plain tensors elsewhere. A line is a channel of a sample, or without spatial axes a column: channels side by side. */
#include "ops/norm/batch_norm_cpu.h"

#include "ops/norm/simd_norm.h"
#include "ops/kernel/tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers a channel ---- */

int64_t zt_channel_sums_room(int64_t parts, int64_t wide) {
    return (2 * parts + ZT_COEFFICIENTS) * wide;
}

void zt_channel_sums_place(struct zt_channel_sums *s, void *workspace) {
    float *at = workspace;
    for (int i = 0; i < 2; i++, at += s->parts * s->wide)
        s->part[i] = at;
    for (int i = 0; i < ZT_COEFFICIENTS; i++, at += s->wide)
        s->coefficient[i] = at;
}

/* Of a channel, over all parts. */
static double own_elements(const struct zt_channel_sums *s) {
    return (double)s->parts * s->elements;
}

static double number(const struct zt_channel_sums *s, int in, int64_t c) {
    const struct zt_view *v = &s->call->in[in];
    return v->dtype == ZT_FLOAT ? (double)((const float *)v->data)[c] : zt_load_double(v->dtype, v->data, c);
}

static void put(const struct zt_channel_sums *s, int out, int64_t c, double value) {
    const struct zt_view *v = out < s->call->out_count ? &s->call->out[out] : NULL;
    if (v && v->data && v->dtype == ZT_FLOAT)
        ((float *)v->data)[c] = (float)value;
    else if (v && v->data)
        zt_store_double(v->dtype, v->data, c, value);
}

/* Padding channels get coefficients of zero, which keeps them zero. */
static void set(struct zt_channel_sums *s, int64_t c, double mean, double first, double second, double third) {
    bool real = c < s->norm.channels;
    s->coefficient[ZT_MEAN][c] = real ? (float)mean : 0;
    s->coefficient[ZT_FIRST][c] = real ? (float)first : 0;
    s->coefficient[ZT_SECOND][c] = real ? (float)second : 0;
    s->coefficient[ZT_THIRD][c] = real ? (float)third : 0;
}

/* ---- forward: inputs x, scale, b, running mean, running var ---- */

static void own_moments(const struct zt_channel_sums *s, int64_t c, double *mean, double *squares) {
    *mean = *squares = 0;
    for (int64_t i = 0; i < s->parts; i++)
        *mean += (double)s->part[0][i * s->wide + c];
    *mean /= (double)s->parts;
    for (int64_t i = 0; i < s->parts; i++) {
        double off = (double)s->part[0][i * s->wide + c] - *mean;
        *squares += (double)s->part[1][i * s->wide + c] + s->elements * off * off;
    }
}

static void set_statistics(struct zt_channel_sums *s, int64_t c, double mean, double var) {
    double momentum = s->norm.momentum, inv_std = 1 / sqrt(var + s->norm.epsilon);
    double factor = number(s, 1, c) * inv_std, off = mean - (double)(float)mean;
    set(s, c, mean, factor, number(s, 2, c) - off * factor, 0);
    put(s, 1, c, number(s, 3, c) * momentum + mean * (1 - momentum));
    put(s, 2, c, number(s, 4, c) * momentum + var * (1 - momentum));
    put(s, 3, c, mean);
    put(s, 4, c, inv_std);
}

void zt_channel_own_statistics(struct zt_channel_sums *s, int64_t from, int64_t end) {
    for (int64_t c = from; c < end; c++) {
        double mean, squares;
        if (c >= s->norm.channels) {
            set(s, c, 0, 0, 0, 0);
        } else if (s->fixed) {
            set(s, c, number(s, 3, c), number(s, 1, c) / sqrt(number(s, 4, c) + s->norm.epsilon), number(s, 2, c), 0);
        } else {
            own_moments(s, c, &mean, &squares);
            set_statistics(s, c, mean, squares / own_elements(s));
        }
    }
}

/* Around the running mean, which is the same number on every rank. */
static void give_moments(struct zt_channel_sums *s, int64_t c, double *sums) {
    const double m = own_elements(s);
    double mean, squares;
    own_moments(s, c, &mean, &squares);
    mean -= number(s, 3, c);
    sums[0] = m * mean;
    sums[1] = squares + m * mean * mean;
}

static void take_moments(struct zt_channel_sums *s, int64_t c, const double *sums, double m) {
    const double moved = sums[0] / m, var = sums[1] / m - moved * moved;
    set_statistics(s, c, number(s, 3, c) + moved, var < 0 ? 0 : var); /* NaN stays */
}

/* ---- backward: inputs dy, x, scale, mean, and inv_std or the running variance ---- */

void zt_channel_means(struct zt_channel_sums *s, int64_t from, int64_t end) {
    for (int64_t c = from; c < end; c++)
        set(s, c, c < s->norm.channels ? number(s, 3, c) : 0, 0, 0, 0);
}

static double inv_std_of(const struct zt_channel_sums *s, int64_t c) {
    return s->fixed ? 1 / sqrt(number(s, 4, c) + s->norm.epsilon) : number(s, 4, c);
}

/* The gradients of scale and b are this rank's alone, as those of other parameters are. */
static void give_gradients(struct zt_channel_sums *s, int64_t c, double *sums) {
    sums[0] = sums[1] = 0;
    for (int64_t i = 0; i < s->parts; i++) {
        sums[0] += (double)s->part[0][i * s->wide + c];
        sums[1] += (double)s->part[1][i * s->wide + c];
    }
    sums[1] *= inv_std_of(s, c);
    put(s, 1, c, sums[1]);
    put(s, 2, c, sums[0]);
}

static void take_gradients(struct zt_channel_sums *s, int64_t c, const double *sums, double m) {
    const double inv_std = inv_std_of(s, c), factor = number(s, 2, c) * inv_std, moving = s->fixed ? 0 : factor / m;
    set(s, c, number(s, 3, c), factor, -moving * sums[0], -moving * sums[1] * inv_std);
}

void zt_channel_own_gradients(struct zt_channel_sums *s, int64_t from, int64_t end) {
    double sums[2];
    for (int64_t c = from; c < zt_min_int(end, s->norm.channels); c++) {
        give_gradients(s, c, sums);
        take_gradients(s, c, sums, own_elements(s));
    }
}

/* ---- over the ranks ---- */

static bool share(struct zt_channel_sums *s, void (*give)(struct zt_channel_sums *s, int64_t c, double *sums),
                  void (*take)(struct zt_channel_sums *s, int64_t c, const double *sums, double elements),
                  struct zt_err *err) {
    double sums[ZT_BATCH_NORM_SUMS];
    for (int64_t first = 0; first < s->norm.channels; first += ZT_BATCH_NORM_TOGETHER) {
        const int64_t count = zt_min_int(ZT_BATCH_NORM_TOGETHER, s->norm.channels - first);
        for (int64_t c = 0; c < count; c++)
            give(s, first + c, sums + 2 * c);
        sums[2 * count] = own_elements(s);
        if (!zt_batch_norm_add_ranks(s->call, sums, count, err))
            return false;
        for (int64_t c = 0; c < count; c++)
            take(s, first + c, sums + 2 * c, sums[2 * count]);
    }
    return true;
}

bool zt_channel_statistics(struct zt_channel_sums *s, struct zt_err *err) {
    zt_channel_own_statistics(s, s->sync ? s->norm.channels : 0, s->wide);
    return !s->sync || share(s, give_moments, take_moments, err);
}

bool zt_channel_gradients(struct zt_channel_sums *s, struct zt_err *err) {
    if (s->sync)
        return share(s, give_gradients, take_gradients, err);
    zt_channel_own_gradients(s, 0, s->wide);
    return true;
}

/* ---- which ---- */

static const struct zt_kernel blocked[2] = { ZT_IF_DNNL(zt_batch_norm_blocked),
                                             ZT_IF_DNNL(zt_batch_norm_grad_blocked) };

struct state {
    void *blocked; /* NULL: lines */
    struct zt_batch_norm norm;
    struct zt_bundles bundles;
    const struct zt_norm_kernels *kernels;
    bool fixed, sync;
    size_t bytes; /* of an element */
};

/* x: the input it is, 1 in gradients. */
static bool supports(const struct zt_graph *g, int node, int x) {
    const struct zt_node *n = g->nodes[node];
    struct zt_batch_norm norm;
    struct zt_err err = { 0 };
    bool trains =
        strcmp(n->op->name, "BatchNormalization") == 0 && (n->out_count > 1 || zt_attr_int(n, "training_mode", 0) != 0);
    if (trains || n->in_count > 5) /* forms that only gradients of gradients have */
        return false;
    if (blocked[x].supports && blocked[x].supports(g, node))
        return true;
    for (int i = 0; i <= x; i++)
        if (zt_in(g, node, i)->dtype != zt_in(g, node, x)->dtype)
            return false;
    return zt_norm_kernels() && zt_row_type(zt_in(g, node, x)->dtype) && zt_batch_norm_read(g, node, x, &norm, &err) &&
           norm.n > 0 && norm.channels > 0 && norm.spatial > 0;
}

bool zt_batch_norm_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_batch_norm_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 1);
}

static bool prepare(struct zt_prepare *p, int x, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_node *n = g->nodes[p->node];
    enum zt_dtype dtype = zt_in(g, p->node, x)->dtype;
    struct zt_batch_norm norm;
    bool planes = blocked[x].supports && blocked[x].supports(g, p->node);
    if (!zt_batch_norm_read(g, p->node, x, &norm, err) || (planes && !blocked[x].prepare(p, err)))
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->blocked = p->state;
    p->state = s;
    if (planes)
        return true;
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    struct zt_axis_slices lines = { norm.n * norm.channels, norm.spatial, 1 };
    if (norm.spatial == 1)
        lines = (struct zt_axis_slices){ 1, norm.n, norm.channels };
    s->norm = norm;
    s->kernels = zt_norm_kernels();
    s->bundles = zt_bundles_of(&lines, dtype, s->kernels->lanes);
    s->fixed = strcmp(n->op->name, "BatchNormalization") == 0 || strcmp(n->op->name, "BatchNormFixedGrad") == 0;
    s->sync = zt_batch_norm_is_sync(n);
    s->bytes = zt_dtype_bytes(dtype);
    p->workspace_bytes = (size_t)zt_channel_sums_room(lines.outer > 1 ? norm.n : 1, norm.channels) * sizeof(float);
    return true;
}

bool zt_batch_norm_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 0, err);
}
bool zt_batch_norm_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 1, err);
}

static void release(struct state *s, int x) {
    if (s && s->blocked)
        blocked[x].release(s->blocked);
    free(s);
}
void zt_batch_norm_cpu_release(void *state) {
    release(state, 0);
}
void zt_batch_norm_grad_cpu_release(void *state) {
    release(state, 1);
}

static bool run_blocked(const struct zt_call *call, int x, struct zt_err *err) {
    struct zt_call inner = *call;
    inner.state = ((const struct state *)call->state)->blocked;
    return blocked[x].run(&inner, err);
}

/* ---- lines ---- */

struct job {
    struct zt_channel_sums sums;
    const struct state *s;
};

static struct job job_of(const struct zt_call *call) {
    const struct state *s = call->state;
    bool columns = s->norm.spatial == 1;
    struct job j = { .s = s };
    j.sums = (struct zt_channel_sums){ .call = call,
                                       .norm = s->norm,
                                       .fixed = s->fixed,
                                       .sync = s->sync,
                                       .parts = columns ? 1 : s->norm.n,
                                       .wide = s->norm.channels,
                                       .elements = (double)(columns ? s->norm.n : s->norm.spatial) };
    zt_channel_sums_place(&j.sums, call->workspace);
    return j;
}

static void each_bundle(const struct job *j, zt_bundle_function *one) {
    zt_bundles_each(&j->s->bundles, j->sums.call->threads, one, j);
}

static void *element(const struct job *j, const struct zt_view *v, int64_t at) {
    return zt_element(v->data, j->s->bytes, at);
}

static struct zt_row_map map_of(const struct job *j, int64_t line, int of_x, int of_dy) {
    int64_t c = line % j->s->norm.channels;
    float *const *all = j->sums.coefficient;
    return (struct zt_row_map){ all[ZT_MEAN] + c, all[of_x] + c, all[ZT_SECOND] + c, all[of_dy] + c };
}

static void moments(const void *with, const struct zt_bundle *b, int64_t start, int64_t line) {
    const struct job *j = with;
    j->s->kernels->moments(b, element(j, &j->sums.call->in[0], start), j->sums.part[0] + line, j->sums.part[1] + line);
}

static void normalise(const void *with, const struct zt_bundle *b, int64_t start, int64_t line) {
    const struct job *j = with;
    struct zt_row_map map = map_of(j, line, ZT_FIRST, ZT_THIRD);
    j->s->kernels->affine(b, element(j, &j->sums.call->in[0], start), &map, element(j, &j->sums.call->out[0], start));
}

/* Columns are whole channels: all of it at once, so that they are read while they are near. */
static void forward_columns(const void *with, const struct zt_bundle *b, int64_t start, int64_t line) {
    struct job j = *(const struct job *)with;
    if (!j.s->fixed)
        moments(&j, b, start, line);
    zt_channel_own_statistics(&j.sums, line, line + b->lanes);
    normalise(&j, b, start, line);
}

bool zt_batch_norm_cpu_run(const struct zt_call *call, struct zt_err *err) {
    if (((const struct state *)call->state)->blocked)
        return run_blocked(call, 0, err);
    struct job j = job_of(call);
    if (!j.s->bundles.whole.across && !j.s->sync) {
        each_bundle(&j, forward_columns);
        return true;
    }
    if (!j.s->fixed)
        each_bundle(&j, moments);
    if (!zt_channel_statistics(&j.sums, err))
        return false;
    each_bundle(&j, normalise);
    return true;
}

static void products(const void *with, const struct zt_bundle *b, int64_t start, int64_t line) {
    const struct job *j = with;
    const struct zt_view *in = j->sums.call->in;
    j->s->kernels->products(b, element(j, &in[0], start), element(j, &in[1], start),
                            j->sums.coefficient[ZT_MEAN] + line % j->s->norm.channels, j->sums.part[0] + line,
                            j->sums.part[1] + line);
}

static void differentiate(const void *with, const struct zt_bundle *b, int64_t start, int64_t line) {
    const struct job *j = with;
    const struct zt_view *in = j->sums.call->in;
    struct zt_row_map map = map_of(j, line, ZT_THIRD, ZT_FIRST);
    j->s->kernels->affine_grad(b, element(j, &in[0], start), element(j, &in[1], start), &map,
                               element(j, &j->sums.call->out[0], start));
}

static void backward_columns(const void *with, const struct zt_bundle *b, int64_t start, int64_t line) {
    struct job j = *(const struct job *)with;
    zt_channel_means(&j.sums, line, line + b->lanes);
    products(&j, b, start, line);
    zt_channel_own_gradients(&j.sums, line, line + b->lanes);
    if (j.sums.call->out[0].data)
        differentiate(&j, b, start, line);
}

bool zt_batch_norm_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    if (((const struct state *)call->state)->blocked)
        return run_blocked(call, 1, err);
    struct job j = job_of(call);
    if (!j.s->bundles.whole.across && !j.s->sync) {
        each_bundle(&j, backward_columns);
        return true;
    }
    zt_channel_means(&j.sums, 0, j.sums.wide);
    each_bundle(&j, products);
    if (!zt_channel_gradients(&j.sums, err))
        return false;
    if (call->out[0].data)
        each_bundle(&j, differentiate);
    return true;
}
