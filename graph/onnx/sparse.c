/* SparseTensorProto: the elements that are not zero, and where they are: `indices` has for each its number in row-major
 * order, or (of two axes) its place along every axis, in ascending order. */
#include "graph/onnx/file.h"

#include <inttypes.h>
#include <string.h>

static bool read_dims(const struct zt_onnx_file *file, const Onnx__SparseTensorProto *t, struct zt_shape *shape,
                      struct zt_err *err) {
    if (t->n_dims < 1 || t->n_dims > ZT_MAX_RANK)
        return zt_fail(err, file->code, "has %zu dims, wants 1 to %d", t->n_dims, ZT_MAX_RANK);
    shape->rank = (int)t->n_dims;
    for (int i = 0; i < shape->rank; i++) {
        shape->dim[i] = t->dims[i];
        if (t->dims[i] < 1)
            return zt_fail(err, file->code, "dim %d is %" PRId64 ", wants 1 or more", i, t->dims[i]);
    }
    return true;
}

/* Both tensors: values of a type that takes whole bytes, and indices that fit them. */
static bool check_parts(const struct zt_onnx_file *file, const struct zt_tensor *values,
                        const struct zt_tensor *indices, int rank, struct zt_err *err) {
    const struct zt_shape *at = &indices->shape;
    if (values->shape.rank != 1 || zt_dtype_bits(values->dtype) < 8 || !zt_dtype_bytes(values->dtype))
        return zt_fail(err, file->code, "wants a vector of values, and a type of 8 bits or more");
    const int64_t count = values->shape.dim[0];
    if (indices->dtype != ZT_INT64 || at->rank < 1 || at->rank > 2 || at->dim[0] != count ||
        (at->rank == 2 && at->dim[1] != rank)) {
        char text[ZT_SHAPE_TEXT];
        return zt_fail(err, file->code, "has %s indices of shape %s, wants int64 of [%" PRId64 "] or [%" PRId64 ", %d]",
                       zt_dtype_name(indices->dtype), zt_shape_text(at, text), count, count, rank);
    }
    return count == 0 || (values->data && indices->data) ||
           zt_fail(err, file->code, "a sparse tensor needs its external data");
}

/* The row-major number of element `i`, -1: outside of the shape. */
static int64_t place(const struct zt_tensor *indices, int64_t i, const struct zt_shape *shape) {
    if (indices->shape.rank == 1) {
        const int64_t at = zt_load_int(ZT_INT64, indices->data, i);
        return at >= 0 && at < zt_shape_count(shape) ? at : -1;
    }
    int64_t number = 0;
    for (int k = 0; k < shape->rank; k++) {
        const int64_t at = zt_load_int(ZT_INT64, indices->data, i * shape->rank + k);
        if (at < 0 || at >= shape->dim[k])
            return -1;
        number = number * shape->dim[k] + at;
    }
    return number;
}

static bool write_out(struct zt_onnx_file *file, const struct zt_tensor *values, const struct zt_tensor *indices,
                      struct zt_tensor *tensor, struct zt_err *err) {
    const size_t width = zt_dtype_bytes(tensor->dtype);
    const int64_t count = zt_shape_count(&tensor->shape);
    char text[ZT_SHAPE_TEXT];
    if (count > (int64_t)(ZT_ONNX_MEMORY / width) || file->written_out + (uint64_t)count * width > ZT_ONNX_MEMORY)
        return zt_fail(err, file->code, "takes more than %" PRIu64 " MiB, written out as %s",
                       (uint64_t)(ZT_ONNX_MEMORY >> 20), zt_shape_text(&tensor->shape, text));
    file->written_out += (uint64_t)count * width;
    char *to = zt_arena_alloc(file->arena, (size_t)count * width);
    for (int64_t i = 0, last = -1; i < values->shape.dim[0]; i++) {
        const int64_t at = place(indices, i, &tensor->shape);
        if (at <= last)
            return zt_fail(err, file->code, "index %" PRId64 " is %s", i,
                           at < 0 ? "outside of its dims" : "not behind the one before it");
        memcpy(to + (size_t)at * width, (const char *)values->data + (size_t)i * width, width);
        last = at;
    }
    tensor->data = to;
    return true;
}

static bool read_sparse(struct zt_onnx_file *file, int message, const Onnx__SparseTensorProto *t,
                        struct zt_tensor *tensor, struct zt_err *err) {
    struct zt_tensor values, indices;
    if (!t->values || !t->indices)
        return zt_fail(err, file->code, "has no %s", t->values ? "indices" : "values");
    const int of_values = zt_onnx_child(&file->scan, message, ZT_SPARSE_VALUES),
              of_indices = zt_onnx_child(&file->scan, message, ZT_SPARSE_INDICES);
    if (!read_dims(file, t, &tensor->shape, err) ||
        !zt_onnx_tensor(file, of_values, t->values, "values", &values, err) ||
        !zt_onnx_tensor(file, of_indices, t->indices, "indices", &indices, err) ||
        !check_parts(file, &values, &indices, tensor->shape.rank, err))
        return false;
    tensor->dtype = values.dtype;
    return write_out(file, &values, &indices, tensor, err);
}

bool zt_onnx_sparse(struct zt_onnx_file *file, int message, const Onnx__SparseTensorProto *t, const char *where,
                    struct zt_tensor *tensor, struct zt_err *err) {
    const int first = err->count;
    *tensor = (struct zt_tensor){ 0 };
    return read_sparse(file, message, t, tensor, err) || zt_err_within(err, first, "%s", where);
}
