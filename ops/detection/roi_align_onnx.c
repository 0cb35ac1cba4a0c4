/* RoiAlign of opset 10 and the gradient of RoiAlign in standard operators. */
#include "ops/detection/kernels.h"
#include "ops/detection/roi_align.h"

/* The form before opset 16 is the later one without a shift. */
ZT_FUNCTION_BODY(zt_roi_align_10_function_body) {
    struct zt_roi_align r;
    if (!zt_roi_align_read(g, node, &r, err))
        return false;
    zt_function_body_names(b, "x, rois, batch -> y");
    zt_function_body_add(b,
                         "y = RoiAlign<coordinate_transformation_mode=\"output_half_pixel\", mode=\"%s\", "
                         "output_height=%lld, output_width=%lld, sampling_ratio=%lld, spatial_scale=%.9e>(x, rois, "
                         "batch)",
                         r.max ? "max" : "avg", (long long)r.out[0], (long long)r.out[1], (long long)r.ratio, r.scale);
    return true;
}

/* y: positions of all samples of an axis, [roi, bin, sample]; there: which are inside; grid: samples of a bin of a roi,
 * [roi, 1, 1]; most: the most of any roi. With `moves` u: how far along the roi a sample lies; left and right: half
 * where what is read follows the position from that side, else 0. */
static void say_samples(struct zt_function_body *b, const struct zt_roi_align *r, int axis, bool moves) {
    const long long size = (long long)r->in[axis], out = (long long)r->out[axis];
    zt_function_body_number(b, "scale", r->scale);
    zt_function_body_add(b, "low = Unsqueeze(Gather<axis=1>(rois, [%d]), [2]) * scale - %s", 1 - axis,
                         r->half_pixel ? "0.5" : "0");
    zt_function_body_add(b, "high = Unsqueeze(Gather<axis=1>(rois, [%d]), [2]) * scale - %s", 3 - axis,
                         r->half_pixel ? "0.5" : "0");
    zt_function_body_add(b, r->half_pixel ? "bin = (high - low) / %lld" : "bin = Max(high - low, 1) / %lld", out);
    if (r->ratio > 0)
        zt_function_body_add(b, "grid = %lld + 0 * bin; most = %lld", (long long)r->ratio, (long long)r->ratio);
    else
        zt_function_body_add(b, "grid = Ceil(bin); most = Max(ReduceMax<keepdims=0>(grid), 1)");
    zt_function_body_add(b, "i = Range(0, most, 1); p = Reshape(Range(0, %lld, 1), [1, %lld, 1])", out, out);
    zt_function_body_add(b, "cells = Where(Greater(grid, 0), grid, 1); part = (i + 0.5) / cells");
    zt_function_body_add(b, "y = (low + p * bin) + ((i + 0.5) * bin) / cells");
    zt_function_body_add(b, "there = And(Less(i, grid), And(GreaterOrEqual(y, -1), LessOrEqual(y, %lld)))", size);
    if (moves)
        zt_function_body_add(b,
                             "right = Where(And(there, And(GreaterOrEqual(y, 0), Less(y, %lld))), 0.5, 0); "
                             "left = Where(And(there, And(Greater(y, 0), LessOrEqual(y, %lld))), 0.5, 0)",
                             size - 1, size - 1);
    zt_function_body_add(b, "y = Clip(y, 0, %lld)", size - 1);
    if (moves)
        zt_function_body_add(
            b, r->half_pixel ? "u = (p + part) / %lld" : "u = Where(Less(high - low, 1), 0, (p + part) / %lld)", out);
}

/* ---- mode avg: matrices of what bins read ---- */

/* read: what bin b of roi r reads of pixel i of an axis, [r, b, i]. A sample at y reads pixel i with the weight
 * max(0, 1 - |y - i|). With `moves` start and end: how that changes with the coordinates of the roi, on a pixel the
 * mean of both sides. */
static void say_axis(struct zt_function_body *b, const struct zt_roi_align *r, int axis, bool moves) {
    const long long size = (long long)r->in[axis];
    say_samples(b, r, axis, moves);
    zt_function_body_add(b, "j = Range(0, %lld, 1); y = Unsqueeze(y, [3])", size);
    zt_function_body_add(b, "read = ReduceSum<keepdims=0>(Where(Unsqueeze(there, [3]), Relu(1 - Abs(y - j)), 0), [2])");
    if (!moves)
        return;
    zt_function_body_add(b, "left = Unsqueeze(left, [3]); right = Unsqueeze(right, [3]); u = Unsqueeze(u, [3])");
    zt_function_body_add(b, "after = Where(Equal(j, Floor(y) + 1), right, Where(Equal(j, Floor(y)), -right, 0))");
    zt_function_body_add(b, "before = Where(Equal(j, Ceil(y)), left, Where(Equal(j, Ceil(y) - 1), -left, 0))");
    zt_function_body_add(b, "slope = (before + after) * scale");
    zt_function_body_add(
        b, "start = ReduceSum<keepdims=0>(slope * (1 - u), [2]); end = ReduceSum<keepdims=0>(slope * u, [2])");
}

/* ---- mode max: all corners of all samples ---- */

/* read: the weight with which the lower and the upper corner of each sample read pixel i, [roi, bin * sample * 2, i];
 * samples: their number, [1]. With `moves` start and end: how their weighted values change; from the left the upper
 * corner of a sample on a pixel is the pixel below. */
static void say_corners(struct zt_function_body *b, const struct zt_roi_align *r, int axis, bool moves) {
    const long long size = (long long)r->in[axis], rois = (long long)r->rois;
    say_samples(b, r, axis, moves);
    zt_function_body_add(b, "j = Range(0, %lld, 1); whole = Min(Floor(y), %lld)", size, size - 1);
    zt_function_body_add(b, "corner = Concat<axis=3>(Unsqueeze(whole, [3]), Unsqueeze(Min(whole + 1, %lld), [3]))",
                         size - 1);
    zt_function_body_add(b, "weight = Concat<axis=3>(Unsqueeze(1 - y + whole, [3]), Unsqueeze(y - whole, [3]))");
    zt_function_body_add(b, "at = Equal(Unsqueeze(corner, [4]), j)");
    zt_function_body_add(b, "at = And(at, Unsqueeze(there, [3, 4]))");
    zt_function_body_add(b, "read = Reshape(Where(at, Unsqueeze(weight, [4]), 0), [%lld, -1, %lld])", rois, size);
    zt_function_body_add(b, "samples = Cast<to=int64>(Reshape(most, [1]))");
    if (!moves)
        return;
    zt_function_body_add(b, "on = Equal(y, whole); both = left + right");
    zt_function_body_add(b,
                         "slope = Concat<axis=3>(Unsqueeze(Where(on, left - right, -both), [3]), "
                         "Unsqueeze(Where(on, right, both), [3]))");
    zt_function_body_add(b, "below = Unsqueeze(Where(on, left, 0), [3])");
    zt_function_body_add(b, "below = Unsqueeze(Concat<axis=3>(0 * below, below), [4])");
    zt_function_body_add(b, "below = Where(Equal(Unsqueeze(whole - 1, [3, 4]), j), below, 0)");
    zt_function_body_add(b, "slope = (Where(at, Unsqueeze(slope, [4]), 0) - below) * scale");
    zt_function_body_add(b, "u = Unsqueeze(u, [3, 4])");
    zt_function_body_add(b, "start = Reshape(slope * (1 - u), [%lld, -1, %lld])", rois, size);
    zt_function_body_add(b, "end = Reshape(slope * u, [%lld, -1, %lld])", rois, size);
}

/* each: dy at the first largest corner of each bin, [roi, channel, row corners, column corners]. Samples come row by
 * row, the corners of each, then what is outside, 0. */
static void say_largest(struct zt_function_body *b, const struct zt_roi_align *r) {
    const long long rois = (long long)r->rois, c = (long long)r->c, h = (long long)r->out[0], w = (long long)r->out[1];
    zt_function_body_number(b, "least", -INFINITY);
    zt_function_body_add(b,
                         "all = MatMul(MatMul(Unsqueeze(rows, [1]), image), Unsqueeze(Transpose<perm=[0, 2, 1]>("
                         "columns), [1]))");
    zt_function_body_add(b, "apart = Concat<axis=0>([%lld, %lld, %lld], tall, [2, %lld], wide, [2])", rois, c, h, w);
    zt_function_body_add(b, "all = Transpose<perm=[0, 1, 2, 5, 3, 6, 4, 7]>(Reshape(all, apart))");
    zt_function_body_add(b,
                         "both = And(Reshape(down, Concat<axis=0>([%lld, 1, %lld, 1], tall, [1, 1, 1])), "
                         "Reshape(along, Concat<axis=0>([%lld, 1, 1, %lld, 1], wide, [1, 1])))",
                         rois, h, rois, w);
    zt_function_body_add(b, "all = Reshape(Where(both, all, least), [%lld, %lld, %lld, %lld, -1])", rois, c, h, w);
    zt_function_body_add(b, "found = ReduceSum<keepdims=0>(Cast<to=T>(both), [1, 4, 5, 6, 7])");
    zt_function_body_add(b, "outside = Unsqueeze(Where(Less(found, count), 0, least), [1, 4])");
    zt_function_body_add(b, "outside = Expand(outside, [%lld, %lld, %lld, %lld, 1])", rois, c, h, w);
    zt_function_body_add(b, "best = ArgMax<axis=4, keepdims=1>(Concat<axis=4>(all, outside))");
    zt_function_body_add(b, "places = Range(0i, Squeeze(tall * wide * 4i), 1i)");
    zt_function_body_add(b, "each = Cast<to=T>(Equal(best, places)) * Unsqueeze(dy, [4])");
    zt_function_body_add(b, "mixed = Concat<axis=0>([%lld, %lld, %lld, %lld], tall, wide, [2, 2])", rois, c, h, w);
    zt_function_body_add(b, "each = Transpose<perm=[0, 1, 2, 4, 6, 3, 5, 7]>(Reshape(each, mixed))");
    zt_function_body_add(b, "each = Reshape(each, Concat<axis=0>([%lld, %lld], tall * %lldi, wide * %lldi))", rois, c,
                         2 * h, 2 * w);
}

/* ---- gradients from the matrices ---- */

/* The gradient of a coordinate: the sum over all bins of each times rows image columns^T. */
static void say_coordinate(struct zt_function_body *b, const char *name, const char *rows, const char *columns) {
    zt_function_body_add(b,
                         "%s = Unsqueeze(ReduceSum<keepdims=0>(each * MatMul(MatMul(Unsqueeze(%s, [1]), image), "
                         "Unsqueeze(Transpose<perm=[0, 2, 1]>(%s), [1])), [1, 2, 3]), [1])",
                         name, rows, columns);
}

/* The matrices of both axes, and each: the gradient of their product with the image. */
static void say_matrices(struct zt_function_body *b, const struct zt_roi_align *r, bool moves) {
    void (*say)(struct zt_function_body *, const struct zt_roi_align *, int, bool) = r->max ? say_corners : say_axis;
    if (r->max || moves)
        zt_function_body_add(b, "image = Gather<axis=0>(x, batch)");
    say(b, r, 0, moves);
    zt_function_body_add(b,
                         moves ? "rows = read; count = grid; top = start; bottom = end" : "rows = read; count = grid");
    if (r->max)
        zt_function_body_add(b, "down = there; tall = samples");
    say(b, r, 1, moves);
    zt_function_body_add(b, "columns = read; count = count * grid");
    if (r->max)
        zt_function_body_add(b, "along = there; wide = samples");
    if (r->max)
        say_largest(b, r);
    else
        zt_function_body_add(b, "each = dy / Unsqueeze(Max(count, 1), [3])");
}

/* dx[n] = sum over the rois of sample n of rows^T each columns */
static void say_gradient(struct zt_function_body *b, const struct zt_roi_align *r, bool moves) {
    say_matrices(b, r, moves);
    zt_function_body_add(b,
                         "all = Reshape(MatMul(MatMul(Unsqueeze(Transpose<perm=[0, 2, 1]>(rows), [1]), each), "
                         "Unsqueeze(columns, [1])), [%lld, %lld])",
                         (long long)r->rois, (long long)(r->c * r->in[0] * r->in[1]));
    zt_function_body_add(b, "own = Equal(Unsqueeze(batch, [0]), Reshape(%s, [%lld, 1]))",
                         zt_function_body_range(b, r->n), (long long)r->n);
    zt_function_body_add(b, "dx = Reshape(MatMul(Where(own, 1, 0), all), %s)", zt_body_out(b, 0));
    if (!moves)
        return;
    say_coordinate(b, "x1", "rows", "start");
    say_coordinate(b, "y1", "top", "columns");
    say_coordinate(b, "x2", "rows", "end");
    say_coordinate(b, "y2", "bottom", "columns");
    zt_function_body_add(b, "drois = Concat<axis=1>(x1, y1, x2, y2)");
}

ZT_FUNCTION_BODY(zt_roi_align_grad_function_body) {
    struct zt_roi_align r;
    if (!zt_roi_align_grad_read(g, node, &r, err))
        return false;
    const bool moves = zt_out(g, node, 1) && zt_function_body_wants(b, 1);
    zt_function_body_names(b, "dy, rois, batch, x -> dx, drois");
    if (r.rois > 0 && r.in[0] * r.in[1] > 0) {
        say_gradient(b, &r, moves);
        return true;
    }
    zt_function_body_add(b, "dx = Expand(0, %s)", zt_body_out(b, 0));
    if (moves)
        zt_function_body_add(b, "drois = Expand(0, %s)", zt_body_out(b, 1));
    return true;
}
