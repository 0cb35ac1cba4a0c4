/* Layer, RMS, instance and group normalisation on the CPU: of plain tensors, a row at a time (norm.h has the geometry,
 * simd_norm.h the loops); others are norm_planes_cpu.h's. Sums of a row are taken in vectors of floats, some hundred
 * terms each, and in double beyond.
 *
 * Gradients of scale and bias. Where every element of a row has an entry of its own (per_scale 1), a block of rows adds
 * up its rows in the workspace; else every row leaves two sums a part there. Both are then added in the order of the
 * rows, in double. */
#include "ops/norm/kernels.h"
#include "ops/norm/norm_planes_cpu.h"
#include "ops/norm/simd_norm.h"
#include "ops/norm/norm.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 14, MOST_BLOCKS = 64, FEW_BLOCKS = 8, LEAST_ROWS = 32, ENTRIES = 256 };

struct rows_state {
    struct zt_norm_planes *planes; /* not NULL: these, and no rows */
    struct zt_norm norm;
    const struct zt_norm_kernels *kernels;
    size_t bytes;         /* of an element */
    int x;                /* input */
    int64_t rows, blocks; /* rows: of a block */
    int64_t entries;      /* of scale */
};

/* The workspace: scale, bias; in gradients then dscale and dbias of every block, or of every row. */
struct job {
    const struct zt_call *call;
    const struct rows_state *s;
    const float *scale, *bias;
    float *sums;
};

static bool supports(const struct zt_graph *g, int node, int x) {
    const struct zt_node *n = g->nodes[node];
    enum zt_dtype dtype = zt_in(g, node, x)->dtype;
    for (int i = 0; i <= x; i++) /* dy and x */
        if (zt_in(g, node, i)->dtype != dtype)
            return false;
    for (int i = x + 1; i < n->in_count; i++)
        if (zt_in(g, node, i) && !zt_row_type(zt_in(g, node, i)->dtype))
            return false;
    return zt_norm_kernels() && zt_row_type(dtype) && zt_shape_count(&zt_in(g, node, x)->shape) > 0;
}

bool zt_norm_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_norm_stats_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_norm_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 1);
}

/* Blocks by the shape alone. In gradients of scales each has sums of its own: no more of them than pays. */
static void cut(struct rows_state *s, bool grad) {
    const struct zt_norm *n = &s->norm;
    int64_t blocks = zt_ceil_div(n->rows * n->length, BLOCK);
    if (grad && n->per_scale == 1)
        blocks = zt_min_int(blocks, zt_max_int(FEW_BLOCKS, zt_min_int(MOST_BLOCKS, n->rows / LEAST_ROWS)));
    s->rows = zt_ceil_div(n->rows, zt_min_int(blocks, n->rows));
    s->blocks = zt_ceil_div(n->rows, s->rows);
}

static void prepare(struct zt_prepare *p, const struct zt_norm *norm, int x, bool maps) {
    struct rows_state *s = zt_calloc(1, sizeof *s);
    p->state = s;
    if (zt_norm_planes_takes(p, norm, x)) {
        s->planes = zt_norm_planes_prepare(p, norm, x, maps);
        return;
    }
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    s->norm = *norm;
    s->kernels = zt_norm_kernels();
    s->bytes = zt_dtype_bytes(zt_in(p->graph, p->node, x)->dtype);
    s->x = x;
    s->entries = norm->period * norm->per_row;
    cut(s, x == 1);
    int64_t sums = norm->per_scale == 1 ? s->blocks * s->entries : norm->rows * norm->per_row;
    p->workspace_bytes = (size_t)(2 * s->entries + (x == 1 ? 2 * sums : 0)) * sizeof(float);
}

bool zt_norm_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_norm norm;
    if (!zt_norm_read(p->graph, p->node, &norm, err))
        return false;
    prepare(p, &norm, 0, true);
    return true;
}
bool zt_norm_stats_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_norm norm;
    if (!zt_norm_read_rows(p->graph, p->node, 0, &norm, err))
        return false;
    prepare(p, &norm, 0, false);
    return true;
}
bool zt_norm_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_norm norm;
    if (!zt_norm_read_rows(p->graph, p->node, 1, &norm, err))
        return false;
    prepare(p, &norm, 1, true);
    return true;
}
static void release(struct rows_state *s) {
    if (s)
        free(s->planes);
    free(s);
}
void zt_norm_cpu_release(void *state) {
    release(state);
}
void zt_norm_stats_cpu_release(void *state) {
    release(state);
}
void zt_norm_grad_cpu_release(void *state) {
    release(state);
}

/* The planes' state, if the node is one of them. */
static const struct zt_norm_planes *planes_of(const struct zt_call *call) {
    return ((const struct rows_state *)call->state)->planes;
}

static const struct zt_view *in(const struct zt_call *call, int i) {
    return i < call->in_count && call->in[i].data ? &call->in[i] : NULL;
}

static double number(const struct zt_view *v, int64_t i) {
    return v ? zt_load_double(v->dtype, v->data, i) : 0;
}

static void put(const struct zt_call *call, int out, int64_t i, double value) {
    if (out < call->out_count && call->out[out].data)
        zt_store_double(call->out[out].dtype, call->out[out].data, i, value);
}

/* An input as floats: itself, or a copy at `to`. */
static const float *floats(const struct zt_view *v, int64_t count, float *to) {
    if (!v || v->dtype == ZT_FLOAT)
        return v ? v->data : NULL;
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)number(v, i);
    return to;
}

static struct job job_of(const struct zt_call *call) {
    const struct rows_state *s = call->state;
    struct job j = { .call = call, .s = s };
    float *at = call->workspace;
    j.scale = floats(in(call, s->x + 1), s->entries, at);
    j.bias = s->x == 0 ? floats(in(call, 2), s->entries, at + s->entries) : NULL;
    j.sums = at + 2 * s->entries;
    return j;
}

/* Part `part` of a row, whose elements share an entry; or the whole row, where each has its own. */
static struct zt_row part_of(const struct job *j, const struct zt_row *row, int64_t part) {
    struct zt_row r = *row;
    r.n = j->s->norm.per_scale;
    r.scale += part;
    r.bias = r.bias ? r.bias + part : NULL;
    return r;
}

static struct zt_row row_of(const struct job *j, int64_t row) {
    const struct zt_norm *n = &j->s->norm;
    int64_t first = row % n->period * n->per_row;
    return (struct zt_row){ .dtype = j->call->in[j->s->x].dtype,
                            .n = n->length,
                            .scale = j->scale + first,
                            .bias = j->bias ? j->bias + first : NULL,
                            .each_scale = n->per_scale == 1,
                            .each_bias = n->per_scale == 1 };
}

/* ---- forward ---- */

/* Mean and inverse deviation of a row, to the outputs from `out` on too. Around a first mean, whose digits are those of
 * a float, the differences are small and their mean is what it is off by. */
static void row_statistics(const struct job *j, int64_t row, const void *x, int out, struct zt_row *r) {
    const struct zt_norm *n = &j->s->norm;
    const struct zt_norm_kernels *k = j->s->kernels;
    double count = (double)n->length, off, squares;
    r->mean = n->centred ? (float)(k->row_sum(r->dtype, n->length, x) / count) : 0;
    k->row_moments(r->dtype, n->length, x, r->mean, &off, &squares);
    off = n->centred ? off / count : 0;
    double inv = 1 / sqrt(squares / count - off * off + n->epsilon);
    r->inv = (float)inv;
    r->rest = (float)(off * inv);
    put(j->call, out, row, (double)r->mean + off);
    put(j->call, out + 1, row, inv);
}

static void normalise_row(const struct job *j, int64_t row) {
    const struct zt_norm *n = &j->s->norm;
    const void *x = zt_element(j->call->in[0].data, j->s->bytes, row * n->length);
    void *y = zt_element(j->call->out[0].data, j->s->bytes, row * n->length);
    struct zt_row r = row_of(j, row);
    row_statistics(j, row, x, 1, &r);
    for (int64_t part = 0; n->per_scale > 1 && part < n->per_row; part++) {
        struct zt_row one = part_of(j, &r, part);
        int64_t at = part * n->per_scale;
        j->s->kernels->normalise(&one, zt_element(x, j->s->bytes, at), zt_element(y, j->s->bytes, at));
    }
    if (n->per_scale == 1)
        j->s->kernels->normalise(&r, x, y);
}

static void normalise_block(void *arg, int64_t block) {
    const struct job *j = arg;
    int64_t end = zt_min_int(j->s->norm.rows, (block + 1) * j->s->rows);
    for (int64_t row = block * j->s->rows; row < end; row++)
        normalise_row(j, row);
}

bool zt_norm_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    if (planes_of(call)) {
        zt_norm_planes_normalise(planes_of(call), call);
        return true;
    }
    struct job j = job_of(call);
    zt_parallel_for(call->threads, j.s->blocks, normalise_block, &j);
    return true;
}

static void stats_block(void *arg, int64_t block) {
    const struct job *j = arg;
    int64_t end = zt_min_int(j->s->norm.rows, (block + 1) * j->s->rows);
    struct zt_row r = { .dtype = j->call->in[0].dtype };
    for (int64_t row = block * j->s->rows; row < end; row++)
        row_statistics(j, row, zt_element(j->call->in[0].data, j->s->bytes, row * j->s->norm.length), 0, &r);
}

bool zt_norm_stats_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    if (planes_of(call)) {
        zt_norm_planes_statistics(planes_of(call), call);
        return true;
    }
    struct job j = { .call = call, .s = call->state };
    zt_parallel_for(call->threads, j.s->blocks, stats_block, &j);
    return true;
}

/* ---- backward: inputs dy, x, scale, mean, inv_std[, gradients of the row's mean and inv_std] ---- */

/* Sums of g and of g xh over a row, g = dy scale. Where parts share a scale, their own sums go to the workspace. */
static void row_sums(const struct job *j, const struct zt_row *r, int64_t row, const struct zt_row_grad *of,
                     double *sum, double *product) {
    const struct zt_norm *n = &j->s->norm;
    static const float one = 1;
    if (n->per_scale == 1) {
        j->s->kernels->grad_sums(r, of->dy, of->x, sum, product);
        return;
    }
    *sum = *product = 0;
    for (int64_t part = 0; part < n->per_row; part++) {
        struct zt_row p = part_of(j, r, part);
        double scale = (double)*p.scale, s, q;
        int64_t at = part * n->per_scale;
        p.scale = &one;
        j->s->kernels->grad_sums(&p, zt_element(of->dy, j->s->bytes, at), zt_element(of->x, j->s->bytes, at), &s, &q);
        *sum += scale * s;
        *product += scale * q;
        float *to = j->sums + 2 * (row * n->per_row + part);
        to[0] = (float)q;
        to[1] = (float)s;
    }
}

/* The elements from `at` on, whose sums are not wanted here. */
static struct zt_row_grad grad_of_part(const struct job *j, const struct zt_row_grad *whole, int64_t at) {
    struct zt_row_grad part = *whole;
    part.dy = zt_element(whole->dy, j->s->bytes, at);
    part.x = zt_element(whole->x, j->s->bytes, at);
    part.dx = zt_element(whole->dx, j->s->bytes, at);
    part.dscale = part.dbias = NULL;
    return part;
}

static void grad_row(const struct job *j, int64_t row, float *dscale, float *dbias) {
    const struct zt_norm *n = &j->s->norm;
    const struct zt_call *call = j->call;
    int64_t start = row * n->length;
    struct zt_row_grad grad = { .dy = zt_element(call->in[0].data, j->s->bytes, start),
                                .x = zt_element(call->in[1].data, j->s->bytes, start),
                                .dx = zt_element(call->out[0].data, j->s->bytes, start),
                                .dscale = dscale,
                                .dbias = dbias };
    double mean = number(in(call, 3), row), inv = number(in(call, 4), row), sum, product, m = (double)n->length;
    struct zt_row r = row_of(j, row);
    r.mean = (float)mean, r.inv = (float)inv;
    row_sums(j, &r, row, &grad, &sum, &product);
    grad.shift = (float)(((n->centred ? -inv * sum : 0) + number(in(call, 5), row)) / m);
    grad.slope = (float)((-inv * product - number(in(call, 6), row) * inv * inv) / m);
    for (int64_t part = 0; n->per_scale > 1 && part < n->per_row; part++) {
        const struct zt_row p = part_of(j, &r, part);
        const struct zt_row_grad of_part = grad_of_part(j, &grad, part * n->per_scale);
        j->s->kernels->normalise_grad(&p, &of_part);
    }
    if (n->per_scale == 1)
        j->s->kernels->normalise_grad(&r, &grad);
}

static void grad_block(void *arg, int64_t block) {
    const struct job *j = arg;
    const struct rows_state *s = j->s;
    int64_t end = zt_min_int(s->norm.rows, (block + 1) * s->rows);
    float *sums = j->sums + block * 2 * s->entries;
    if (s->norm.per_scale == 1)
        memset(sums, 0, (size_t)(2 * s->entries) * sizeof *sums);
    for (int64_t row = block * s->rows; row < end; row++) {
        float *at = sums + row % s->norm.period * s->norm.per_row;
        grad_row(j, row, at, at + s->entries);
    }
}

/* dscale and dbias of a block of entries, from the sums of blocks or rows. */
static void add_block(void *arg, int64_t block) {
    const struct job *j = arg;
    const struct rows_state *s = j->s;
    const struct zt_norm *n = &s->norm;
    int64_t first = block * ENTRIES, count = zt_min_int(ENTRIES, s->entries - first);
    double sum[2][ENTRIES] = { { 0 } };
    for (int64_t c = 0; n->per_scale == 1 && c < s->blocks; c++)
        for (int which = 0; which < 2; which++)
            for (int64_t i = 0; i < count; i++)
                sum[which][i] += (double)j->sums[(2 * c + which) * s->entries + first + i];
    for (int64_t i = 0; n->per_scale > 1 && i < count; i++)
        for (int64_t row = (first + i) / n->per_row; row < n->rows; row += n->period)
            for (int which = 0; which < 2; which++)
                sum[which][i] += (double)j->sums[2 * (row * n->per_row + (first + i) % n->per_row) + which];
    for (int64_t i = 0; i < count; i++) {
        put(j->call, 1, first + i, sum[0][i]);
        put(j->call, 2, first + i, sum[1][i]);
    }
}

bool zt_norm_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    if (planes_of(call)) {
        zt_norm_planes_gradient(planes_of(call), call);
        return true;
    }
    struct job j = job_of(call);
    zt_parallel_for(call->threads, j.s->blocks, grad_block, &j);
    zt_parallel_for(call->threads, zt_ceil_div(j.s->entries, ENTRIES), add_block, &j);
    return true;
}
