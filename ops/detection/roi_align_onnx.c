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

/* read: what bin b of roi r reads of pixel i of an axis, [r, b, i]; grid: its samples a bin, [r, 1, 1]. A sample at y
 * reads pixel i with the weight max(0, 1 - |y - i|), where y is moved to the nearest pixel if it is outside. With
 * `moves` start and end: how that changes with the coordinates of the roi. */
static void say_axis(struct zt_function_body *b, const struct zt_roi_align *r, int axis, bool moves) {
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
    zt_function_body_add(b, "y = low + p * bin + (i + 0.5) * bin / Where(Greater(grid, 0), grid, 1)");
    zt_function_body_add(b,
                         "there = And(Less(i, grid), And(GreaterOrEqual(y, -1), LessOrEqual(y, %lld))); "
                         "y = Unsqueeze(Clip(y, 0, %lld), [3])",
                         size, size - 1);
    zt_function_body_add(b,
                         "read = ReduceSum<keepdims=0>(Where(Unsqueeze(there, [3]), Relu(1 - Abs(y - Range(0, %lld, "
                         "1))), 0), [2])",
                         size);
    if (!moves)
        return;
    zt_function_body_add(b,
                         "part = y - Floor(y); pixel = Floor(y) + Where(Less(y, %lld), 0, -1); j = Range(0, %lld, 1)",
                         size - 1, size);
    zt_function_body_add(b, "inner = And(Unsqueeze(there, [3]), And(Greater(y, 0), Less(y, %lld)))", size - 1);
    zt_function_body_add(b, "slope = Where(Equal(j, pixel + 1), 1, Where(Equal(j, pixel), -1, 0))");
    zt_function_body_add(b, "slope = Where(inner, slope, 0) * scale");
    zt_function_body_add(b, "u = Unsqueeze((p + (i + 0.5) / Where(Greater(grid, 0), grid, 1)) / %lld, [3])", out);
    if (!r->half_pixel)
        zt_function_body_add(b, "u = Where(Unsqueeze(Less(high - low, 1), [3]), 0, u)");
    zt_function_body_add(b,
                         "start = ReduceSum<keepdims=0>(slope * (1 - u), [2]); end = ReduceSum<keepdims=0>(slope * u, "
                         "[2])");
}

/* The gradient of a coordinate: the sum over all bins of dy / count times rows image columns^T. */
static void say_coordinate(struct zt_function_body *b, const char *name, const char *rows, const char *columns) {
    zt_function_body_add(b,
                         "%s = Unsqueeze(ReduceSum<keepdims=0>(each * MatMul(MatMul(Unsqueeze(%s, [1]), image), "
                         "Unsqueeze(Transpose<perm=[0, 2, 1]>(%s), [1])), [1, 2, 3]), [1])",
                         name, rows, columns);
}

/* dx[n] = sum over the rois of sample n of rows^T dy columns / count */
static void say_gradient(struct zt_function_body *b, const struct zt_roi_align *r, bool moves) {
    say_axis(b, r, 0, moves);
    zt_function_body_add(b,
                         moves ? "rows = read; count = grid; top = start; bottom = end" : "rows = read; count = grid");
    say_axis(b, r, 1, moves);
    zt_function_body_add(b, "columns = read; each = dy / Unsqueeze(Max(count * grid, 1), [3])");
    zt_function_body_add(b,
                         "all = Reshape(MatMul(MatMul(Unsqueeze(Transpose<perm=[0, 2, 1]>(rows), [1]), each), "
                         "Unsqueeze(columns, [1])), [%lld, %lld])",
                         (long long)r->rois, (long long)(r->c * r->in[0] * r->in[1]));
    zt_function_body_add(b, "own = Equal(Unsqueeze(batch, [0]), Reshape(%s, [%lld, 1]))",
                         zt_function_body_range(b, r->n), (long long)r->n);
    zt_function_body_add(b, "dx = Reshape(MatMul(Where(own, 1, 0), all), %s)", zt_body_out(b, 0));
    if (!moves)
        return;
    zt_function_body_add(b, "image = Gather<axis=0>(x, batch)");
    say_coordinate(b, "x1", "rows", "start");
    say_coordinate(b, "y1", "top", "columns");
    say_coordinate(b, "x2", "rows", "end");
    say_coordinate(b, "y2", "bottom", "columns");
    zt_function_body_add(b, "drois = Concat<axis=1>(x1, y1, x2, y2)");
}

/* Mode max: which of the corners is the largest takes a tensor of all corners of all samples of all channels, whose
 * size depends on the rois. */
ZT_FUNCTION_BODY(zt_roi_align_grad_function_body) {
    struct zt_roi_align r;
    if (!zt_roi_align_grad_read(g, node, &r, err))
        return false;
    if (r.max)
        return zt_node_fail(g, node, err, "the gradient of mode \"max\" cannot be written in standard operators");
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
