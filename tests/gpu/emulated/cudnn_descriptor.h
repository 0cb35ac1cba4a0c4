/* Descriptors of the emulated cuDNN as they are kept, and what an operation says of its tensors: cudnn.c makes
 * them, cudnn_run.c does what they describe. */
#ifndef ZT_TESTS_GPU_EMULATED_CUDNN_DESCRIPTOR_H
#define ZT_TESTS_GPU_EMULATED_CUDNN_DESCRIPTOR_H

#include "graph/ir/dtype.h"

#include <cudnn.h>

#include <stdbool.h>
#include <stdlib.h>

enum { ATTRIBUTES = 10 };

struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    void *values;
};

struct cudnnBackendDescriptor {
    cudnnBackendDescriptorType_t type;
    bool finalized;
    int count;
    struct attribute attribute[ATTRIBUTES];
};

static inline const struct attribute *find(const struct cudnnBackendDescriptor *d, cudnnBackendAttributeName_t name) {
    for (int i = 0; i < d->count; i++)
        if (d->attribute[i].name == name)
            return &d->attribute[i];
    return NULL;
}

static inline const int64_t *ints(const struct cudnnBackendDescriptor *d, cudnnBackendAttributeName_t name) {
    const struct attribute *a = find(d, name);
    return a ? a->values : NULL;
}

static inline struct cudnnBackendDescriptor *child(const struct cudnnBackendDescriptor *d,
                                                   cudnnBackendAttributeName_t name) {
    const struct attribute *a = find(d, name);
    return a ? *(struct cudnnBackendDescriptor **)a->values : NULL;
}

/* ---- what the operations of a graph are ---- */

struct tensor {
    int rank;
    const int64_t *dim, *stride;
    bool inner, number; /* number: the place is the host's, and read at once */
    enum zt_dtype dtype;
    int64_t id;
};

static inline bool is_set(const struct cudnnBackendDescriptor *d, cudnnBackendAttributeName_t name) {
    const struct attribute *a = find(d, name);
    return a && *(const bool *)a->values;
}

static inline struct tensor tensor_of(const struct cudnnBackendDescriptor *d) {
    const cudnnDataType_t *type = find(d, CUDNN_ATTR_TENSOR_DATA_TYPE)->values;
    return (struct tensor){ .rank = (int)find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->count,
                            .dim = ints(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
                            .stride = ints(d, CUDNN_ATTR_TENSOR_STRIDES),
                            .dtype = *type == CUDNN_DATA_BFLOAT16  ? ZT_BFLOAT16
                                     : *type == CUDNN_DATA_HALF    ? ZT_FLOAT16
                                     : *type == CUDNN_DATA_INT32   ? ZT_INT32
                                     : *type == CUDNN_DATA_BOOLEAN ? ZT_BOOL
                                                                   : ZT_FLOAT,
                            .inner = is_set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL),
                            .number = is_set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE),
                            .id = *ints(d, CUDNN_ATTR_TENSOR_UNIQUE_ID) };
}

/* Attributes of the three tensors of a convolution and of its window. */
struct names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, window;
};
static const struct names convolutions[] = {
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC },
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC },
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC },
};

static inline const struct names *names_of(const struct cudnnBackendDescriptor *d) {
    for (int i = 0; i < 3; i++)
        if (convolutions[i].type == d->type)
            return &convolutions[i];
    return NULL;
}

/* Attributes of a normalisation, forward and backward; 0: that way has none such. */
enum norm_tensor {
    NORM_X,
    NORM_SCALE,
    NORM_MEAN,
    NORM_INV_STD,
    NORM_BIAS,
    NORM_EPSILON,
    NORM_Y,
    NORM_DSCALE,
    NORM_TENSORS
};
struct norm {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t mode, tensor[NORM_TENSORS]; /* backward: dbias is BIAS, dx is Y, dy is EPSILON */
};
static const struct norm norms[] = {
    { CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_NORM_FWD_MODE,
      { CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_YDESC } },
    { CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_NORM_BWD_MODE,
      { CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC } },
};

static inline const struct norm *norm_of(const struct cudnnBackendDescriptor *d) {
    return d->type == norms[0].type ? &norms[0] : d->type == norms[1].type ? &norms[1] : NULL;
}

struct window {
    int axes;
    const int64_t *stride, *dilation, *before, *behind;
};

static inline struct window window_of(const struct cudnnBackendDescriptor *d) {
    return (struct window){ .axes = (int)*ints(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS),
                            .stride = ints(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
                            .dilation = ints(d, CUDNN_ATTR_CONVOLUTION_DILATIONS),
                            .before = ints(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                            .behind = ints(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) };
}

/* Attributes of a pool, forward and backward, whose x and y are gradients. */
struct pool {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, y, window;
};
static const struct pool pools[] = {
    { CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC,
      CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC },
    { CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC,
      CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC },
};

static inline const struct pool *pool_of(const struct cudnnBackendDescriptor *d) {
    return d->type == pools[0].type ? &pools[0] : d->type == pools[1].type ? &pools[1] : NULL;
}

struct pool_window {
    cudnnResampleMode_t mode;
    int axes;
    const int64_t *kernel, *stride, *before, *behind;
};

static inline struct pool_window pool_window_of(const struct cudnnBackendDescriptor *d) {
    return (struct pool_window){ .mode = *(const cudnnResampleMode_t *)find(d, CUDNN_ATTR_RESAMPLE_MODE)->values,
                                 .axes = (int)*ints(d, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS),
                                 .kernel = ints(d, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS),
                                 .stride = ints(d, CUDNN_ATTR_RESAMPLE_STRIDES),
                                 .before = ints(d, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS),
                                 .behind = ints(d, CUDNN_ATTR_RESAMPLE_POST_PADDINGS) };
}

/* The tensors of an operation, as many as are given; `room` for ATTRIBUTES. */
static inline int tensors_of(const struct cudnnBackendDescriptor *operation, struct tensor *room) {
    int count = 0;
    for (int i = 0; i < operation->count; i++) {
        const struct attribute *a = &operation->attribute[i];
        const struct cudnnBackendDescriptor *d =
            a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? *(struct cudnnBackendDescriptor **)a->values : NULL;
        if (d && d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
            room[count++] = tensor_of(d);
    }
    return count;
}

/* Does the operations in order with the tensors where the variant pack says. False where one in memory has no place, or
 * one of the device lies at no multiple of 16. */
bool emulated_dnn_run(struct cudnnBackendDescriptor *const *list, int64_t count,
                      const struct cudnnBackendDescriptor *pack);

#endif
