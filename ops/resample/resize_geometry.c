/* The geometry of resizing nodes, read from the node (resize.h). It needs no table of rows, because the CUDA module has
 * it too. */
#include "ops/resample/resize.h"

#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

/* ---- coordinates and nearest elements, by name ---- */

static double result_length(const struct zt_resize *r, int axis) {
    return r->scale[axis] * (double)r->x.dim[axis];
}

static double half_pixel(const struct zt_resize *r, int axis, double o) {
    return (o + 0.5) / r->scale[axis] - 0.5;
}

static double half_pixel_symmetric(const struct zt_resize *r, int axis, double o) {
    double center = (double)r->x.dim[axis] / 2;
    return center * (1 - (double)r->y.dim[axis] / result_length(r, axis)) + half_pixel(r, axis, o);
}

static double pytorch_half_pixel(const struct zt_resize *r, int axis, double o) {
    return result_length(r, axis) == 1 ? -0.5 : half_pixel(r, axis, o);
}

/* opset 11 alone */
static double tf_half_pixel_for_nn(const struct zt_resize *r, int axis, double o) {
    return (o + 0.5) / r->scale[axis];
}

static double align_corners(const struct zt_resize *r, int axis, double o) {
    double length = result_length(r, axis);
    return length == 1 ? 0 : o * (double)(r->x.dim[axis] - 1) / (length - 1);
}

static double asymmetric(const struct zt_resize *r, int axis, double o) {
    return o / r->scale[axis];
}

static double tf_crop_and_resize(const struct zt_resize *r, int axis, double o) {
    double length = result_length(r, axis), last = (double)(r->x.dim[axis] - 1);
    double width = (r->end[axis] - r->start[axis]) * last;
    return (length == 1 ? width / 2 : o * width / (length - 1)) + r->start[axis] * last;
}

static const struct {
    const char *name;
    zt_resize_coordinate *of;
} coordinates[] = {
    { "half_pixel", half_pixel },
    { "half_pixel_symmetric", half_pixel_symmetric },
    { "pytorch_half_pixel", pytorch_half_pixel },
    { "tf_half_pixel_for_nn", tf_half_pixel_for_nn },
    { "align_corners", align_corners },
    { "asymmetric", asymmetric },
    { "tf_crop_and_resize", tf_crop_and_resize },
};

static double round_prefer_floor(double x, double scale) {
    (void)scale;
    return ceil(x - 0.5);
}

static double round_prefer_ceil(double x, double scale) {
    (void)scale;
    return floor(x + 0.5);
}

static double round_down(double x, double scale) {
    (void)scale;
    return floor(x);
}

static double round_up(double x, double scale) {
    (void)scale;
    return ceil(x);
}

static double by_direction(double x, double scale) {
    return scale < 1 ? ceil(x) : floor(x);
}

static const struct {
    const char *name;
    zt_resize_nearest *of;
} nearests[] = {
    { "round_prefer_floor", round_prefer_floor },
    { "round_prefer_ceil", round_prefer_ceil },
    { "floor", round_down },
    { "ceil", round_up },
    { "by_direction", by_direction }, /* ours: the rule before opset 11 */
};

static const char *const modes[] = { [ZT_NEAREST] = "nearest", [ZT_LINEAR] = "linear", [ZT_CUBIC] = "cubic" };

#define FIND(table, field, text)                                                                                       \
    do {                                                                                                               \
        for (size_t i = 0; i < sizeof table / sizeof *table; i++)                                                      \
            if (strcmp(table[i].name, text) == 0)                                                                      \
                return table[i].field;                                                                                 \
        return NULL;                                                                                                   \
    } while (0)

static zt_resize_coordinate *find_coordinate(const char *name) {
    FIND(coordinates, of, name);
}

static zt_resize_nearest *find_nearest(const char *name) {
    FIND(nearests, of, name);
}

/* ---- reading a node ---- */

bool zt_resize_is_old(const struct zt_node *n) {
    return !n->domain[0] && n->opset < 11;
}

static bool bad_attr(const struct zt_graph *g, int node, const char *name, const char *value, struct zt_err *err) {
    return zt_node_fail(g, node, err, "attribute \"%s\" is \"%s\", which is none of its values", name, value);
}

static bool read_rules(const struct zt_graph *g, int node, struct zt_resize *r, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    bool old = zt_resize_is_old(n);
    const char *mode = zt_attr_text(n, "mode", "nearest");
    const char *coordinate = zt_attr_text(n, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
    const char *nearest = zt_attr_text(n, "nearest_mode", old ? "by_direction" : "round_prefer_floor");
    int found = -1;
    for (int i = 0; i < 3; i++)
        found = strcmp(mode, modes[i]) == 0 ? i : found;
    if (found < 0 || (old && found == ZT_CUBIC))
        return bad_attr(g, node, "mode", mode, err);
    r->mode = (enum zt_resize_mode)found;
    if (!(r->coordinate = find_coordinate(coordinate)))
        return bad_attr(g, node, "coordinate_transformation_mode", coordinate, err);
    if (!(r->nearest = find_nearest(nearest)))
        return bad_attr(g, node, "nearest_mode", nearest, err);
    r->crops = r->coordinate == tf_crop_and_resize;
    r->antialias = zt_attr_int(n, "antialias", 0) != 0;
    r->exclude_outside = zt_attr_int(n, "exclude_outside", 0) != 0;
    r->cubic_a = zt_attr_float(n, "cubic_coeff_a", -0.75f);
    r->extrapolation = zt_attr_float(n, "extrapolation_value", 0);
    if (r->antialias && r->mode == ZT_NEAREST)
        return zt_node_fail(g, node, err, "antialias is for modes linear and cubic, not for nearest");
    return true;
}

/* The axes that scales, sizes and region speak of, in their order. */
struct axes {
    int count, axis[ZT_MAX_RANK];
};

static bool read_axes(const struct zt_graph *g, int node, int rank, struct axes *to, struct zt_err *err) {
    struct zt_axis_set distinct;
    int64_t list[ZT_MAX_RANK];
    if (!zt_ops_axes(g, node, (struct zt_int_source){ -1, "axes" }, rank, &distinct, err))
        return false;
    if (distinct.count < 0) {
        to->count = rank;
        for (int i = 0; i < rank; i++)
            to->axis[i] = i;
        return true;
    }
    if (!zt_ops_ints(g, node, (struct zt_int_source){ -1, "axes" },
                     &(struct zt_int_list){ list, ZT_MAX_RANK, &to->count }, err))
        return false;
    for (int i = 0; i < to->count; i++)
        if (!zt_axis(g, node, list[i], rank, &to->axis[i], err))
            return false;
    return true;
}

struct numbers {
    int count;
    double at[2 * ZT_MAX_RANK];
};

/* The numbers of input `in`, at most `most`; none where it is omitted or empty. They must be known. */
static bool known_numbers(const struct zt_graph *g, int node, int in, int most, struct numbers *to,
                          struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    int64_t n = v ? zt_shape_count(&v->shape) : 0;
    to->count = 0;
    if (n < 0 || (n > 0 && !v->data))
        return zt_node_fail(g, node, err, "the shape of its result depends on data: \"%s\" is not constant", v->name);
    if (n > most)
        return zt_node_fail(g, node, err, "input \"%s\" has %lld elements, at most %d are taken", v->name, (long long)n,
                            most);
    for (int64_t i = 0; i < n; i++)
        to->at[i] = zt_load_double(v->dtype, v->data, i);
    to->count = (int)n;
    return true;
}

static bool fail_count(const struct zt_graph *g, int node, const char *what, int found, int wanted,
                       struct zt_err *err) {
    return zt_node_fail(g, node, err, "%d %s are given, %d are wanted", found, what, wanted);
}

/* Scales as they are given: the length is that of the product in float, as shape inference has it. */
static bool apply_scales(const struct zt_graph *g, int node, const struct axes *axes, const double *scales,
                         struct zt_resize *r, struct zt_err *err) {
    for (int i = 0; i < axes->count; i++) {
        int k = axes->axis[i];
        float length = (float)r->x.dim[k] * (float)scales[i];
        if (!(scales[i] > 0) || !isfinite(scales[i]) || !(length < 0x1p62f))
            return zt_node_fail(g, node, err, "scale %g of axis %d, of %lld elements, is not positive or too large",
                                scales[i], k, (long long)r->x.dim[k]);
        r->scale[k] = scales[i];
        r->y.dim[k] = (int64_t)length;
    }
    return true;
}

static bool apply_sizes(const struct zt_graph *g, int node, const struct axes *axes, const double *sizes,
                        struct zt_resize *r, struct zt_err *err) {
    const char *policy = zt_attr_text(g->nodes[node], "keep_aspect_ratio_policy", "stretch");
    double least = INFINITY, most = 0;
    for (int i = 0; i < axes->count; i++) {
        int k = axes->axis[i];
        if (!(sizes[i] >= 0 && sizes[i] < 0x1p62) || (r->x.dim[k] == 0 && sizes[i] > 0))
            return zt_node_fail(g, node, err, "axis %d, of %lld elements, cannot be made one of %g", k,
                                (long long)r->x.dim[k], sizes[i]);
        r->y.dim[k] = (int64_t)sizes[i];
        r->scale[k] = r->x.dim[k] ? sizes[i] / (double)r->x.dim[k] : 1;
        least = fmin(least, r->scale[k]);
        most = fmax(most, r->scale[k]);
    }
    bool larger = strcmp(policy, "not_larger") == 0;
    if (strcmp(policy, "stretch") == 0)
        return true;
    if (!larger && strcmp(policy, "not_smaller") != 0)
        return bad_attr(g, node, "keep_aspect_ratio_policy", policy, err);
    for (int i = 0; i < axes->count; i++) {
        int k = axes->axis[i];
        r->scale[k] = larger ? least : most;
        if (!(result_length(r, k) < 0x1p62))
            return zt_node_fail(g, node, err, "axis %d would have %g elements", k, result_length(r, k));
        r->y.dim[k] = (int64_t)floor(result_length(r, k) + 0.5);
    }
    return true;
}

static bool read_region(const struct zt_graph *g, int node, const struct axes *axes, struct zt_resize *r,
                        struct zt_err *err) {
    struct numbers region;
    if (!r->crops)
        return true;
    if (!known_numbers(g, node, 1, 2 * ZT_MAX_RANK, &region, err))
        return false;
    if (region.count != 2 * axes->count)
        return fail_count(g, node, "numbers of the region (roi)", region.count, 2 * axes->count, err);
    for (int i = 0; i < axes->count; i++) {
        r->start[axes->axis[i]] = region.at[i];
        r->end[axes->axis[i]] = region.at[axes->count + i];
    }
    return true;
}

static bool read_lengths(const struct zt_graph *g, int node, const struct axes *axes, struct zt_resize *r,
                         struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    struct numbers scales = { 0 }, sizes = { 0 };
    int attr_count;
    const float *attr = zt_attr_floats(n, "scales", &attr_count);
    if (attr_count > ZT_MAX_RANK)
        return fail_count(g, node, "scales", attr_count, axes->count, err);
    for (int i = 0; i < attr_count; i++)
        scales.at[scales.count++] = attr[i];
    if ((!attr && !known_numbers(g, node, zt_resize_is_old(n) ? 1 : 2, ZT_MAX_RANK, &scales, err)) ||
        (!zt_resize_is_old(n) && !known_numbers(g, node, 3, ZT_MAX_RANK, &sizes, err)))
        return false;
    if ((scales.count > 0) == (sizes.count > 0))
        return zt_node_fail(g, node, err, "it needs either scales or sizes, and has %s",
                            scales.count ? "both" : "none");
    if (scales.count + sizes.count != axes->count)
        return fail_count(g, node, scales.count ? "scales" : "sizes", scales.count + sizes.count, axes->count, err);
    return scales.count ? apply_scales(g, node, axes, scales.at, r, err) : apply_sizes(g, node, axes, sizes.at, r, err);
}

bool zt_resize_read(const struct zt_graph *g, int node, struct zt_resize *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    struct axes axes;
    memset(to, 0, sizeof *to);
    if (!n->domain[0])
        to->x = zt_in(g, node, 0)->shape;
    else if (!zt_ops_ints(g, node, (struct zt_int_source){ -1, "input_shape" },
                          &(struct zt_int_list){ to->x.dim, ZT_MAX_RANK, &to->x.rank }, err))
        return false;
    to->y = to->x;
    if (!read_rules(g, node, to, err) || !read_axes(g, node, to->x.rank, &axes, err) ||
        !read_lengths(g, node, &axes, to, err) || !read_region(g, node, &axes, to, err))
        return false;
    for (int i = 0; i < axes.count; i++) {
        int k = axes.axis[i];
        bool whole = !to->crops || (to->start[k] == 0 && to->end[k] == 1);
        to->resized[k] = to->scale[k] != 1 || to->y.dim[k] != to->x.dim[k] || !whole;
    }
    return true;
}
