#include "ops/dnn_cuda.h"

#include "base/arena.h"
#include "base/kept.h"
#include "device/cuda.h"

#include <cudnn.h>

#include <stdlib.h>
#include <string.h>

/* CONFIGS: those with tensor cores come first and are many. */
enum { KEPT = ZT_DNN_TENSORS + 2 * ZT_DNN_OPERATIONS + 8, CONFIGS = 256, NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };

/* Everything that was made lives as long as the plan, which refers to it. */
struct zt_dnn {
    struct zt_dnn *next; /* of the device's */
    struct zt_dnn_graph graph;
    struct zt_text key; /* the graph as text */
    bool was_kept;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties; /* of a GPU that need not be here, in place of a handle; else NULL */
    cudnnBackendDescriptor_t kept[KEPT], tensor[ZT_DNN_TENSORS], operation[ZT_DNN_OPERATIONS], plan;
    int kept_count;
    int64_t workspace_bytes;
};

/* ---- errors ---- */

static bool good(cudnnStatus_t status, const char *doing, struct zt_err *err) {
    char text[256] = "";
    if (status == CUDNN_STATUS_SUCCESS)
        return true;
    cudnnGetLastErrorString(text, sizeof text);
    return zt_fail(err, ZT_EXIT_RUN, "cuDNN, %s: %s%s%s", doing, cudnnGetErrorString(status), text[0] ? ": " : "",
                   text);
}

/* ---- descriptors ---- */

struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values;
};
#define LIST(name, type, count, values)                                                                                \
    { CUDNN_ATTR_##name, CUDNN_TYPE_##type, count, values }
#define ONE(name, type, value) LIST(name, type, 1, value)

static bool set_all(cudnnBackendDescriptor_t to, const struct attribute *list, int count, const char *doing,
                    struct zt_err *err) {
    for (int i = 0; i < count; i++)
        if (!good(cudnnBackendSetAttribute(to, list[i].name, list[i].type, list[i].count, list[i].values), doing, err))
            return false;
    return good(cudnnBackendFinalize(to), doing, err);
}

/* A finalized descriptor that lives with `d`; NULL on failure. */
static cudnnBackendDescriptor_t make(struct zt_dnn *d, cudnnBackendDescriptorType_t type, const struct attribute *list,
                                     int count, const char *doing, struct zt_err *err) {
    cudnnBackendDescriptor_t made = NULL;
    if (d->kept_count == KEPT) {
        zt_fail(err, ZT_EXIT_RUN, "cuDNN, %s: more than %d descriptors", doing, KEPT);
        return NULL;
    }
    if (!good(cudnnBackendCreateDescriptor(type, &made), doing, err))
        return NULL;
    if (!set_all(made, list, count, doing, err)) {
        cudnnBackendDestroyDescriptor(made);
        return NULL;
    }
    return d->kept[d->kept_count++] = made;
}
#define MAKE(d, type, list, doing, err)                                                                                \
    make(d, CUDNN_BACKEND_##type##_DESCRIPTOR, list, (int)(sizeof(list) / sizeof *(list)), doing, err)

static cudnnDataType_t type_of(enum zt_dtype dtype) {
    switch (dtype) {
    case ZT_BFLOAT16:
        return CUDNN_DATA_BFLOAT16;
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
    const struct attribute list[] = {
        ONE(TENSOR_DATA_TYPE, DATA_TYPE, &type),         LIST(TENSOR_DIMENSIONS, INT64, t->rank, t->dim),
        LIST(TENSOR_STRIDES, INT64, t->rank, t->stride), ONE(TENSOR_UNIQUE_ID, INT64, &id),
        ONE(TENSOR_BYTE_ALIGNMENT, INT64, &alignment),   ONE(TENSOR_IS_VIRTUAL, BOOLEAN, &inner),
        ONE(TENSOR_IS_BY_VALUE, BOOLEAN, &number),
    };
    return (d->tensor[i] = MAKE(d, TENSOR, list, "describing a tensor", err));
}

static cudnnBackendDescriptor_t make_window(struct zt_dnn *d, struct zt_err *err) {
    const struct zt_dnn_conv *c = &d->graph.conv;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t axes = c->axes;
    const struct attribute list[] = {
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

#define CONVOLUTION(id, way, x, w, y)                                                                                  \
    {                                                                                                                  \
        const struct attribute list[] = {                                                                              \
            ONE(OPERATION_CONVOLUTION_##way##_ALPHA, FLOAT, &alpha),                                                   \
            ONE(OPERATION_CONVOLUTION_##way##_BETA, FLOAT, &beta),                                                     \
            ONE(OPERATION_CONVOLUTION_##way##_CONV_DESC, BACKEND_DESCRIPTOR, &window),                                 \
            ONE(OPERATION_CONVOLUTION_##way##_##x, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),                      \
            ONE(OPERATION_CONVOLUTION_##way##_##w, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),                      \
            ONE(OPERATION_CONVOLUTION_##way##_##y, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[2]]),                      \
        };                                                                                                             \
        return MAKE(d, OPERATION_CONVOLUTION_##id, list, "describing a convolution of tensors", err);                  \
    }

static cudnnBackendDescriptor_t make_convolution(struct zt_dnn *d, const struct zt_dnn_operation *o,
                                                 struct zt_err *err) {
    const float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t window = make_window(d, err);
    if (!window)
        return NULL;
    if (o->kind == ZT_DNN_CONV)
        CONVOLUTION(FORWARD, FORWARD, X, W, Y)
    if (o->kind == ZT_DNN_CONV_DATA)
        CONVOLUTION(BACKWARD_DATA, BWD_DATA, DX, W, DY)
    CONVOLUTION(BACKWARD_FILTER, BWD_FILTER, X, DW, DY)
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
    [ZT_DNN_RELU] = { CUDNN_POINTWISE_RELU_FWD, 1 },
    [ZT_DNN_EXP] = { CUDNN_POINTWISE_EXP, 1 },
    [ZT_DNN_LOG] = { CUDNN_POINTWISE_LOG, 1 },
    [ZT_DNN_ROW] = { CUDNN_POINTWISE_GEN_INDEX, 1, .axis = 2 },
    [ZT_DNN_COLUMN] = { CUDNN_POINTWISE_GEN_INDEX, 1, .axis = 3 },
    [ZT_DNN_SELECT] = { CUDNN_POINTWISE_BINARY_SELECT, 3 },
};

static cudnnBackendDescriptor_t make_pointwise(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    const struct pointwise *p = &pointwise[o->kind];
    const struct attribute what[] = {
        ONE(POINTWISE_MODE, POINTWISE_MODE, &p->mode),
        ONE(POINTWISE_MATH_PREC, DATA_TYPE, &p->compute),
        ONE(POINTWISE_AXIS, INT64, &p->axis),
    };
    cudnnBackendDescriptor_t function =
        make(d, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what, p->axis ? 3 : 2, "describing what is done to elements", err);
    if (!function)
        return NULL;
    const struct attribute list[] = {
        ONE(OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, &function),
        ONE(OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[p->inputs]]),
        ONE(OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
        ONE(OPERATION_POINTWISE_TDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[2]]),
    };
    return make(d, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, list, 2 + p->inputs,
                "describing what is done to the elements of tensors", err);
}

static cudnnBackendDescriptor_t make_product(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const struct attribute what[] = { ONE(MATMUL_COMP_TYPE, DATA_TYPE, &compute) };
    cudnnBackendDescriptor_t product = MAKE(d, MATMUL, what, "describing a product", err);
    if (!product)
        return NULL;
    const struct attribute list[] = {
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
    const struct attribute what[] = {
        ONE(REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, &which),
        ONE(REDUCTION_COMP_TYPE, DATA_TYPE, &compute),
    };
    cudnnBackendDescriptor_t reduction = MAKE(d, REDUCTION, what, "describing a reduction", err);
    if (!reduction)
        return NULL;
    const struct attribute list[] = {
        ONE(OPERATION_REDUCTION_DESC, BACKEND_DESCRIPTOR, &reduction),
        ONE(OPERATION_REDUCTION_XDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_REDUCTION_YDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
    };
    return MAKE(d, OPERATION_REDUCTION, list, "describing a reduction of a tensor", err);
}

static cudnnBackendDescriptor_t make_reshape(struct zt_dnn *d, const struct zt_dnn_operation *o, struct zt_err *err) {
    const struct attribute list[] = {
        ONE(OPERATION_RESHAPE_XDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[0]]),
        ONE(OPERATION_RESHAPE_YDESC, BACKEND_DESCRIPTOR, &d->tensor[o->tensor[1]]),
    };
    return MAKE(d, OPERATION_RESHAPE, list, "describing another shape of a tensor", err);
}

/* `names`: of the tensors, in the order in which the operation has them. */
static cudnnBackendDescriptor_t make_norm_of(struct zt_dnn *d, const struct zt_dnn_operation *o,
                                             cudnnBackendDescriptorType_t type, const struct attribute *lead, int leads,
                                             const cudnnBackendAttributeName_t *names, int operands,
                                             struct zt_err *err) {
    struct attribute list[2 + ZT_DNN_OPERANDS];
    int count = leads;
    memcpy(list, lead, (size_t)leads * sizeof *lead);
    for (int i = 0; i < operands; i++)
        if (o->tensor[i] >= 0)
            list[count++] = (struct attribute){ names[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d->tensor[o->tensor[i]] };
    return make(d, type, list, count, "describing a normalisation of a tensor", err);
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
    const struct attribute of_forward[] = { ONE(OPERATION_NORM_FWD_MODE, NORM_MODE, mode),
                                            ONE(OPERATION_NORM_FWD_PHASE, NORM_FWD_PHASE, &training) };
    const struct attribute of_backward[] = { ONE(OPERATION_NORM_BWD_MODE, NORM_MODE, mode) };
    return o->kind == ZT_DNN_NORM ? make_norm_of(d, o, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, of_forward, 2,
                                                 forward, ZT_DNN_NORM_OPERANDS, err)
                                  : make_norm_of(d, o, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, of_backward, 1,
                                                 backward, ZT_DNN_NORM_GRAD_OPERANDS, err);
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
    default:
        return make_pointwise(d, o, err);
    }
}

/* All that the graph says, so that graphs are the same where their texts are. */
static void write_key(const struct zt_dnn_graph *g, struct zt_text *to) {
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
    for (int a = 0; a < g->conv.axes; a++)
        zt_text_add(to, "axis %lld %lld %lld %lld\n", (long long)g->conv.stride[a], (long long)g->conv.dilation[a],
                    (long long)g->conv.pad[a], (long long)g->conv.pad_end[a]);
    zt_text_add(to, "norm %d, tensor cores %d\n", g->norm, g->tensor_cores);
}

struct zt_dnn *zt_dnn_describe(const struct zt_dnn_graph *graph, struct zt_err *err) {
    struct zt_dnn *d = zt_calloc(1, sizeof *d);
    bool made = true;
    d->graph = *graph;
    write_key(graph, &d->key);
    for (int i = 0; made && i < graph->tensor_count; i++)
        made = make_tensor(d, i, err);
    for (int i = 0; made && i < graph->operation_count; i++) {
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
    while (d->kept_count > 0)
        cudnnBackendDestroyDescriptor(d->kept[--d->kept_count]);
    zt_text_finish(&d->key);
    free(d);
}

/* ---- engines ---- */

static bool has(const cudnnBackendNumericalNote_t *notes, int64_t count, cudnnBackendNumericalNote_t note) {
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == note)
            return true;
    return false;
}

/* Whether an engine with these notes computes as is wanted here. */
static bool is_wanted(const struct zt_dnn *d, const cudnnBackendNumericalNote_t *notes, int64_t count) {
    const bool fp32 = d->graph.tensor[0].dtype == ZT_FLOAT;
    bool compares = false;
    for (int i = 0; i < d->graph.operation_count; i++)
        compares |= d->graph.operation[i].kind == ZT_DNN_RELU;
    return !has(notes, count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
           !has(notes, count, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
           !(compares && !has(notes, count, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)) &&
           !(fp32 && has(notes, count, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) &&
           !(fp32 && !d->graph.tensor_cores && has(notes, count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

/* The same of a configuration; one whose notes cannot be read is not wanted. */
static bool is_wanted_config(const struct zt_dnn *d, cudnnBackendDescriptor_t config) {
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[NOTES];
    int64_t count = 0;
    bool read = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == CUDNN_STATUS_SUCCESS &&
                cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                         &engine) == CUDNN_STATUS_SUCCESS &&
                cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES,
                                         &count, notes) == CUDNN_STATUS_SUCCESS;
    if (engine)
        cudnnBackendDestroyDescriptor(engine);
    return read && is_wanted(d, notes, count < NOTES ? count : NOTES);
}

/* A plan within the workspace allowed, of what the attribute says: a configuration, or a plan that was kept. */
static bool take(struct zt_dnn *d, const struct attribute *of, struct zt_err *err) {
    const struct attribute here = ONE(EXECUTION_PLAN_HANDLE, HANDLE, &d->handle);
    const struct attribute elsewhere = ONE(EXECUTION_PLAN_DEVICEPROP, BACKEND_DESCRIPTOR, &d->properties);
    const struct attribute list[] = { d->properties ? elsewhere : here, *of };
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, count = 0;
    if (!good(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan), "making a plan", err))
        return false;
    bool taken = set_all(plan, list, 2, "making a plan", err) &&
                 good(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                               &count, &bytes),
                      "asking for its workspace", err);
    if (taken && bytes > (int64_t)ZT_DNN_WORKSPACE)
        taken = zt_fail(err, ZT_EXIT_RUN, "cuDNN, making a plan: wants %lld bytes of workspace", (long long)bytes);
    if (!taken) {
        cudnnBackendDestroyDescriptor(plan);
        return false;
    }
    d->plan = d->kept[d->kept_count++] = plan;
    d->workspace_bytes = bytes;
    return true;
}

static bool take_config(struct zt_dnn *d, cudnnBackendDescriptor_t config) {
    const struct attribute of = ONE(EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, &config);
    struct zt_err ignored = { 0 }; /* the next one may do */
    return take(d, &of, &ignored);
}

/* The first configuration that does, of those which the heuristics rank by expected time. */
static bool choose(struct zt_dnn *d, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, struct zt_err *err) {
    const struct attribute list[] = {
        ONE(ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, &graph),
        ONE(ENGINEHEUR_MODE, HEUR_MODE, &mode),
        ONE(ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, &d->properties),
    };
    cudnnBackendDescriptor_t rule =
        make(d, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, list, d->properties ? 3 : 2, "asking the heuristics", err);
    cudnnBackendDescriptor_t config[CONFIGS] = { 0 };
    int64_t count = 0;
    bool made = rule != NULL, found = false;
    for (int i = 0; made && i < CONFIGS; i++)
        made = good(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]),
                    "asking the heuristics", err);
    made = made && good(cudnnBackendGetAttribute(rule, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                 CONFIGS, &count, config),
                        "asking the heuristics", err);
    for (int i = 0; i < CONFIGS; i++) {
        bool kept = made && !found && i < count && is_wanted_config(d, config[i]) && take_config(d, config[i]);
        found |= kept;
        if (kept)
            d->kept[d->kept_count++] = config[i];
        else if (config[i])
            cudnnBackendDestroyDescriptor(config[i]);
    }
    return found || (made && zt_fail(err, ZT_EXIT_RUN,
                                     "cuDNN has no engine that is deterministic and computes as wanted "
                                     "among %lld",
                                     (long long)count));
}

static bool choose_any(struct zt_dnn *d, struct zt_err *err) {
    const struct attribute list[] = {
        LIST(OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, d->graph.operation_count, d->operation),
        ONE(OPERATIONGRAPH_HANDLE, HANDLE, &d->handle),
    };
    cudnnBackendDescriptor_t graph = make(d, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, list, d->properties ? 1 : 2,
                                          "making the operation graph", err);
    struct zt_err first = { 0 };
    return graph && (choose(d, graph, CUDNN_HEUR_MODE_A, &first) || choose(d, graph, CUDNN_HEUR_MODE_FALLBACK, err));
}

/* ---- plans on disk ---- */

static bool restore(struct zt_dnn *d, const char *path, const char *key) {
    struct zt_text text = { 0 };
    struct zt_err ignored = { 0 };
    if (zt_kept_read(path, key, &text)) {
        const struct attribute of = LIST(EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, (int64_t)text.length, text.at);
        d->was_kept = take(d, &of, &ignored);
    }
    zt_text_finish(&text);
    return d->was_kept;
}

static void keep(const struct zt_dnn *d, const char *path, const char *key) {
    const cudnnBackendAttributeName_t name = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    struct zt_err ignored = { 0 };
    int64_t bytes = 0;
    if (cudnnBackendGetAttribute(d->plan, name, CUDNN_TYPE_CHAR, 0, &bytes, NULL) != CUDNN_STATUS_SUCCESS || bytes <= 0)
        return;
    struct zt_text text = { .at = zt_malloc((size_t)bytes), .length = (size_t)bytes, .room = (size_t)bytes };
    if (cudnnBackendGetAttribute(d->plan, name, CUDNN_TYPE_CHAR, bytes, &bytes, text.at) == CUDNN_STATUS_SUCCESS)
        zt_kept_write(path, key, &text, &ignored);
    zt_text_finish(&text);
}

/* For a GPU that `gpu` names. */
static bool plan(struct zt_dnn *d, const char *gpu, struct zt_err *err) {
    struct zt_text key = { 0 }, path = { 0 };
    zt_text_add(&key, "cuDNN %zu for %s\n%s", cudnnGetVersion(), gpu, d->key.at);
    const bool named = zt_kept_path(key.at, "cudnn.plan", &path);
    bool planned = named && restore(d, path.at, key.at);
    if (!planned) {
        planned = choose_any(d, err);
        if (planned && named)
            keep(d, path.at, key.at);
    }
    zt_text_finish(&key);
    zt_text_finish(&path);
    return planned;
}

bool zt_dnn_plan_for(struct zt_dnn *d, const char *properties, struct zt_err *err) {
    const struct attribute list[] = {
        LIST(DEVICEPROP_JSON_REPRESENTATION, CHAR, (int64_t)strlen(properties), properties),
    };
    d->properties = MAKE(d, DEVICEPROP, list, "reading the properties of a GPU", err);
    return d->properties && plan(d, properties, err);
}

bool zt_dnn_was_kept(const struct zt_dnn *d) {
    return d->was_kept;
}

size_t zt_dnn_workspace_bytes(const struct zt_dnn *d) {
    return (size_t)d->workspace_bytes;
}

/* ---- what a device keeps: its handle, and every graph that was asked for; one without a plan has no engine ---- */

struct library {
    cudnnHandle_t handle;
    struct zt_dnn *first;
};

static void *create_library(void) {
    struct library *l = zt_calloc(1, sizeof *l);
    if (cudnnCreate(&l->handle) == CUDNN_STATUS_SUCCESS)
        return l;
    free(l);
    return NULL;
}

static void destroy_library(void *library) {
    struct library *l = library;
    while (l->first) {
        struct zt_dnn *d = l->first;
        l->first = d->next;
        zt_dnn_destroy(d);
    }
    cudnnDestroy(l->handle);
    free(l);
}

static struct library *library_of(struct zt_device *device, struct zt_err *err) {
    struct library *l = zt_cuda_library(device, create_library, destroy_library);
    if (!l)
        zt_fail(err, ZT_EXIT_RUN, "cuDNN cannot be initialized");
    return l;
}

int zt_dnn_version(void) {
    return (int)cudnnGetVersion();
}

bool zt_dnn_ready(struct zt_device *device, struct zt_err *err) {
    return library_of(device, err);
}

/* The one that was asked for with this key, NULL without; `key` goes. */
static struct zt_dnn *find(const struct library *l, struct zt_text *key) {
    struct zt_dnn *d = l->first;
    while (d && strcmp(d->key.at, key->at) != 0)
        d = d->next;
    zt_text_finish(key);
    return d;
}

const struct zt_dnn *zt_dnn_get(struct zt_device *device, const struct zt_dnn_graph *graph, struct zt_err *err) {
    struct library *l = library_of(device, err);
    if (!l)
        return NULL;
    struct zt_text key = { 0 };
    write_key(graph, &key);
    struct zt_dnn *d = find(l, &key);
    if (d)
        return d->plan ? d : (zt_fail(err, ZT_EXIT_RUN, "cuDNN has no engine, as it said before"), NULL);
    d = zt_dnn_describe(graph, err);
    if (!d)
        return NULL;
    d->next = l->first;
    l->first = d;
    d->handle = l->handle;
    const bool planned = good(cudnnSetStream(d->handle, zt_cuda_stream(device)), "setting the stream", err) &&
                         plan(d, zt_cuda_name(device), err);
    return planned ? d : NULL;
}

/* ---- running ---- */

bool zt_dnn_run(const struct zt_dnn *d, void *const *data, void *workspace, const char *name, struct zt_err *err) {
    int64_t id[ZT_DNN_TENSORS], count = 0;
    void *place[ZT_DNN_TENSORS];
    for (int i = 0; i < d->graph.tensor_count; i++)
        if (data[i]) {
            id[count] = i + 1;
            place[count++] = data[i];
        }
    const struct attribute list[] = {
        LIST(VARIANT_PACK_UNIQUE_IDS, INT64, count, id),
        LIST(VARIANT_PACK_DATA_POINTERS, VOID_PTR, count, place),
        ONE(VARIANT_PACK_WORKSPACE, VOID_PTR, &workspace),
    };
    cudnnBackendDescriptor_t pack = NULL;
    bool ran = good(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), name, err) &&
               set_all(pack, list, 3, name, err) && good(cudnnBackendExecute(d->handle, d->plan, pack), name, err);
    if (pack)
        cudnnBackendDestroyDescriptor(pack);
    return ran;
}
