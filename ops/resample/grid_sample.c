/* Y[n, c, o] = X[n, c] read at the place grid[n, o] by an interpolation of degree 0, 1 or 3     ONNX GridSample, 16 on
 *
 * grid holds places in -1..1, last axis first; -1 and 1 are the centres of the corner pixels (align_corners) or their
 * outer edges. A place outside is moved to the border, reflected, or reads zeros. Along each axis a place has taps: up
 * to four pixels with weights that depend on its fraction t (cubic: Keys' convolution with a = -0.75), so with products
 * over the axes
 *
 *     Y = sum over taps of (product of weights) X[tap]        dX[tap] += (product of weights) dY
 *     dgrid along an axis = sum over c of dY (the same with that axis' weights replaced by their slopes)
 *
 * Places are padded before their taps are taken, but for cubic, where the border moves tap by tap: so do PyTorch and
 * onnxruntime, while the standard's evaluator moves the place there too. */
#include "ops/resample/grid_sample.h"

#include "ops/resample/kernels.h"
#include "ops/resample/launch_grid_sample.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <string.h>

/* ---- reading the node ---- */

static bool grid_sample_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_sampler s;
    if (!zt_sampler_read(g, node, 0, &s, err))
        return false;
    const struct zt_shape *grid = &zt_in(g, node, 1)->shape;
    struct zt_shape y = { grid->rank, { s.n, s.channels } };
    memcpy(y.dim + 2, grid->dim + 1, (size_t)s.axes * sizeof *y.dim);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &y);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_sampler s;
    if (!zt_sampler_read(g, node, 1, &s, err))
        return false;
    const struct zt_value *dy = zt_in(g, node, 0), *x = zt_in(g, node, 1), *grid = zt_in(g, node, 2);
    struct zt_shape want = { grid->shape.rank, { s.n, s.channels } };
    memcpy(want.dim + 2, grid->shape.dim + 1, (size_t)s.axes * sizeof *want.dim);
    if (!zt_shape_equal(&dy->shape, &want))
        return zt_node_fail(g, node, err, "\"%s\" does not have the shape of the output", dy->name);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    zt_set_out(g, node, 1, grid->dtype, &grid->shape);
    return true;
}

/* ---- taps ---- */

/* ---- kernels ---- */

/* The weighted sum of pixels from `from` on, axis by axis; slopes instead of weights on axis `moved`. */
static double blend(const struct zt_sampler *s, const struct zt_sample_taps *taps, const struct zt_view *x,
                    int64_t from, int axis, int moved) {
    if (axis == s->axes)
        return zt_load_double(x->dtype, x->data, from);
    const struct zt_sample_taps *t = &taps[axis];
    double sum = 0;
    for (int k = 0; k < t->count; k++)
        if (t->offset[k] >= 0)
            sum +=
                (axis == moved ? t->slope[k] : t->weight[k]) * blend(s, taps, x, from + t->offset[k], axis + 1, moved);
    return sum;
}

static void spread(const struct zt_sampler *s, const struct zt_sample_taps *taps, double *dx, int axis, double d) {
    if (axis == s->axes) {
        *dx += d;
        return;
    }
    for (int k = 0; k < taps[axis].count; k++)
        if (taps[axis].offset[k] >= 0)
            spread(s, taps, dx + taps[axis].offset[k], axis + 1, d * taps[axis].weight[k]);
}

static double work_of(const struct zt_sampler *s) {
    return 100.0 * (double)(s->n * s->places) * (double)s->channels;
}

struct job {
    const struct zt_call *call;
    struct zt_sampler s;
};

static void sample_place(void *arg, int64_t at) {
    const struct job *j = arg;
    const struct zt_sampler *s = &j->s;
    const struct zt_view *x = &j->call->in[0], *y = &j->call->out[0];
    struct zt_sample_taps taps[ZT_MAX_RANK];
    zt_sampler_taps(s, &j->call->in[1], at, taps);
    for (int64_t c = 0; c < s->channels; c++) {
        int64_t plane = at / s->places * s->channels + c;
        zt_store_double(y->dtype, y->data, plane * s->places + at % s->places,
                        blend(s, taps, x, plane * s->pixels, 0, -1));
    }
}

static bool grid_sample_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    if (!zt_sampler_read(call->graph, zt_call_node(call), 0, &j.s, err))
        return false;
    zt_parallel_for(zt_threads_worth(call->threads, work_of(&j.s)), j.s.n * j.s.places, sample_place, &j);
    return true;
}

static double dy_at(const struct zt_call *call, const struct zt_sampler *s, int64_t plane, int64_t place) {
    return zt_load_double(call->in[0].dtype, call->in[0].data, plane * s->places + place);
}

static void grad_image(const struct zt_call *call, const struct zt_sampler *s, int64_t plane, double *dx) {
    struct zt_sample_taps taps[ZT_MAX_RANK];
    memset(dx, 0, (size_t)s->pixels * sizeof *dx);
    for (int64_t place = 0; place < s->places; place++) {
        zt_sampler_taps(s, &call->in[2], plane / s->channels * s->places + place, taps);
        spread(s, taps, dx, 0, dy_at(call, s, plane, place));
    }
    zt_store_block(call->out[0].dtype, call->out[0].data, plane * s->pixels, 1, s->pixels, dx);
}

static void grad_place(const struct zt_call *call, const struct zt_sampler *s, int64_t at) {
    struct zt_sample_taps taps[ZT_MAX_RANK];
    zt_sampler_taps(s, &call->in[2], at, taps);
    for (int k = 0; k < s->axes; k++) {
        double sum = 0;
        for (int64_t c = 0; c < s->channels; c++) {
            int64_t plane = at / s->places * s->channels + c;
            sum += dy_at(call, s, plane, at % s->places) * blend(s, taps, &call->in[1], plane * s->pixels, 0, k);
        }
        zt_store_double(call->out[1].dtype, call->out[1].data, (at + 1) * s->axes - 1 - k, sum);
    }
}

/* The workspace holds every plane of dx in double: many places may fall on one pixel. */
static void run_grad_image(void *arg, int64_t plane) {
    const struct job *j = arg;
    grad_image(j->call, &j->s, plane, (double *)j->call->workspace + plane * j->s.pixels);
}

static void run_grad_place(void *arg, int64_t at) {
    const struct job *j = arg;
    grad_place(j->call, &j->s, at);
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    if (!zt_sampler_read(call->graph, zt_call_node(call), 1, &j.s, err))
        return false;
    int threads = zt_threads_worth(call->threads, work_of(&j.s));
    if (j.s.pixels > 0)
        zt_parallel_for(threads, j.s.n * j.s.channels, run_grad_image, &j);
    if (call->out_count > 1 && call->out[1].data)
        zt_parallel_for(threads, j.s.n * j.s.places, run_grad_place, &j);
    return true;
}

static bool grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_sampler s;
    for (int i = 0; i < 3; i++)
        p->in_layout[i] = NULL;
    for (int i = 0; i < p->graph->nodes[p->node]->out_count; i++)
        p->out_layout[i] = NULL;
    if (!zt_sampler_read(p->graph, p->node, 1, &s, err))
        return false;
    p->workspace_bytes = (size_t)(s.n * s.channels * s.pixels) * sizeof(double);
    return true;
}

/* ---- what other back ends are told ---- */

/* A struct zt_sampler, of either row. */
static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_sampler_read(g, node, g->nodes[node]->domain[0] ? 1 : 0, to, err);
}

static bool takes_cuda(const struct zt_graph *g, int node) {
    struct zt_sampler s;
    struct zt_err err = { 0 };
    return zt_cuda_any_floats(g, node) && describe(g, node, &s, &err) && s.axes <= ZT_LAUNCH_SAMPLE_AXES &&
           s.pixels <= INT32_MAX;
}

/* ---- gradient rule and rows ---- */

static bool grid_sample_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[3] = { zt_grad_out(b, node, 0), n->in[0], n->in[1] }, out[2];
    zt_emit_node(b, &(struct zt_emission){ "GridSampleGrad", "ztrain", in, 3, n }, out,
                 zt_grad_wanted(b, node, 1) ? 2 : 1);
    for (int i = 0; i < 2; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, out[i]);
    return true;
}

static const struct zt_attr_spec attrs[] = {
    { "align_corners", ZT_ATTR_INT }, { "mode", ZT_ATTR_STRING }, { "padding_mode", ZT_ATTR_STRING }, { 0 }
};

const struct zt_op zt_op_grid_sample = {
    .name = "GridSample",
    .domain = "",
    .since = 16,
    ZT_ONE_OUT(2, 2),
    .in_types = { ZT_ANY_TYPE, ZT_ANY_FLOAT },
    .attrs = attrs,
    .infer = grid_sample_infer,
    .grad = grid_sample_grad,
    .kernel = { [ZT_REF] = { .run = grid_sample_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_grid_sample_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(grid_sample, takes_cuda, describe) },
};

/* (dy, x, grid) -> dx[, dgrid] */
const struct zt_op zt_op_grid_sample_grad = {
    .name = "GridSampleGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 2,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .attrs = attrs,
    .infer = grad_infer,
    .body = zt_grid_sample_grad_function_body,
    .kernel = { [ZT_REF] = { .prepare = grad_prepare, .run = grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_grid_sample_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(grid_sample_grad, takes_cuda, describe) },
};
