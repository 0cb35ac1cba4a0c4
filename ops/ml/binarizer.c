/* Binarizer (ai.onnx.ml 1): y = 1 where x > threshold, else 0 (of NaN too). */
#include "ops/ml/kernels.h"

#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <math.h>

static void binarize_floats(const struct zt_view *x, const struct zt_view *y, double threshold, int64_t count) {
    double block[ZT_ELEMENT_BLOCK];
    ZT_EACH_BLOCK(count, at, part) {
        zt_load_block(x->dtype, x->data, at, 1, part, block);
        for (int64_t i = 0; i < part; i++)
            block[i] = block[i] > threshold;
        zt_store_block(y->dtype, y->data, at, 1, part, block);
    }
}

/* An integer is above a number where it is above the integer below; those of 64 bits are not rounded to double. */
static void binarize_ints(const struct zt_view *x, const struct zt_view *y, double threshold, int64_t count) {
    const double below = floor(threshold), end = 0x1p63;
    int64_t block[ZT_ELEMENT_BLOCK];
    ZT_EACH_BLOCK(count, at, part) {
        zt_load_block_int(x->dtype, x->data, at, 1, part, block);
        for (int64_t i = 0; i < part; i++)
            block[i] = below < -end || (below < end && block[i] > (int64_t)below);
        zt_store_block_int(y->dtype, y->data, at, 1, part, block);
    }
}

static bool binarizer_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *x = &call->in[0];
    const double threshold = (double)zt_attr_float(call->node, "threshold", 0);
    (zt_dtype_in(x->dtype, ZT_ANY_FLOAT) ? binarize_floats : binarize_ints)(x, &call->out[0], threshold,
                                                                            zt_shape_count(&x->shape));
    return true;
}

static const struct zt_attr_spec attrs[] = { { "threshold", ZT_ATTR_FLOAT }, { 0 } };

const struct zt_op zt_op_binarizer = {
    .name = "Binarizer",
    .domain = "ai.onnx.ml",
    .since = 1,
    .until = ZT_ML_OPSET,
    ZT_ONE_OUT(1, 1),
    .in_types = { ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_DOUBLE) | ZT_BIT(ZT_INT64) | ZT_BIT(ZT_INT32) },
    .attrs = attrs,
    .infer = zt_infer_first,
    .kernel = { [ZT_REF] = { .run = binarizer_run } },
};
