/* Windows (opset 17): with D the size, or size - 1 of a symmetric window (`periodic` 0), and t = 2 pi n / D, n < size,
 *
 *     HannWindow      1 / 2 - 1 / 2 cos t
 *     HammingWindow   25 / 46 - 21 / 46 cos t
 *     BlackmanWindow  0.42 - 0.5 cos t + 0.08 cos 2 t
 *
 * A symmetric window of one number, for which the formulas divide by zero, is 1. Of integers the fraction is cut off.
 */
#include "ops/signal/window.h"
#include "ops/signal/kernels.h"

#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <math.h>

/* Factors of 1, cos t and cos 2 t. */
struct window {
    double factor[3];
};

static bool read_size(const struct zt_graph *g, int node, int64_t *size, struct zt_err *err) {
    int count;
    if (!zt_known_ints(g, node, 0, &(struct zt_int_list){ size, 1, &count }, err))
        return false;
    if (count != 1)
        return zt_node_fail(g, node, err, "its size has %d numbers, not 1", count);
    return *size >= 0 || zt_node_fail(g, node, err, "a window of %lld numbers", (long long)*size);
}

bool zt_signal_output_type(const struct zt_graph *g, int node, enum zt_dtype *to, struct zt_err *err) {
    const int64_t type = zt_attr_int(g->nodes[node], "output_datatype", ZT_FLOAT);
    if (type < 0 || type >= ZT_DTYPES || !zt_dtype_in((enum zt_dtype)type, ZT_ANY_NUMBER))
        return zt_node_fail(g, node, err, "attribute \"output_datatype\" is %lld, which is no type of numbers",
                            (long long)type);
    *to = (enum zt_dtype)type;
    return true;
}

static bool window_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_shape shape = { .rank = 1 };
    enum zt_dtype type;
    if (!read_size(g, node, &shape.dim[0], err) || !zt_signal_output_type(g, node, &type, err))
        return false;
    zt_set_out(g, node, 0, type, &shape);
    return true;
}

static bool window_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct window *w = call->node->op->detail;
    const struct zt_view *y = &call->out[0];
    const int64_t size = y->shape.dim[0], whole = zt_attr_int(call->node, "periodic", 1) ? size : size - 1;
    double block[ZT_ELEMENT_BLOCK];
    ZT_EACH_BLOCK(size, at, count) {
        for (int64_t i = 0; i < count; i++) {
            const double t = 2 * M_PI * ((double)(at + i) / (double)whole);
            block[i] = whole ? w->factor[0] + w->factor[1] * cos(t) + w->factor[2] * cos(2 * t) : 1;
        }
        zt_store_block(y->dtype, y->data, at, 1, count, block);
    }
    return true;
}

static const struct window hann = { { 0.5, -0.5, 0 } };
static const struct window hamming = { { 25.0 / 46, -21.0 / 46, 0 } };
static const struct window blackman = { { 0.42, -0.5, 0.08 } };

static const struct zt_attr_spec attrs[] = { { "output_datatype", ZT_ATTR_INT, .element_type = true },
                                             { "periodic", ZT_ATTR_INT },
                                             { 0 } };
#define ROW                                                                                                            \
    .domain = "", .since = 17, ZT_ONE_OUT(1, 1), .in_types = { ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64) }, .attrs = attrs,  \
    .infer = window_infer, .shape_in = 1, .size_in = 1, .kernel = { [ZT_REF] = { .run = window_run } }

const struct zt_op zt_op_hann_window = { ROW, .name = "HannWindow", .detail = &hann };
const struct zt_op zt_op_hamming_window = { ROW, .name = "HammingWindow", .detail = &hamming };
const struct zt_op zt_op_blackman_window = { ROW, .name = "BlackmanWindow", .detail = &blackman };
