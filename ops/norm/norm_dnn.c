#include "ops/norm/norm_dnn.h"

bool zt_norm_dnn_of(const struct zt_launch_norm *n, struct zt_norm_dnn *to) {
    const bool of_rows = n->period == 1 && n->per_scale == 1;
    *to = (struct zt_norm_dnn){ .norm = !of_rows     ? ZT_DNN_INSTANCE_NORM
                                        : n->centred ? ZT_DNN_LAYER_NORM
                                                     : ZT_DNN_RMS_NORM,
                                .samples = n->rows / n->period,
                                .channels = of_rows ? n->length : n->period,
                                .places = of_rows ? 1 : n->length,
                                .last = of_rows || n->last };
    return of_rows || (n->per_row == 1 && n->centred);
}

const char *zt_norm_dnn_refusal(const struct zt_norm_dnn *n) {
    if (!zt_dtype_is_half(n->x))
        return "statistics of fp32 are found by our own kernels";
    if (n->scale != n->x && n->scale != ZT_FLOAT)
        return "cuDNN takes scales of float and of the type of x only";
    return n->samples > 0 && n->channels > 0 && n->places > 0 ? NULL : "the tensor is empty";
}

/* [first, second, places, 1], the second innermost or row-major. */
static struct zt_dnn_tensor tensor(enum zt_dtype dtype, int64_t first, int64_t second, int64_t places, bool last) {
    const int64_t along = last ? second : 1;
    return (struct zt_dnn_tensor){ .dtype = dtype,
                                   .rank = 4,
                                   .dim = { first, second, places, 1 },
                                   .stride = { second * places, last ? 1 : places, along, along } };
}

static struct zt_dnn_tensor statistics(const struct zt_norm_dnn *n) {
    const bool of_channels = n->norm == ZT_DNN_INSTANCE_NORM || n->norm == ZT_DNN_BATCH_NORM;
    return tensor(ZT_FLOAT, n->norm == ZT_DNN_BATCH_NORM ? 1 : n->samples, of_channels ? n->channels : 1, 1, n->last);
}

void zt_norm_dnn(const struct zt_norm_dnn *n, struct zt_dnn_graph *to) {
    const bool centred = n->norm != ZT_DNN_RMS_NORM;
    const int mean = centred ? ZT_NORM_MEAN : -1, bias = centred ? ZT_NORM_BIAS : -1,
              dbias = centred ? ZT_NORM_DBIAS : -1;
    *to = (struct zt_dnn_graph){ .tensor_count = n->grad ? ZT_NORM_TENSORS : ZT_NORM_FORWARD,
                                 .operation_count = 1,
                                 .norm = n->norm };
    struct zt_dnn_tensor *t = to->tensor;
    t[ZT_NORM_X] = tensor(n->x, n->samples, n->channels, n->places, n->last);
    t[ZT_NORM_SCALE] = tensor(n->scale, 1, n->channels, 1, n->last);
    t[ZT_NORM_MEAN] = t[ZT_NORM_INV_STD] = statistics(n);
    if (n->grad) {
        t[ZT_NORM_DY] = t[ZT_NORM_DX] = t[ZT_NORM_X];
        t[ZT_NORM_DSCALE] = t[ZT_NORM_DBIAS] = t[ZT_NORM_SCALE];
        to->operation[0] = (struct zt_dnn_operation){ ZT_DNN_NORM_GRAD,
                                                      { ZT_NORM_X, ZT_NORM_SCALE, mean, ZT_NORM_INV_STD, ZT_NORM_DY,
                                                        ZT_NORM_DX, ZT_NORM_DSCALE, dbias } };
        return;
    }
    t[ZT_NORM_BIAS] = t[ZT_NORM_SCALE];
    t[ZT_NORM_EPSILON] = tensor(ZT_FLOAT, 1, 1, 1, false);
    t[ZT_NORM_EPSILON].number = true;
    t[ZT_NORM_Y] = t[ZT_NORM_X];
    to->operation[0] = (struct zt_dnn_operation){
        ZT_DNN_NORM, { ZT_NORM_X, ZT_NORM_SCALE, bias, ZT_NORM_EPSILON, ZT_NORM_Y, mean, ZT_NORM_INV_STD }
    };
}
