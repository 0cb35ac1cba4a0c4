/* ONNX RoiAlign, opset 10 on. A roi is cut into out[0] x out[1] bins, each bin into gh x gw cells, and x is read with
 * bilinear interpolation at the cells' centres (roi_samples.h):
 *
 *     y[r, c, bin] = sum over samples, corners of (weight of the corner) x[batch[r], c, corner] / (gh gw)     mode avg
 *     y[r, c, bin] = maximum over samples, corners of (weight of the corner) x[batch[r], c, corner]           mode max
 *
 * so that mode max takes the largest of the weighted corners, as the standard's evaluator and onnxruntime do. A sample
 * further than a pixel outside counts with the value 0, after the samples inside. A bin without samples (a roi without
 * extent, half_pixel) has the value 0. With half_pixel rois are shifted by half a pixel; without it they are at least a
 * pixel wide. A coordinate that is not a number gives NaN.
 *
 *     dx[n, c, i] = sum over r with batch[r] = n, bins, samples of (weight of pixel i) dy / (gh gw)           mode avg
 *     dx[n, c, i] = sum over r, bins whose first largest corner is pixel i of its weight times dy             mode max
 *
 * and, with u in 0..1 how far along a roi a sample lies, where the interpolation has the slope s along an axis (on a
 * pixel the mean of the slopes of both sides):
 *
 *     drois[r, start] = scale sum over c, bins, samples of (1 - u) s dy / (gh gw)      drois[r, end]: u for 1 - u
 *
 * in mode max the sum is over the largest corners, and s is the slope of their weighted values. The number of samples
 * counts as fixed. */
#include "ops/detection/roi_align.h"

#include "device/threads.h"
#include "ops/detection/kernels.h"
#include "ops/detection/launch_roi_align.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* ---- shape rules ---- */

static bool roi_align_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_roi_align r;
    if (!zt_roi_align_read(g, node, &r, err))
        return false;
    const struct zt_shape y = { 4, { r.rois, r.c, r.out[0], r.out[1] } };
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &y);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_roi_align r;
    if (!zt_roi_align_grad_read(g, node, &r, err))
        return false;
    const struct zt_shape x = { 4, { r.n, r.c, r.in[0], r.in[1] } };
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &x);
    if (zt_out(g, node, 1))
        zt_set_out(g, node, 1, zt_in(g, node, 1)->dtype, &zt_in(g, node, 1)->shape);
    return true;
}

/* ---- reference kernels ---- */

struct job {
    const struct zt_call *call;
    struct zt_roi_align r;
    const struct zt_view *rois, *image;
    const int64_t *batch;
};

/* A bin of a roi. */
struct bin {
    struct zt_roi_axis axis[2];
    int64_t at[2], first[2], end[2]; /* place of the bin; samples along each axis that may be inside */
};

static struct bin bin_of(const struct job *j, int64_t roi, int64_t place) {
    struct bin b = { .at = { place / j->r.out[1], place % j->r.out[1] } };
    for (int a = 0; a < 2; a++) {
        b.axis[a] = zt_roi_axis_of(&j->r, j->rois, roi, a);
        zt_roi_range(&b.axis[a], b.at[a], 0, (double)j->r.in[a] - 1, &b.first[a], &b.end[a]);
    }
    return b;
}

/* The four corners of a sample. */
struct corners {
    int64_t pixel[4];
    double weight[4];
    struct zt_roi_tap tap[2];
    double fraction[2]; /* how far along the roi the sample lies */
};

/* Whether corner k is the upper one along an axis. */
static bool is_high(int k, int axis) {
    return k >> (1 - axis) & 1;
}

static double weight_along(const struct corners *c, int k, int axis) {
    return is_high(k, axis) ? c->tap[axis].part : 1 - c->tap[axis].part;
}

/* The corners of sample (i[0], i[1]); false: it is outside. */
static bool find_corners(const struct job *j, const struct bin *b, const int64_t i[2], struct corners *to) {
    const struct zt_roi_tap *t = to->tap;
    for (int a = 0; a < 2; a++) {
        if (!zt_roi_tap(j->r.in[a], zt_roi_position(&j->r, &b->axis[a], b->at[a], i[a]), &to->tap[a]))
            return false;
        to->fraction[a] = zt_roi_fraction(&j->r, &b->axis[a], a, b->at[a], i[a]);
    }
    for (int k = 0; k < 4; k++) {
        to->pixel[k] = (is_high(k, 0) ? t[0].high : t[0].low) * j->r.in[1] + (is_high(k, 1) ? t[1].high : t[1].low);
        to->weight[k] = weight_along(to, k, 0) * weight_along(to, k, 1);
    }
    return true;
}

static double image_at(const struct job *j, int64_t i) {
    return zt_load_double(j->image->dtype, j->image->data, i);
}

/* The first largest weighted corner of a bin, a NaN being the largest; corner -1: what is outside, or none. */
struct largest {
    double value;
    int corner;
    struct corners of;
};

static void take_larger(struct largest *to, double value, int corner, const struct corners *of, bool first) {
    if (!first && !(value > to->value || (value != value && to->value == to->value)))
        return;
    to->value = value;
    to->corner = corner;
    to->of = *of;
}

static struct largest largest_of(const struct job *j, const struct bin *b, int64_t plane) {
    struct largest best = { .corner = -1 };
    struct corners c = { 0 };
    double inside = 0;
    int64_t i[2];
    for (i[0] = b->first[0]; i[0] < b->end[0]; i[0]++)
        for (i[1] = b->first[1]; i[1] < b->end[1]; i[1]++) {
            if (!find_corners(j, b, i, &c))
                continue;
            for (int k = 0; k < 4; k++)
                take_larger(&best, c.weight[k] * image_at(j, plane + c.pixel[k]), k, &c, inside == 0 && k == 0);
            inside++;
        }
    if (inside > 0 && inside < b->axis[0].grid * b->axis[1].grid)
        take_larger(&best, 0, -1, &c, false);
    return best;
}

static double average_of(const struct job *j, const struct bin *b, int64_t plane) {
    struct corners c;
    double sum = 0;
    int64_t i[2];
    for (i[0] = b->first[0]; i[0] < b->end[0]; i[0]++)
        for (i[1] = b->first[1]; i[1] < b->end[1]; i[1]++)
            for (int k = 0; k < 4 * find_corners(j, b, i, &c); k++)
                sum += c.weight[k] * image_at(j, plane + c.pixel[k]);
    return sum / zt_roi_count(&b->axis[0], &b->axis[1]);
}

static bool is_known(const struct bin *b) {
    return b->axis[0].known && b->axis[1].known;
}

static void pool_plane(void *arg, int64_t at) {
    const struct job *j = arg;
    const int64_t roi = at / j->r.c, bins = j->r.out[0] * j->r.out[1];
    const int64_t plane = (j->batch[roi] * j->r.c + at % j->r.c) * j->r.in[0] * j->r.in[1];
    for (int64_t place = 0; place < bins; place++) {
        const struct bin b = bin_of(j, roi, place);
        const double y = !is_known(&b) ? NAN : j->r.max ? largest_of(j, &b, plane).value : average_of(j, &b, plane);
        zt_store_double(j->call->out[0].dtype, j->call->out[0].data, at * bins + place, y);
    }
}

static int threads_of(const struct job *j) {
    const double reads = j->r.ratio > 0 ? 4.0 * (double)(j->r.ratio * j->r.ratio) : 16;
    return zt_threads_worth(j->call->threads,
                            reads * 16 * (double)(j->r.rois * j->r.c) * (double)(j->r.out[0] * j->r.out[1]));
}

static bool start(const struct zt_call *call, bool grad, struct job *j, struct zt_err *err) {
    *j = (struct job){ .call = call,
                       .rois = &call->in[1],
                       .batch = call->in[2].data,
                       .image = !grad                ? &call->in[0]
                                : call->in_count > 3 ? &call->in[3]
                                                     : NULL };
    return (grad ? zt_roi_align_grad_read : zt_roi_align_read)(call->graph, zt_call_node(call), &j->r, err) &&
           zt_roi_check_batch(call, &j->r, err);
}

static bool roi_align_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!start(call, false, &j, err))
        return false;
    zt_parallel_for(threads_of(&j), j.r.rois * j.r.c, pool_plane, &j);
    return true;
}

/* ---- gradient ---- */

static void add_bin(const struct job *j, const struct bin *b, int64_t plane, double dy, double *dx) {
    struct corners c;
    int64_t i[2];
    if (j->r.max) {
        const struct largest best = largest_of(j, b, plane);
        if (best.corner >= 0)
            dx[best.of.pixel[best.corner]] += best.of.weight[best.corner] * dy;
        return;
    }
    dy /= zt_roi_count(&b->axis[0], &b->axis[1]);
    for (i[0] = b->first[0]; i[0] < b->end[0]; i[0]++)
        for (i[1] = b->first[1]; i[1] < b->end[1]; i[1]++)
            for (int k = 0; k < 4 * find_corners(j, b, i, &c); k++)
                dx[c.pixel[k]] += c.weight[k] * dy;
}

/* Rois in order, into a plane of dx, which no other job writes. */
static void grad_plane(void *arg, int64_t at) {
    const struct job *j = arg;
    const int64_t pixels = j->r.in[0] * j->r.in[1], bins = j->r.out[0] * j->r.out[1];
    double *dx = (double *)j->call->workspace + at * pixels;
    memset(dx, 0, (size_t)pixels * sizeof *dx);
    for (int64_t roi = 0; roi < j->r.rois; roi++)
        for (int64_t place = 0; j->batch[roi] == at / j->r.c && place < bins; place++) {
            const struct bin b = bin_of(j, roi, place);
            const int64_t from = (roi * j->r.c + at % j->r.c) * bins + place;
            if (is_known(&b))
                add_bin(j, &b, at * pixels, zt_load_double(j->call->in[0].dtype, j->call->in[0].data, from), dx);
        }
    zt_store_block(j->call->out[0].dtype, j->call->out[0].data, at * pixels, 1, pixels, dx);
}

/* The derivative of a corner's weighted value by the position along an axis. */
static double slope_of(const struct job *j, const struct corners *c, int k, int64_t plane, int axis) {
    const struct zt_roi_tap *t = &c->tap[axis];
    const int64_t low = c->pixel[k & ~(2 >> axis)], step = axis ? 1 : j->r.in[1];
    double slope = t->slope[is_high(k, axis)] * image_at(j, plane + c->pixel[k]);
    if (is_high(k, axis) && t->below != 0)
        slope += t->below * image_at(j, plane + low - step);
    return slope * weight_along(c, k, 1 - axis);
}

/* Adds what a corner's movement gives: to[0..3] are the gradients of x1, y1, x2, y2. */
static void move_corner(const struct job *j, const struct corners *c, int k, int64_t plane, double d, double *to) {
    for (int a = 0; a < 2; a++) {
        const double slope = d * slope_of(j, c, k, plane, a) * j->r.scale;
        to[1 - a] += slope * (1 - c->fraction[a]);
        to[3 - a] += slope * c->fraction[a];
    }
}

static void move_bin(const struct job *j, const struct bin *b, int64_t plane, double dy, double *to) {
    struct corners c;
    int64_t i[2];
    if (j->r.max) {
        const struct largest best = largest_of(j, b, plane);
        if (best.corner >= 0)
            move_corner(j, &best.of, best.corner, plane, dy, to);
        return;
    }
    dy /= zt_roi_count(&b->axis[0], &b->axis[1]);
    for (i[0] = b->first[0]; i[0] < b->end[0]; i[0]++)
        for (i[1] = b->first[1]; i[1] < b->end[1]; i[1]++)
            for (int k = 0; k < 4 * find_corners(j, b, i, &c); k++)
                move_corner(j, &c, k, plane, dy, to);
}

static void grad_roi(void *arg, int64_t roi) {
    const struct job *j = arg;
    const struct zt_view *dy = &j->call->in[0], *to = &j->call->out[1];
    const int64_t pixels = j->r.in[0] * j->r.in[1], bins = j->r.out[0] * j->r.out[1];
    double sum[4] = { 0 };
    for (int64_t c = 0; c < j->r.c; c++)
        for (int64_t place = 0; place < bins; place++) {
            const struct bin b = bin_of(j, roi, place);
            const double d = zt_load_double(dy->dtype, dy->data, (roi * j->r.c + c) * bins + place);
            if (is_known(&b))
                move_bin(j, &b, (j->batch[roi] * j->r.c + c) * pixels, d, sum);
        }
    zt_store_block(to->dtype, to->data, 4 * roi, 1, 4, sum);
}

static bool grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_roi_align r;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    for (int i = 0; i < p->graph->nodes[p->node]->out_count; i++)
        p->out_layout[i] = NULL;
    if (!zt_roi_align_grad_read(p->graph, p->node, &r, err))
        return false;
    p->workspace_bytes = (size_t)(r.n * r.c * r.in[0] * r.in[1]) * sizeof(double);
    return true;
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!start(call, true, &j, err))
        return false;
    if (j.r.in[0] * j.r.in[1] > 0)
        zt_parallel_for(threads_of(&j), j.r.n * j.r.c, grad_plane, &j);
    if (call->out_count > 1 && call->out[1].data)
        zt_parallel_for(threads_of(&j), j.r.rois, grad_roi, &j);
    return true;
}

static bool roi_align_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_shape x = *zt_grad_in_shape(b, node, 0);
    const bool moves = zt_grad_wanted(b, node, 1);
    const bool reads = moves || strcmp(zt_attr_text(n, "mode", "avg"), "max") == 0;
    const int in[4] = { zt_grad_out(b, node, 0), n->in[1], n->in[2], n->in[0] };
    struct zt_attr attrs[2] = {
        { .name = "input_shape",
          .type = ZT_ATTR_INTS,
          .count = x.rank,
          .ints = zt_arena_copy(zt_grad_graph(b)->arena, x.dim, sizeof x.dim) },
        { .name = "coordinate_transformation_mode", .type = ZT_ATTR_STRING, .s = "output_half_pixel" },
    };
    int out[2] = { -1, -1 };
    zt_emit_node(b,
                 &(struct zt_emission){ "RoiAlignGrad", "ztrain", in, reads ? 4 : 3, n, attrs, n->opset < 16 ? 2 : 1 },
                 out, moves ? 2 : 1);
    for (int i = 0; i < 2; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, out[i]);
    return true;
}

/* ---- what other back ends are told, and rows ---- */

/* A struct zt_roi_align, of either row. */
static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return (g->nodes[node]->domain[0] ? zt_roi_align_grad_read : zt_roi_align_read)(g, node, to, err);
}

static bool takes_cuda(const struct zt_graph *g, int node) {
    const bool grad = g->nodes[node]->domain[0];
    struct zt_roi_align r;
    struct zt_err err = { 0 };
    return zt_cuda_is_float(zt_in(g, node, 0)) && zt_cuda_is_float(zt_in(g, node, 1)) &&
           (!grad || !zt_in(g, node, 3) || zt_cuda_is_float(zt_in(g, node, 3))) && describe(g, node, &r, &err);
}

#define ALIGN_ATTRS                                                                                                    \
    { "mode", ZT_ATTR_STRING }, { "output_height", ZT_ATTR_INT }, { "output_width", ZT_ATTR_INT },                     \
        { "sampling_ratio", ZT_ATTR_INT }, {                                                                           \
        "spatial_scale", ZT_ATTR_FLOAT                                                                                 \
    }
static const struct zt_attr_spec attrs[] = { ALIGN_ATTRS, { "coordinate_transformation_mode", ZT_ATTR_STRING }, { 0 } };
static const struct zt_attr_spec attrs_10[] = { ALIGN_ATTRS, { 0 } };
static const struct zt_attr_spec grad_attrs[] = {
    ALIGN_ATTRS, { "coordinate_transformation_mode", ZT_ATTR_STRING }, { "input_shape", ZT_ATTR_INTS }, { 0 }
};
#define ALIGN_ROW                                                                                                      \
    .name = "RoiAlign", .domain = "", ZT_ONE_OUT(3, 3), .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_BIT(ZT_INT64) },  \
    .same_type = 1 << 1, .no_grad_in = 1 << 2, .infer = roi_align_infer, .grad = roi_align_grad, .redefined_in = 16,   \
    .kernel = { [ZT_REF] = { .run = roi_align_ref },                                                                   \
                [ZT_CPU] = ZT_ON_CPU(zt_roi_align_cpu),                                                                \
                [ZT_CUDA] = ZT_CUDA_AS(roi_align, takes_cuda, describe) }

const struct zt_op zt_op_roi_align_10 = { ALIGN_ROW, .since = 10, .until = 15, .attrs = attrs_10,
                                          .body = zt_roi_align_10_function_body };
const struct zt_op zt_op_roi_align = { ALIGN_ROW, .since = 16, .attrs = attrs };

/* (dy, rois, batch_indices[, x]) -> dx[, drois] */
const struct zt_op zt_op_roi_align_grad = {
    .name = "RoiAlignGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 3,
    .max_in = 4,
    .min_out = 1,
    .max_out = 2,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_BIT(ZT_INT64), ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 3,
    .attrs = grad_attrs,
    .infer = grad_infer,
    .body = zt_roi_align_grad_function_body,
    .kernel = { [ZT_REF] = { .prepare = grad_prepare, .run = grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_roi_align_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(roi_align_grad, takes_cuda, describe) },
};
