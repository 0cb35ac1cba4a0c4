/* As much of cuDNN's graph API as the CUDA module calls, in host memory: an interpreter of finalized descriptors.
 * Convolutions are plain loops over the dims, strides and paddings that the descriptors give, in double, so that what
 * was described is held against the reference kernels.
 *
 * Engines: of two configurations the first is marked as not deterministic and computes rubbish, the second does what
 * the graph says. None is had for uneven padding, and none for several operations where the channels are an odd number,
 * so that what the module does then is run too. */
#include "graph/dtype.h"

#include <cudnn.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTES = 8, RANK = 8, TENSORS = 8, WORKSPACE = 512 };

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

struct cudnnContext {
    cudaStream_t stream;
};

/* ---- library ---- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *to) {
    *to = calloc(1, sizeof **to);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
    return status == CUDNN_STATUS_NOT_SUPPORTED ? "not supported" : "an emulated status";
}
void cudnnGetLastErrorString(char *message, size_t size) {
    if (size)
        message[0] = 0;
}

/* ---- descriptors ---- */

static size_t bytes_of(cudnnBackendAttributeType_t type) {
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_FLOAT:
        return sizeof(float);
    case CUDNN_TYPE_INT64:
        return sizeof(int64_t);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return sizeof(void *);
    default:
        return sizeof(int); /* enums */
    }
}

static const struct attribute *find(const struct cudnnBackendDescriptor *d, cudnnBackendAttributeName_t name) {
    for (int i = 0; i < d->count; i++)
        if (d->attribute[i].name == name)
            return &d->attribute[i];
    return NULL;
}

static const int64_t *ints(const struct cudnnBackendDescriptor *d, cudnnBackendAttributeName_t name) {
    const struct attribute *a = find(d, name);
    return a ? a->values : NULL;
}

static struct cudnnBackendDescriptor *child(const struct cudnnBackendDescriptor *d, cudnnBackendAttributeName_t name) {
    const struct attribute *a = find(d, name);
    return a ? *(struct cudnnBackendDescriptor **)a->values : NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *to) {
    struct cudnnBackendDescriptor *d = calloc(1, sizeof *d);
    d->type = type;
    *to = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    struct cudnnBackendDescriptor *d = descriptor;
    for (int i = 0; i < d->count; i++)
        free(d->attribute[i].values);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    struct cudnnBackendDescriptor *d = descriptor;
    if (d->finalized || d->count == ATTRIBUTES || find(d, name) || count < 1)
        return CUDNN_STATUS_BAD_PARAM;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < count; i++)
            if (!((struct cudnnBackendDescriptor *const *)values)[i]->finalized)
                return CUDNN_STATUS_BAD_PARAM;
    struct attribute *a = &d->attribute[d->count++];
    *a = (struct attribute){ name, type, count, malloc((size_t)count * bytes_of(type)) };
    memcpy(a->values, values, (size_t)count * bytes_of(type));
    return CUDNN_STATUS_SUCCESS;
}

/* ---- what the operations of a graph are ---- */

struct tensor {
    int rank;
    const int64_t *dim, *stride;
    bool bfloat, inner;
    int64_t id;
};

static struct tensor tensor_of(const struct cudnnBackendDescriptor *d) {
    const cudnnDataType_t *type = find(d, CUDNN_ATTR_TENSOR_DATA_TYPE)->values;
    const struct attribute *inner = find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    return (struct tensor){ .rank = (int)find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->count,
                            .dim = ints(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
                            .stride = ints(d, CUDNN_ATTR_TENSOR_STRIDES),
                            .bfloat = *type == CUDNN_DATA_BFLOAT16,
                            .inner = inner && *(const bool *)inner->values,
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

static const struct names *names_of(const struct cudnnBackendDescriptor *d) {
    for (int i = 0; i < 3; i++)
        if (convolutions[i].type == d->type)
            return &convolutions[i];
    return NULL;
}

struct window {
    int axes;
    const int64_t *stride, *dilation, *before, *behind;
};

static struct window window_of(const struct cudnnBackendDescriptor *d) {
    return (struct window){ .axes = (int)*ints(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS),
                            .stride = ints(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
                            .dilation = ints(d, CUDNN_ATTR_CONVOLUTION_DILATIONS),
                            .before = ints(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                            .behind = ints(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) };
}

/* Whether the shapes are those of a convolution, as cuDNN's own check says. */
static bool is_convolution(const struct cudnnBackendDescriptor *d, const struct names *n) {
    struct tensor x = tensor_of(child(d, n->x)), w = tensor_of(child(d, n->w)), y = tensor_of(child(d, n->y));
    struct window v = window_of(child(d, n->window));
    if (x.rank != v.axes + 2 || w.rank != x.rank || y.rank != x.rank || x.dim[0] != y.dim[0] || w.dim[0] != y.dim[1] ||
        x.dim[1] % w.dim[1] || y.dim[1] % (x.dim[1] / w.dim[1]))
        return false;
    for (int a = 0; a < v.axes; a++) {
        int64_t room = x.dim[a + 2] + v.before[a] + v.behind[a] - (w.dim[a + 2] - 1) * v.dilation[a] - 1;
        if (v.before[a] < 0 || v.behind[a] < 0 || room < 0 || room / v.stride[a] + 1 != y.dim[a + 2])
            return false;
    }
    return true;
}

static bool is_even(const struct cudnnBackendDescriptor *operation) {
    const struct names *n = names_of(operation);
    struct window v = window_of(child(operation, n->window));
    for (int a = 0; a < v.axes; a++)
        if (v.before[a] != v.behind[a])
            return false;
    return true;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    struct cudnnBackendDescriptor *d = descriptor;
    const struct names *n = names_of(d);
    if (n && !is_convolution(d, n))
        return CUDNN_STATUS_BAD_PARAM;
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && !child(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG))
        return CUDNN_STATUS_BAD_PARAM;
    d->finalized = true;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- engines: a configuration holds its graph and a number under names of the real ones ---- */

static struct cudnnBackendDescriptor *const *operations(const struct cudnnBackendDescriptor *graph, int64_t *count) {
    const struct attribute *a = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    *count = a->count;
    return a->values;
}

static bool has_engine(const struct cudnnBackendDescriptor *graph) {
    int64_t count;
    struct cudnnBackendDescriptor *const *list = operations(graph, &count);
    struct tensor y = tensor_of(child(list[0], names_of(list[0])->y));
    return is_even(list[0]) && (count == 1 || y.dim[1] % 2 == 0);
}

static void fill_config(struct cudnnBackendDescriptor *config, struct cudnnBackendDescriptor *graph, int64_t number) {
    cudnnBackendSetAttribute(config, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    cudnnBackendSetAttribute(config, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
    config->finalized = true;
}

static void copy_config(struct cudnnBackendDescriptor *to, const struct cudnnBackendDescriptor *from) {
    fill_config(to, child(from, CUDNN_ATTR_ENGINE_OPERATION_GRAPH), *ints(from, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *to) {
    const struct cudnnBackendDescriptor *d = descriptor;
    (void)type;
    if (!d->finalized)
        return CUDNN_STATUS_BAD_PARAM;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        struct cudnnBackendDescriptor *graph = child(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        *count = has_engine(graph) && wanted >= 2 ? 2 : 0;
        for (int64_t i = 0; i < *count; i++)
            fill_config(((struct cudnnBackendDescriptor **)to)[i], graph, i);
    } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
        copy_config(*(struct cudnnBackendDescriptor **)to, d);
        *count = 1;
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        static const cudnnBackendNumericalNote_t notes[] = { CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP,
                                                             CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC };
        *count = *ints(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 0 ? 2 : 1;
        memcpy(to, notes, (size_t)*count * sizeof *notes);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *(int64_t *)to = WORKSPACE;
        *count = 1;
    } else {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- running ---- */

/* Where the tensors are; inner ones in fp32 of their own. */
struct places {
    const struct cudnnBackendDescriptor *pack;
    void *inner[TENSORS];
};

static int64_t span_of(const struct tensor *t) {
    int64_t last = 0;
    for (int k = 0; k < t->rank; k++)
        last += (t->dim[k] - 1) * t->stride[k];
    return last + 1;
}

static void *place(struct places *p, const struct tensor *t) {
    const struct attribute *ids = find(p->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *pointers = find(p->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if (t->inner && !p->inner[t->id])
        p->inner[t->id] = calloc((size_t)span_of(t), sizeof(float));
    if (t->inner)
        return p->inner[t->id];
    for (int64_t i = 0; i < ids->count; i++)
        if (((const int64_t *)ids->values)[i] == t->id)
            return ((void *const *)pointers->values)[i];
    return NULL;
}

static double get(const struct tensor *t, const void *data, int64_t at) {
    return zt_load_double(t->bfloat ? ZT_BFLOAT16 : ZT_FLOAT, data, at);
}
static void put(const struct tensor *t, void *data, int64_t at, double value) {
    zt_store_double(t->bfloat ? ZT_BFLOAT16 : ZT_FLOAT, data, at, value);
}

/* Splits a row-major index over dim[0..rank). */
static void split(int64_t flat, const int64_t *dim, int rank, int64_t *to) {
    for (int k = rank - 1; k >= 0; k--) {
        to[k] = flat % dim[k];
        flat /= dim[k];
    }
}
static int64_t count_of(const int64_t *dim, int rank) {
    int64_t count = 1;
    for (int k = 0; k < rank; k++)
        count *= dim[k];
    return count;
}
static int64_t offset(const struct tensor *t, const int64_t *at) {
    int64_t sum = 0;
    for (int k = 0; k < t->rank; k++)
        sum += at[k] * t->stride[k];
    return sum;
}

/* Every product of a convolution: of the three tensors the one that is computed gets the other two's. */
static void convolve(const struct cudnnBackendDescriptor *d, const struct names *n, struct places *p) {
    const struct tensor t[3] = { tensor_of(child(d, n->x)), tensor_of(child(d, n->w)), tensor_of(child(d, n->y)) };
    const int result = n == &convolutions[0] ? 2 : n == &convolutions[1] ? 0 : 1;
    const int left = result == 0 ? 1 : 0, right = result == 2 ? 1 : 2;
    struct window v = window_of(child(d, n->window));
    void *data[3] = { place(p, &t[0]), place(p, &t[1]), place(p, &t[2]) };
    double *sum = calloc((size_t)span_of(&t[result]), sizeof *sum);
    int64_t filters = t[1].dim[0] / (t[0].dim[1] / t[1].dim[1]), y[RANK], w[RANK], x[RANK], at[3];
    for (int64_t i = 0; i < count_of(t[2].dim, t[2].rank); i++) {
        split(i, t[2].dim, t[2].rank, y);
        for (int64_t j = 0; j < count_of(t[1].dim + 1, t[1].rank - 1); j++) {
            w[0] = y[1];
            split(j, t[1].dim + 1, t[1].rank - 1, w + 1);
            x[0] = y[0];
            x[1] = y[1] / filters * t[1].dim[1] + w[1];
            bool inside = true;
            for (int a = 0; a < v.axes; a++) {
                x[a + 2] = y[a + 2] * v.stride[a] - v.before[a] + w[a + 2] * v.dilation[a];
                inside &= x[a + 2] >= 0 && x[a + 2] < t[0].dim[a + 2];
            }
            if (!inside)
                continue;
            at[0] = offset(&t[0], x), at[1] = offset(&t[1], w), at[2] = offset(&t[2], y);
            sum[at[result]] += get(&t[left], data[left], at[left]) * get(&t[right], data[right], at[right]);
        }
    }
    for (int64_t i = 0; i < count_of(t[result].dim, t[result].rank); i++) {
        int64_t index[RANK];
        split(i, t[result].dim, t[result].rank, index);
        put(&t[result], data[result], offset(&t[result], index), sum[offset(&t[result], index)]);
    }
    free(sum);
}

/* y = x + b */
static void add(const struct cudnnBackendDescriptor *d, struct places *p) {
    struct tensor x = tensor_of(child(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    struct tensor b = tensor_of(child(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    struct tensor y = tensor_of(child(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    const void *left = place(p, &x), *right = place(p, &b);
    void *to = place(p, &y);
    for (int64_t i = 0; i < count_of(y.dim, y.rank); i++) {
        int64_t at[RANK], stretched[RANK];
        split(i, y.dim, y.rank, at);
        for (int k = 0; k < y.rank; k++)
            stretched[k] = b.dim[k] == 1 ? 0 : at[k];
        put(&y, to, offset(&y, at), get(&x, left, offset(&x, at)) + get(&b, right, offset(&b, stretched)));
    }
}

static bool is_placed(const struct cudnnBackendDescriptor *pack) {
    const struct attribute *pointers = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (int64_t i = 0; i < pointers->count; i++)
        if ((uintptr_t)((void *const *)pointers->values)[i] % 16)
            return false;
    return true;
}

bool emulated_captures(void); /* emulated.c */
void emulated_breaks(void);

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    if (emulated_captures()) {
        emulated_breaks();
        return CUDNN_STATUS_SUCCESS;
    }
    const struct cudnnBackendDescriptor *config =
        child((struct cudnnBackendDescriptor *)plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    struct places p = { .pack = pack };
    int64_t count;
    struct cudnnBackendDescriptor *const *list = operations(child(config, CUDNN_ATTR_ENGINE_OPERATION_GRAPH), &count);
    if (!handle->stream || !((struct cudnnBackendDescriptor *)pack)->finalized || !is_placed(pack) ||
        *ints(config, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 0)
        return CUDNN_STATUS_BAD_PARAM;
    memset(*(void **)find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->values, 0xff, WORKSPACE);
    for (int64_t i = 0; i < count; i++)
        if (names_of(list[i]))
            convolve(list[i], names_of(list[i]), &p);
        else
            add(list[i], &p);
    for (int i = 0; i < TENSORS; i++)
        free(p.inner[i]);
    return CUDNN_STATUS_SUCCESS;
}
