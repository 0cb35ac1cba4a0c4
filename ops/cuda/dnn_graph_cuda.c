/* Tensors, operations and graphs of dnn_cuda.h as descriptors of cuDNN's graph API. */
#include "ops/cuda/dnn_graph_cuda.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

bool zt_dnn_good(cudnnStatus_t status, const char *doing, struct zt_err *err) {
    char text[256] = "";
    if (status == CUDNN_STATUS_SUCCESS)
        return true;
    cudnnGetLastErrorString(text, sizeof text);
    return zt_fail(err, ZT_EXIT_RUN, "cuDNN, %s: %s%s%s", doing, cudnnGetErrorString(status), text[0] ? ": " : "",
                   text);
}

/* ---- descriptors ---- */

bool zt_dnn_set(cudnnBackendDescriptor_t to, const struct zt_dnn_attribute *list, int count, const char *doing,
                struct zt_err *err) {
    for (int i = 0; i < count; i++)
        if (!zt_dnn_good(cudnnBackendSetAttribute(to, list[i].name, list[i].type, list[i].count, list[i].values), doing,
                         err))
            return false;
    return zt_dnn_good(cudnnBackendFinalize(to), doing, err);
}

cudnnBackendDescriptor_t zt_dnn_make(struct zt_dnn *d, cudnnBackendDescriptorType_t type,
                                     const struct zt_dnn_attribute *list, int count, const char *doing,
                                     struct zt_err *err) {
    cudnnBackendDescriptor_t made = NULL;
    if (d->owned_count == ZT_DNN_OWNED) {
        zt_fail(err, ZT_EXIT_RUN, "cuDNN, %s: more than %d descriptors", doing, ZT_DNN_OWNED);
        return NULL;
    }
    if (!zt_dnn_good(cudnnBackendCreateDescriptor(type, &made), doing, err))
        return NULL;
    if (!zt_dnn_set(made, list, count, doing, err)) {
        cudnnBackendDestroyDescriptor(made);
        return NULL;
    }
    return d->owned[d->owned_count++] = made;
}

static cudnnDataType_t type_of(enum zt_dtype dtype) {
    switch (dtype) {
    case ZT_BFLOAT16:
        return CUDNN_DATA_BFLOAT16;
    case ZT_FLOAT16:
        return CUDNN_DATA_HALF;
    case ZT_INT32:
        return CUDNN_DATA_INT32;
    case ZT_BOOL:
        return CUDNN_DATA_BOOLEAN;
    default:
        return CUDNN_DATA_FLOAT;
    }
}

static bool make_tensor(struct zt_dnn *d, int i, struct zt_err *err) {
    const struct zt_dnn_tensor *t = &d->graph.tensor[i];
    cudnnDataType_t type = type_of(t->dtype);
    int64_t id = i + 1, alignment = ZT_DNN_ALIGNMENT;
    bool inner = t->inner, number = t->number;
    const struct zt_dnn_attribute list[] = {
        ONE(TENSOR_DATA_TYPE, DATA_TYPE, &type),         LIST(TENSOR_DIMENSIONS, INT64, t->rank, t->dim),
        LIST(TENSOR_STRIDES, INT64, t->rank, t->stride), ONE(TENSOR_UNIQUE_ID, INT64, &id),
        ONE(TENSOR_BYTE_ALIGNMENT, INT64, &alignment),   ONE(TENSOR_IS_VIRTUAL, BOOLEAN, &inner),
        ONE(TENSOR_IS_BY_VALUE, BOOLEAN, &number),
    };
    return (d->tensor[i] = MAKE(d, TENSOR, list, "describing a tensor", err));
}

static cudnnBackendDescriptor_t make_conv_window(struct zt_dnn *d, struct zt_err *err) {
    const struct zt_dnn_window *c = &d->graph.window;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t axes = c->axes;
    const struct zt_dnn_attribute list[] = {
        ONE(CONVOLUTION_COMP_TYPE, DATA_TYPE, &compute),
        ONE(CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, &mode),
        ONE(CONVOLUTION_SPATIAL_DIMS, INT64, &axes),
        LIST(CONVOLUTION_DILATIONS, INT64, axes, c->dilation),
        LIST(CONVOLUTION_FILTER_STRIDES, INT64, axes, c->stride),
        LIST(CONVOLUTION_PRE_PADDINGS, INT64, axes, c->pad),
        LIST(CONVOLUTION_POST_PADDINGS, INT64, axes, c->pad_end),
    };
    return MAKE(d, CONVOLUTION, list, "describing a convolution", err);
}

/* The descriptor of each direction and the names of its attributes. */
static const struct convolution {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, window, tensor[3];
} convolutions[] = {
    [ZT_DNN_CONV] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                      { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y } },
    [ZT_DNN_CONV_DATA] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                           { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY } },
    [ZT_DNN_CONV_WEIGHT] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY } },
};

static cudnnBackendDescriptor_t make_convolution(struct zt_dnn *d, const struct zt_dnn_operation *o,
                                                 struct zt_err *err) {
    const float alpha = 1, beta = 0;
    const struct convolution *c = &convolutions[o->kind];
    cudnnBackendDescriptor_t window = make_conv_window(d, err);
    if (!window)
        return NULL;
    const struct zt_dnn_attribute list[] = {
        { c->alpha, CUDNN_TYPE_FLOAT, 1, &alpha },
        { c->beta, CUDNN_TYPE_FLOAT, 1, &beta },
        { c->window, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &window },
        { c->tensor[0], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d->tensor[o->tensor[0]] },
        { c->tensor[1], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d->tensor[o->tensor[1]] },
        { c->tensor[2], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d->tensor[o->tensor[2]] },
    };
    return zt_dnn_make(d, c->type, list, (int)(sizeof list / sizeof *list), "describing a convolution of tensors", err);
}

static const struct pointwise {
    cudnnPointwiseMode_t mode;
    int inputs;
    cudnnDataType_t compute; /* 0 is CUDNN_DATA_FLOAT */
    int64_t axis;            /* 0: it has none */
} pointwise[] = {
    [ZT_DNN_ADD] = { CUDNN_POINTWISE_ADD, 2 },
    [ZT_DNN_SUBTRACT] = { CUDNN_POINTWISE_SUB, 2 },
    [ZT_DNN_MULTIPLY] = { CUDNN_POINTWISE_MUL, 2 },
    [ZT_DNN_DIVIDE] = { CUDNN_POINTWISE_DIV, 2 },
    [ZT_DNN_AT_LEAST] = { CUDNN_POINTWISE_CMP_GE, 2, CUDNN_DATA_BOOLEAN },
    [ZT_DNN_EXP] = { CUDNN_POINTWISE_EXP, 1 },
    [ZT_DNN_LOG] = { CUDNN_POINTWISE_LOG, 1 },
    [ZT_DNN_ROW] = { CUDNN_POINTWISE_GEN_INDEX, 1, .axis = 2 },
    [ZT_DNN_COLUMN] = { CUDNN_POINTWISE_GEN_INDEX, 1, .axis = 3 },
    [ZT_DNN_SELECT] = { CUDNN_POINTWISE_BINARY_SELECT, 3 },
};

static cudnnBackendDescriptor_t make_pointwise(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    const struct pointwise *p = &pointwise[o->kind];
    const struct zt_dnn_attribute what[] = {
        ONE(POINTWISE_MODE, POINTWISE_MODE, &p->mode),
        ONE(POINTWISE_MATH_PREC, DATA_TYPE, &p->compute),
        ONE(POINTWISE_AXIS, INT64, &p->axis),
    };
    cudnnBackendDescriptor_t function = zt_dnn_make(d, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what, p->axis ? 3 : 2,
                                                    "describing what is done to elements", err);
    if (!function)
        return NULL;
    const struct zt_dnn_attribute list[] = {
        ONE(OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, &function),
        ONE(OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[p->inputs]]),
        ONE(OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
        ONE(OPERATION_POINTWISE_TDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[2]]),
    };
    return zt_dnn_make(d, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, list, 2 + p->inputs,
                       "describing what is done to the elements of tensors", err);
}

static cudnnBackendDescriptor_t make_product(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const struct zt_dnn_attribute what[] = { ONE(MATMUL_COMP_TYPE, DATA_TYPE, &compute) };
    cudnnBackendDescriptor_t product = MAKE(d, MATMUL, what, "describing a product", err);
    if (!product)
        return NULL;
    const struct zt_dnn_attribute list[] = {
        ONE(OPERATION_MATMUL_DESC, BACKEND_DESCRIPTOR, &product),
        ONE(OPERATION_MATMUL_ADESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_MATMUL_BDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
        ONE(OPERATION_MATMUL_CDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[2]]),
    };
    return MAKE(d, OPERATION_MATMUL, list, "describing a product of tensors", err);
}

static cudnnBackendDescriptor_t make_reduction(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    cudnnReduceTensorOp_t which = o->kind == ZT_DNN_SUM ? CUDNN_REDUCE_TENSOR_ADD : CUDNN_REDUCE_TENSOR_MAX;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const struct zt_dnn_attribute what[] = {
        ONE(REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, &which),
        ONE(REDUCTION_COMP_TYPE, DATA_TYPE, &compute),
    };
    cudnnBackendDescriptor_t reduction = MAKE(d, REDUCTION, what, "describing a reduction", err);
    if (!reduction)
        return NULL;
    const struct zt_dnn_attribute list[] = {
        ONE(OPERATION_REDUCTION_DESC, BACKEND_DESCRIPTOR, &reduction),
        ONE(OPERATION_REDUCTION_XDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_REDUCTION_YDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
    };
    return MAKE(d, OPERATION_REDUCTION, list, "describing a reduction of a tensor", err);
}

static cudnnBackendDescriptor_t make_reshape(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    const struct zt_dnn_attribute list[] = {
        ONE(OPERATION_RESHAPE_XDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_RESHAPE_YDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
    };
    return MAKE(d, OPERATION_RESHAPE, list, "describing another shape of a tensor", err);
}

/* cuDNN's description of a normalisation: `lead` holds `leads` attributes; names[i] is the attribute of operand i. */
struct norm_attributes {
    cudnnBackendDescriptorType_t type;
    const struct zt_dnn_attribute *lead;
    int leads;
    const cudnnBackendAttributeName_t *names;
    int operands;
};

static cudnnBackendDescriptor_t make_norm_of(struct zt_dnn *d, const struct zt_dnn_operation *o,
                                             const struct norm_attributes *n, struct zt_err *err) {
    struct zt_dnn_attribute list[2 + ZT_DNN_OPERANDS];
    int count = n->leads;
    memcpy(list, n->lead, (size_t)n->leads * sizeof *n->lead);
    for (int i = 0; i < n->operands; i++)
        if (o->tensor[i] >= 0)
            list[count++] =
                (struct zt_dnn_attribute){ n->names[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d->tensor[o->tensor[i]] };
    return zt_dnn_make(d, n->type, list, count, "describing a normalisation of a tensor", err);
}

static cudnnBackendDescriptor_t make_norm(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    static const cudnnBackendAttributeName_t forward[ZT_DNN_NORM_OPERANDS] = {
        CUDNN_ATTR_OPERATION_NORM_FWD_XDESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
    };
    static const cudnnBackendAttributeName_t backward[ZT_DNN_NORM_GRAD_OPERANDS] = {
        CUDNN_ATTR_OPERATION_NORM_BWD_XDESC,       CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,   CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,      CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC,
    };
    static const cudnnBackendNormMode_t modes[] = { [ZT_DNN_LAYER_NORM] = CUDNN_LAYER_NORM,
                                                    [ZT_DNN_RMS_NORM] = CUDNN_RMS_NORM,
                                                    [ZT_DNN_INSTANCE_NORM] = CUDNN_INSTANCE_NORM,
                                                    [ZT_DNN_BATCH_NORM] = CUDNN_BATCH_NORM };
    const cudnnBackendNormMode_t *mode = &modes[d->graph.norm];
    const cudnnBackendNormFwdPhase_t training = CUDNN_NORM_FWD_TRAINING;
    const struct zt_dnn_attribute of_forward[] = { ONE(OPERATION_NORM_FWD_MODE, NORM_MODE, mode),
                                                   ONE(OPERATION_NORM_FWD_PHASE, NORM_FWD_PHASE, &training) };
    const struct zt_dnn_attribute of_backward[] = { ONE(OPERATION_NORM_BWD_MODE, NORM_MODE, mode) };
    const struct norm_attributes y = { CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, of_forward, 2, forward,
                                       ZT_DNN_NORM_OPERANDS };
    const struct norm_attributes dx = { CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, of_backward, 1, backward,
                                        ZT_DNN_NORM_GRAD_OPERANDS };
    return make_norm_of(d, o, o->kind == ZT_DNN_NORM ? &y : &dx, err);
}

static cudnnBackendDescriptor_t make_pool_window(struct zt_dnn *d, struct zt_err *err) {
    static const cudnnResampleMode_t modes[] = { [ZT_DNN_MAX_POOL] = CUDNN_RESAMPLE_MAXPOOL,
                                                 [ZT_DNN_AVERAGE_POOL] = CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING,
                                                 [ZT_DNN_AVERAGE_POOL_INSIDE] =
                                                     CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING };
    const struct zt_dnn_window *w = &d->graph.window;
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    const cudnnPaddingMode_t padding = d->graph.pool == ZT_DNN_MAX_POOL ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
    const int64_t axes = w->axes;
    const struct zt_dnn_attribute list[] = {
        ONE(RESAMPLE_MODE, RESAMPLE_MODE, &modes[d->graph.pool]),
        ONE(RESAMPLE_COMP_TYPE, DATA_TYPE, &compute),
        ONE(RESAMPLE_NAN_PROPAGATION, NAN_PROPOGATION, &nan),
        ONE(RESAMPLE_PADDING_MODE, PADDING_MODE, &padding),
        ONE(RESAMPLE_SPATIAL_DIMS, INT64, &axes),
        LIST(RESAMPLE_WINDOW_DIMS, INT64, axes, w->kernel),
        LIST(RESAMPLE_STRIDES, INT64, axes, w->stride),
        LIST(RESAMPLE_PRE_PADDINGS, INT64, axes, w->pad),
        LIST(RESAMPLE_POST_PADDINGS, INT64, axes, w->pad_end),
    };
    return MAKE(d, RESAMPLE, list, "describing a pool", err);
}

static cudnnBackendDescriptor_t make_pool(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    cudnnBackendDescriptor_t window = make_pool_window(d, err);
    if (!window)
        return NULL;
    const struct zt_dnn_attribute forward[] = {
        ONE(OPERATION_RESAMPLE_FWD_DESC, BACKEND_DESCRIPTOR, &window),
        ONE(OPERATION_RESAMPLE_FWD_XDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_RESAMPLE_FWD_YDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
    };
    const struct zt_dnn_attribute backward[] = {
        ONE(OPERATION_RESAMPLE_BWD_DESC, BACKEND_DESCRIPTOR, &window),
        ONE(OPERATION_RESAMPLE_BWD_DXDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_RESAMPLE_BWD_DYDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
    };
    return o->kind == ZT_DNN_POOL ? MAKE(d, OPERATION_RESAMPLE_FWD, forward, "describing a pool of a tensor", err)
                                  : MAKE(d, OPERATION_RESAMPLE_BWD, backward, "describing a pool of a tensor", err);
}

static cudnnBackendDescriptor_t make_operation(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    switch (o->kind) {
    case ZT_DNN_CONV:
    case ZT_DNN_CONV_DATA:
    case ZT_DNN_CONV_WEIGHT:
        return make_convolution(d, o, err);
    case ZT_DNN_MATMUL:
        return make_product(d, o, err);
    case ZT_DNN_RESHAPE:
        return make_reshape(d, o, err);
    case ZT_DNN_SUM:
    case ZT_DNN_LARGEST:
        return make_reduction(d, o, err);
    case ZT_DNN_NORM:
    case ZT_DNN_NORM_GRAD:
        return make_norm(d, o, err);
    case ZT_DNN_POOL:
    case ZT_DNN_POOL_GRAD:
        return make_pool(d, o, err);
    default:
        return make_pointwise(d, o, err);
    }
}

void zt_dnn_write_key(const struct zt_dnn_graph *g, struct zt_text *to) {
    for (const struct zt_dnn_tensor *t = g->tensor; t < g->tensor + g->tensor_count; t++) {
        zt_text_add(to, "tensor %d %d %d", t->dtype, t->inner, t->number);
        for (int k = 0; k < t->rank; k++)
            zt_text_add(to, " %lld/%lld", (long long)t->dim[k], (long long)t->stride[k]);
        zt_text_add(to, "\n");
    }
    for (const struct zt_dnn_operation *o = g->operation; o < g->operation + g->operation_count; o++) {
        zt_text_add(to, "operation %d", o->kind);
        for (int i = 0; i < ZT_DNN_OPERANDS; i++)
            zt_text_add(to, " %d", o->tensor[i]);
        zt_text_add(to, "\n");
    }
    const struct zt_dnn_window *w = &g->window;
    for (int a = 0; a < w->axes; a++)
        zt_text_add(to, "axis %lld %lld %lld %lld %lld\n", (long long)w->kernel[a], (long long)w->stride[a],
                    (long long)w->dilation[a], (long long)w->pad[a], (long long)w->pad_end[a]);
    zt_text_add(to, "pool %d, norm %d, tensor cores %d\n", g->pool, g->norm, g->tensor_cores);
}

struct zt_dnn *zt_dnn_describe(const struct zt_dnn_graph *graph, struct zt_err *err) {
    struct zt_dnn *d = zt_calloc(1, sizeof *d);
    bool made = true;
    d->graph = *graph;
    d->workspace_most = (int64_t)ZT_DNN_WORKSPACE;
    zt_dnn_write_key(graph, &d->key);
    for (int i = 0; made && i < graph->tensor_count; i++)
        made = make_tensor(d, i, err);
    for (int i = 0; made && i < graph->operation_count; i++) {
        for (int k = 0; k < ZT_DNN_OPERANDS; k++) /* what an operation has not is 0, its x, or -1 */
            if (graph->operation[i].tensor[k] >= 0)
                d->is_operand[graph->operation[i].tensor[k]] = true;
        d->operation[i] = make_operation(d, &graph->operation[i], err);
        made = d->operation[i] != NULL;
    }
    if (made)
        return d;
    zt_dnn_destroy(d);
    return NULL;
}

void zt_dnn_destroy(struct zt_dnn *d) {
    if (!d)
        return;
    while (d->owned_count > 0)
        cudnnBackendDestroyDescriptor(d->owned[--d->owned_count]);
    zt_text_finish(&d->key);
    free(d);
}
