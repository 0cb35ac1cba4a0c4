/* ONNX MaxRoiPool, opset 1 on. Roi r, [sample, x1, y1, x2, y2] in pixels of the image before scaling, covers the pixels
 * round(scale x1) .. round(scale x2) of x, at least one, and is cut into out[0] x out[1] bins of whole pixels. Along an
 * axis on which it begins at `start` and has `size` pixels, bin b of `out` has
 *
 *     floor(b size / out) .. ceil((b + 1) size / out) - 1, from `start` on, those inside of x
 *
 *     y[r, c, bin] = maximum of x[sample, c, pixels of the bin], 0 where it has none
 *     dx = dy at the first maximum of every bin
 *
 * A NaN is the maximum of its bin. Halves are rounded away from 0. rois have no gradient: y changes by jumps with them.
 */
#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

/* ---- reading the node ---- */

struct roi_pool {
    int64_t n, c, rois, in[2], out[2];
    double scale;
};

/* Of either row: x and rois are inputs 0 and 1. */
static bool read(const struct zt_graph *g, int node, struct roi_pool *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *rois = &zt_in(g, node, 1)->shape;
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    int count;
    const int64_t *out = zt_attr_ints(g->nodes[node], "pooled_shape", &count);
    if (x->rank != 4 || rois->rank != 2 || rois->dim[1] != 5)
        return zt_node_fail(g, node, err, "an image of shape %s with rois of shape %s, wants rank 4 and [R,5]",
                            zt_shape_text(x, s), zt_shape_text(rois, t));
    if (!out || count != 2)
        return zt_node_fail(g, node, err, "attribute \"pooled_shape\" has %d entries, wants 2", out ? count : 0);
    *to = (struct roi_pool){ x->dim[0],          x->dim[1],
                             rois->dim[0],       { x->dim[2], x->dim[3] },
                             { out[0], out[1] }, zt_attr_float(g->nodes[node], "spatial_scale", 1) };
    for (int a = 0; a < 2; a++)
        if (out[a] < 1 || out[a] > INT32_MAX)
            return zt_node_fail(g, node, err, "pooled_shape[%d] = %lld, allowed 1..%d", a, (long long)out[a],
                                INT32_MAX);
    return (to->scale > 0 && !isinf(to->scale)) ||
           zt_node_fail(g, node, err, "spatial_scale = %g, wants a number above 0", to->scale);
}

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct roi_pool r;
    if (!read(g, node, &r, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &(struct zt_shape){ 4, { r.rois, r.c, r.out[0], r.out[1] } });
    return true;
}

/* (x, rois, dy) -> dx */
static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct roi_pool r;
    if (!read(g, node, &r, err))
        return false;
    const struct zt_value *x = zt_in(g, node, 0), *dy = zt_in(g, node, 2);
    if (!zt_shape_equal(&dy->shape, &(struct zt_shape){ 4, { r.rois, r.c, r.out[0], r.out[1] } }))
        return zt_node_fail(g, node, err, "\"%s\" does not have the shape of the output", dy->name);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    return true;
}

/* ---- bins ---- */

struct job {
    const struct zt_call *call;
    struct roi_pool r;
    const int64_t *sample; /* by roi */
};

/* First pixel and pixels of a roi along an axis. Coordinates beyond 2^30 pixels count as 2^30. */
struct extent {
    int64_t start, size;
};

static int64_t pixel_of(const struct job *j, int64_t at) {
    const struct zt_view *rois = &j->call->in[1];
    const double most = 1 << 30, value = round(zt_load_double(rois->dtype, rois->data, at) * j->r.scale);
    return (int64_t)(value < -most ? -most : value > most ? most : value);
}

static struct extent extent_of(const struct job *j, int64_t roi, int axis) {
    const int64_t first = pixel_of(j, 5 * roi + 2 - axis), last = pixel_of(j, 5 * roi + 4 - axis);
    return (struct extent){ first, last > first ? last - first + 1 : 1 };
}

static int64_t clamp(int64_t i, int64_t most) {
    return i < 0 ? 0 : i > most ? most : i;
}

/* The first maximum of bin (b[0], b[1]) of a plane; -1: the bin has no pixels. */
static int64_t maximum_of(const struct job *j, int64_t roi, const int64_t b[2], int64_t plane, double *value) {
    const struct zt_view *x = &j->call->in[0];
    int64_t from[2], to[2], best = -1;
    for (int a = 0; a < 2; a++) {
        const struct extent e = extent_of(j, roi, a);
        from[a] = clamp(e.start + b[a] * e.size / j->r.out[a], j->r.in[a]);
        to[a] = clamp(e.start + ((b[a] + 1) * e.size + j->r.out[a] - 1) / j->r.out[a], j->r.in[a]);
    }
    *value = 0;
    for (int64_t row = from[0]; row < to[0]; row++)
        for (int64_t k = from[1]; k < to[1]; k++) {
            const double here = zt_load_double(x->dtype, x->data, plane + row * j->r.in[1] + k);
            if (best >= 0 && !(here > *value || (isnan(here) && !isnan(*value))))
                continue;
            best = row * j->r.in[1] + k;
            *value = here;
        }
    return best;
}

/* ---- running ---- */

/* The samples of all rois; a coordinate must be a number. */
static bool read_rois(const struct zt_call *call, struct job *j, int64_t *sample, struct zt_err *err) {
    const struct zt_view *rois = &call->in[1];
    for (int64_t i = 0; i < 5 * j->r.rois; i++) {
        const double value = zt_load_double(rois->dtype, rois->data, i);
        if (isnan(value))
            return zt_call_fail(call, err, "roi %lld has a coordinate that is not a number", (long long)(i / 5));
        if (i % 5 == 0 && !(value >= 0 && value < (double)j->r.n && value == floor(value)))
            return zt_call_fail(call, err, "batch index %g of roi %lld is outside of 0..%lld", value,
                                (long long)(i / 5), (long long)j->r.n - 1);
        if (i % 5 == 0)
            sample[i / 5] = (int64_t)value;
    }
    j->sample = sample;
    return true;
}

static void pool_plane(void *arg, int64_t at) {
    const struct job *j = arg;
    const int64_t roi = at / j->r.c, bins = j->r.out[0] * j->r.out[1];
    const int64_t plane = (j->sample[roi] * j->r.c + at % j->r.c) * j->r.in[0] * j->r.in[1];
    for (int64_t place = 0; place < bins; place++) {
        double y;
        maximum_of(j, roi, (const int64_t[]){ place / j->r.out[1], place % j->r.out[1] }, plane, &y);
        zt_store_double(j->call->out[0].dtype, j->call->out[0].data, at * bins + place, y);
    }
}

/* A plane of dx: rois in order, in the double sums of the workspace. */
static void grad_plane(void *arg, int64_t at) {
    const struct job *j = arg;
    const struct zt_view *dy = &j->call->in[2];
    const int64_t pixels = j->r.in[0] * j->r.in[1], bins = j->r.out[0] * j->r.out[1];
    double *dx = (double *)(void *)((int64_t *)j->call->workspace + j->r.rois) + at * pixels, y;
    memset(dx, 0, (size_t)pixels * sizeof *dx);
    for (int64_t roi = 0; roi < j->r.rois; roi++)
        for (int64_t place = 0; j->sample[roi] == at / j->r.c && place < bins; place++) {
            const int64_t b[2] = { place / j->r.out[1], place % j->r.out[1] };
            const int64_t best = maximum_of(j, roi, b, at * pixels, &y);
            if (best >= 0)
                dx[best] += zt_load_double(dy->dtype, dy->data, (roi * j->r.c + at % j->r.c) * bins + place);
        }
    zt_store_block(j->call->out[0].dtype, j->call->out[0].data, at * pixels, 1, pixels, dx);
}

/* The workspace holds the samples of the rois, then, backwards, dx in double. */
static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    struct roi_pool r;
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    p->out_layout[0] = NULL;
    if (!read(p->graph, p->node, &r, err))
        return false;
    p->workspace_bytes = (size_t)r.rois * sizeof(int64_t);
    if (n->domain[0])
        p->workspace_bytes += (size_t)(r.n * r.c * r.in[0] * r.in[1]) * sizeof(double);
    return true;
}

static bool run_planes(const struct zt_call *call, bool grad, struct zt_err *err) {
    struct job j = { .call = call };
    if (!read(call->graph, zt_call_node(call), &j.r, err) || !read_rois(call, &j, call->workspace, err))
        return false;
    const int64_t planes = (grad ? j.r.n : j.r.rois) * j.r.c;
    const double work = 64.0 * (double)(j.r.rois * j.r.c) * (double)(j.r.out[0] * j.r.out[1]);
    if (!grad || j.r.in[0] * j.r.in[1] > 0)
        zt_parallel_for(zt_threads_worth(call->threads, work), planes, grad ? grad_plane : pool_plane, &j);
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    return run_planes(call, false, err);
}
static bool run_back(const struct zt_call *call, struct zt_err *err) {
    return run_planes(call, true, err);
}

static bool pool_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const int in[3] = { n->in[0], n->in[1], zt_grad_out(b, node, 0) };
    int dx;
    zt_emit_node(b, &(struct zt_emission){ "MaxRoiPoolGrad", "ztrain", in, 3, n }, &dx, 1);
    zt_grad_give(b, node, 0, dx);
    return true;
}

/* ---- rows ---- */

static const struct zt_attr_spec attrs[] = { { "pooled_shape", ZT_ATTR_INTS, true },
                                             { "spatial_scale", ZT_ATTR_FLOAT },
                                             { 0 } };

const struct zt_op zt_op_max_roi_pool = {
    .name = "MaxRoiPool",
    .domain = "",
    .since = 1,
    ZT_ONE_OUT(2, 2),
    .in_types = { ZT_ANY_FLOAT },
    .same_type = 1 << 1,
    .no_grad_in = 1 << 1,
    .attrs = attrs,
    .infer = infer,
    .grad = pool_grad,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = run } },
};
const struct zt_op zt_op_max_roi_pool_grad = {
    .name = "MaxRoiPoolGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(3, 3),
    .in_types = { ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 2,
    .attrs = attrs,
    .infer = grad_infer,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = run_back } },
};
