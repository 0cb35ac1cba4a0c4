/* The geometry of RoiAlign nodes (roi_align.h). */
#include "ops/detection/roi_align.h"

#include "ops/kernel/shape.h"

#include <string.h>

enum { MOST_RATIO = 1 << 16 }; /* samples of a bin along an axis */

static bool read_modes(const struct zt_graph *g, int node, struct zt_roi_align *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const char *mode = zt_attr_text(n, "mode", "avg");
    const bool old = !n->domain[0] && n->opset < 16; /* these have no attribute and no shift */
    const char *how = zt_attr_text(n, "coordinate_transformation_mode", old ? "output_half_pixel" : "half_pixel");
    to->max = strcmp(mode, "max") == 0;
    to->half_pixel = strcmp(how, "half_pixel") == 0;
    if (!to->max && strcmp(mode, "avg") != 0)
        return zt_node_fail(g, node, err, "mode = \"%s\", allowed avg, max", mode);
    if (!to->half_pixel && strcmp(how, "output_half_pixel") != 0)
        return zt_node_fail(g, node, err,
                            "coordinate_transformation_mode = \"%s\", allowed half_pixel, output_half_pixel", how);
    return true;
}

static bool read_numbers(const struct zt_graph *g, int node, struct zt_roi_align *to, struct zt_err *err) {
    static const char *const names[2] = { "output_height", "output_width" };
    for (int a = 0; a < 2; a++) {
        to->out[a] = zt_attr_int(g->nodes[node], names[a], 1);
        if (to->out[a] < 1 || to->out[a] > INT32_MAX)
            return zt_node_fail(g, node, err, "%s = %lld, allowed 1..%d", names[a], (long long)to->out[a], INT32_MAX);
    }
    to->ratio = zt_attr_int(g->nodes[node], "sampling_ratio", 0);
    to->scale = zt_attr_float(g->nodes[node], "spatial_scale", 1);
    if (to->ratio < 0 || to->ratio > MOST_RATIO)
        return zt_node_fail(g, node, err, "sampling_ratio = %lld, allowed 0..%d", (long long)to->ratio, MOST_RATIO);
    if (!(to->scale > 0) || isinf(to->scale))
        return zt_node_fail(g, node, err, "spatial_scale = %g, wants a number above 0", to->scale);
    return true;
}

/* x: the shape of the image; rois and batch indices are inputs 1 and 2. */
static bool read(const struct zt_graph *g, int node, const struct zt_shape *x, struct zt_roi_align *to,
                 struct zt_err *err) {
    const struct zt_value *rois = zt_in(g, node, 1);
    const struct zt_shape *batch = &zt_in(g, node, 2)->shape;
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    *to = (struct zt_roi_align){ .wide = rois->dtype == ZT_DOUBLE };
    if (!read_modes(g, node, to, err) || !read_numbers(g, node, to, err))
        return false;
    if (x->rank != 4)
        return zt_node_fail(g, node, err, "an image of shape %s, wants rank 4", zt_shape_text(x, s));
    if (rois->shape.rank != 2 || rois->shape.dim[1] != 4 || batch->rank != 1 || batch->dim[0] != rois->shape.dim[0])
        return zt_node_fail(g, node, err, "rois of shape %s with batch indices of shape %s, wants [R,4] and [R]",
                            zt_shape_text(&rois->shape, s), zt_shape_text(batch, t));
    to->n = x->dim[0];
    to->c = x->dim[1];
    to->rois = rois->shape.dim[0];
    for (int a = 0; a < 2; a++) {
        to->in[a] = x->dim[a + 2];
        if (to->in[a] > INT32_MAX)
            return zt_node_fail(g, node, err, "an image of shape %s is too large", zt_shape_text(x, s));
    }
    return true;
}

bool zt_roi_align_read(const struct zt_graph *g, int node, struct zt_roi_align *to, struct zt_err *err) {
    return read(g, node, &zt_in(g, node, 0)->shape, to, err);
}

bool zt_roi_align_grad_read(const struct zt_graph *g, int node, struct zt_roi_align *to, struct zt_err *err) {
    const struct zt_value *dy = zt_in(g, node, 0), *image = zt_in(g, node, 3);
    struct zt_shape x = { 0 };
    const int64_t *dims = zt_attr_ints(g->nodes[node], "input_shape", &x.rank);
    if (!dims || x.rank != 4)
        return zt_node_fail(g, node, err, "attribute \"input_shape\" has %d entries, wants 4", x.rank);
    memcpy(x.dim, dims, 4 * sizeof *dims);
    if (!read(g, node, &x, to, err))
        return false;
    const struct zt_shape y = { 4, { to->rois, to->c, to->out[0], to->out[1] } };
    if (!zt_shape_equal(&dy->shape, &y))
        return zt_node_fail(g, node, err, "\"%s\" does not have the shape of the output", dy->name);
    const bool reads = to->max || zt_out(g, node, 1);
    if ((reads && !image) || (image && !zt_shape_equal(&image->shape, &x)))
        return zt_node_fail(g, node, err, "mode max and the gradient of rois want an image of the shape input_shape");
    return true;
}

bool zt_roi_check_batch(const struct zt_call *call, const struct zt_roi_align *r, struct zt_err *err) {
    const int64_t *batch = call->in[2].data;
    for (int64_t i = 0; i < r->rois; i++)
        if (batch[i] < 0 || batch[i] >= r->n)
            return zt_call_fail(call, err, "batch index %lld of roi %lld is outside of 0..%lld", (long long)batch[i],
                                (long long)i, (long long)r->n - 1);
    return true;
}

struct zt_roi_axis zt_roi_axis_of(const struct zt_roi_align *r, const struct zt_view *rois, int64_t i, int axis) {
    /* x1, y1, x2, y2 */
    return zt_roi_axis(r, axis, zt_load_double(rois->dtype, rois->data, 4 * i + 1 - axis),
                       zt_load_double(rois->dtype, rois->data, 4 * i + 3 - axis));
}
