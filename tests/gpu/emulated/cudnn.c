/* As much of cuDNN's graph API as the CUDA module calls, in host memory: an interpreter of finalized descriptors
 * (cudnn_run.c does what they say).
 *
 * Engines: of two configurations the first is marked as not deterministic and refused where it is run, the second does
 * what the graph says; that of a pool's gradient is marked as one with tensor cores. Tensors of a convolution are all
 * plain or all channels last. None is had for uneven padding, none for channels last where x has five channels, none
 * for several operations where the channels are an odd number, or rows of a product in memory are no multiple of 8,
 * none for a normalisation of 37 scales, or behind others of scales that are no multiple of 8 or not innermost, and
 * none for a pool of nine channels, so that what the module does then is run too. */
#include "tests/gpu/emulated/cudnn_descriptor.h"
#include "tests/gpu/emulated/runtime.h"

#include <string.h>

enum { WORKSPACE = 512 };

struct cudnnContext {
    cudaStream_t stream;
};

/* ---- library ---- */

size_t cudnnGetVersion(void) {
    return CUDNN_VERSION;
}
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

/* Whether scale and statistics are as many as x wants, and bias and mean are there where the mean is taken off. */
static bool is_normalisation(const struct cudnnBackendDescriptor *d, const struct norm *n) {
    const cudnnBackendNormMode_t mode = *(const cudnnBackendNormMode_t *)find(d, n->mode)->values;
    const struct tensor x = tensor_of(child(d, n->tensor[NORM_X])), scale = tensor_of(child(d, n->tensor[NORM_SCALE])),
                        inv_std = tensor_of(child(d, n->tensor[NORM_INV_STD]));
    const bool centred = mode != CUDNN_RMS_NORM;
    return (find(d, n->tensor[NORM_BIAS]) != NULL) == centred && (find(d, n->tensor[NORM_MEAN]) != NULL) == centred &&
           scale.dim[0] == 1 && scale.dim[1] == x.dim[1] &&
           inv_std.dim[0] == (mode == CUDNN_BATCH_NORM ? 1 : x.dim[0]) &&
           inv_std.dim[1] == (mode == CUDNN_INSTANCE_NORM || mode == CUDNN_BATCH_NORM ? x.dim[1] : 1);
}

/* Whether y is what the windows of x give, each of which covers some of x; and maxima have no gradient without places.
 */
static bool is_pool(const struct cudnnBackendDescriptor *d, const struct pool *n) {
    const struct tensor x = tensor_of(child(d, n->x)), y = tensor_of(child(d, n->y));
    const struct pool_window v = pool_window_of(child(d, n->window));
    if (x.rank != v.axes + 2 || y.rank != x.rank || x.dim[0] != y.dim[0] || x.dim[1] != y.dim[1])
        return false;
    for (int a = 0; a < v.axes; a++) {
        const int64_t room = x.dim[a + 2] + v.before[a] + v.behind[a] - v.kernel[a];
        if (v.before[a] < 0 || v.before[a] >= v.kernel[a] || v.behind[a] < 0 || room < 0 ||
            room / v.stride[a] + 1 != y.dim[a + 2])
            return false;
    }
    return n == &pools[0] || v.mode != CUDNN_RESAMPLE_MAXPOOL;
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
    if ((n && !is_convolution(d, n)) || (norm_of(d) && !is_normalisation(d, norm_of(d))) ||
        (pool_of(d) && !is_pool(d, pool_of(d))))
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

static bool is_whole(const struct tensor *t) {
    for (int k = 2; k < t->rank; k++)
        if (t->stride[k] == 1 && t->dim[k] % 8 == 0)
            return true;
    return t->inner;
}

static bool has_product_engine(struct cudnnBackendDescriptor *const *list, int64_t count) {
    struct tensor t[ATTRIBUTES];
    bool whole = true;
    for (int64_t i = 0; i < count; i++)
        for (int k = tensors_of(list[i], t) - 1; list[i]->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR && k >= 0;
             k--)
            whole &= is_whole(&t[k]);
    return whole;
}

/* Whether the elements lie without gaps, channels innermost (last) or row-major. */
static bool is_packed(const struct tensor *t, bool last) {
    int64_t step = last ? t->dim[1] : 1;
    bool packed = !last || t->dim[1] == 1 || t->stride[1] == 1;
    for (int k = t->rank - 1; k >= 0; k--)
        if (!last || k != 1) {
            packed &= t->dim[k] == 1 || t->stride[k] == step;
            step *= t->dim[k];
        }
    return packed;
}

static bool are_packed(const struct cudnnBackendDescriptor *operation, bool last) {
    const struct names *n = names_of(operation);
    const struct tensor x = tensor_of(child(operation, n->x)), w = tensor_of(child(operation, n->w)),
                        y = tensor_of(child(operation, n->y));
    return is_packed(&x, last) && is_packed(&w, last) && is_packed(&y, last);
}

static bool has_pool_engine(const struct cudnnBackendDescriptor *d, const struct pool *n) {
    const struct tensor x = tensor_of(child(d, n->x)), y = tensor_of(child(d, n->y));
    const bool plain = is_packed(&x, false) && is_packed(&y, false), last = is_packed(&x, true) && is_packed(&y, true);
    return (plain || last) && x.dim[1] != 9;
}

/* As cuDNN's own: with more than the normalisation where channels are innermost and a multiple of 8. */
static bool has_norm_engine(const struct cudnnBackendDescriptor *d, int64_t count) {
    const struct norm *n = norm_of(d);
    const struct tensor x = tensor_of(child(d, n->tensor[NORM_X]));
    const int64_t scales = tensor_of(child(d, n->tensor[NORM_SCALE])).dim[1];
    return scales != 37 && (count == 1 || (scales % 8 == 0 && is_packed(&x, true)));
}

static bool has_engine(const struct cudnnBackendDescriptor *graph) {
    int64_t count;
    struct cudnnBackendDescriptor *const *list = operations(graph, &count);
    if (norm_of(list[count - 1]))
        return has_norm_engine(list[count - 1], count);
    if (pool_of(list[0]))
        return has_pool_engine(list[0], pool_of(list[0]));
    if (!names_of(list[0]))
        return has_product_engine(list, count);
    struct tensor x = tensor_of(child(list[0], names_of(list[0])->x)),
                  y = tensor_of(child(list[0], names_of(list[0])->y));
    const bool plain = are_packed(list[0], false), last = are_packed(list[0], true) && x.dim[1] != 5;
    return (plain || last) && is_even(list[0]) && (count == 1 || y.dim[1] % 2 == 0);
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
    } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
        *(int64_t *)to = *ints(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
        *count = 1;
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        const struct cudnnBackendDescriptor *first = *operations(child(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH), count);
        const cudnnBackendNumericalNote_t notes[] = { CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP,
                                                      *ints(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 0
                                                          ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
                                                          : CUDNN_NUMERICAL_NOTE_TENSOR_CORE };
        *count = notes[1] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || pool_of(first) == &pools[1] ? 2 : 1;
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

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    if (emulated_captures()) {
        emulated_breaks();
        return CUDNN_STATUS_SUCCESS;
    }
    const struct cudnnBackendDescriptor *config =
        child((struct cudnnBackendDescriptor *)plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    int64_t count;
    struct cudnnBackendDescriptor *const *list = operations(child(config, CUDNN_ATTR_ENGINE_OPERATION_GRAPH), &count);
    if (!handle->stream || !((struct cudnnBackendDescriptor *)pack)->finalized ||
        *ints(config, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 0)
        return CUDNN_STATUS_BAD_PARAM;
    if (!emulated_does())
        return CUDNN_STATUS_SUCCESS;
    memset(*(void **)find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->values, 0xff, WORKSPACE);
    return emulated_dnn_run(list, count, pack) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
