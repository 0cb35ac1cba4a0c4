#include "ops/kernel/element_blocks.h"

#include "ops/kernel/merge_axes.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* One loop per type, with a case of its own for stride 1, which the compiler vectorizes. Macros, as TYPE is a type and
 * VALUE an expression. */
#define LOAD(TYPE, VALUE)                                                                                              \
    do {                                                                                                               \
        const TYPE *p = (const TYPE *)data + offset;                                                                   \
        if (stride == 1)                                                                                               \
            for (int64_t i = 0; i < count; i++) {                                                                      \
                const TYPE x = p[i];                                                                                   \
                to[i] = VALUE;                                                                                         \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < count; i++) {                                                                      \
                const TYPE x = p[i * stride];                                                                          \
                to[i] = VALUE;                                                                                         \
            }                                                                                                          \
    } while (0)
#define STORE(TYPE, VALUE)                                                                                             \
    do {                                                                                                               \
        TYPE *p = (TYPE *)data + offset;                                                                               \
        if (stride == 1)                                                                                               \
            for (int64_t i = 0; i < count; i++)                                                                        \
                p[i] = (TYPE)(VALUE);                                                                                  \
        else                                                                                                           \
            for (int64_t i = 0; i < count; i++)                                                                        \
                p[i * stride] = (TYPE)(VALUE);                                                                         \
    } while (0)

void zt_load_block(enum zt_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t count, double *to) {
    switch (dtype) {
    case ZT_FLOAT:
        LOAD(float, (double)x);
        break;
    case ZT_DOUBLE:
        LOAD(double, x);
        break;
    case ZT_BFLOAT16:
        LOAD(uint16_t, (double)zt_bfloat_to_float(x));
        break;
    case ZT_INT32:
        LOAD(int32_t, (double)x);
        break;
    case ZT_INT64:
        LOAD(int64_t, (double)x);
        break;
    case ZT_BOOL:
    case ZT_UINT8:
        LOAD(uint8_t, (double)x);
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            to[i] = zt_load_double(dtype, data, offset + i * stride);
    }
}

void zt_store_block(enum zt_dtype dtype, void *data, int64_t offset, int64_t stride, int64_t count,
                    const double *from) {
    switch (dtype) {
    case ZT_FLOAT:
        STORE(float, from[i]);
        break;
    case ZT_DOUBLE:
        STORE(double, from[i]);
        break;
    case ZT_BOOL:
        STORE(uint8_t, from[i] != 0);
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            zt_store_double(dtype, data, offset + i * stride, from[i]);
    }
}

void zt_load_block_int(enum zt_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t count,
                       int64_t *to) {
    switch (dtype) {
    case ZT_BOOL:
    case ZT_UINT8:
        LOAD(uint8_t, x);
        break;
    case ZT_INT8:
        LOAD(int8_t, x);
        break;
    case ZT_UINT16:
        LOAD(uint16_t, x);
        break;
    case ZT_INT16:
        LOAD(int16_t, x);
        break;
    case ZT_UINT32:
        LOAD(uint32_t, x);
        break;
    case ZT_INT32:
        LOAD(int32_t, x);
        break;
    case ZT_INT64:
    case ZT_UINT64:
        LOAD(int64_t, x);
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            to[i] = zt_load_int(dtype, data, offset + i * stride);
    }
}

void zt_store_block_int(enum zt_dtype dtype, void *data, int64_t offset, int64_t stride, int64_t count,
                        const int64_t *from) {
    switch (zt_dtype_in(dtype, ZT_ANY_INT) ? (int)zt_dtype_bytes(dtype) : dtype == ZT_BOOL ? 0 : -1) {
    case 0:
        STORE(uint8_t, from[i] != 0);
        break;
    case 1:
        STORE(uint8_t, from[i]);
        break;
    case 2:
        STORE(uint16_t, from[i]);
        break;
    case 4:
        STORE(uint32_t, from[i]);
        break;
    case 8:
        STORE(int64_t, from[i]);
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            zt_store_int(dtype, data, offset + i * stride, from[i]);
    }
}

void zt_walk_start(struct zt_walk *w, const struct zt_shape *shape, int tensors) {
    memset(w, 0, sizeof *w);
    w->shape = *shape;
    w->tensors = tensors;
    w->limit = ZT_ELEMENT_BLOCK;
    if (w->shape.rank == 0) { /* a scalar is walked as one element of a vector */
        w->shape.rank = 1;
        w->shape.dim[0] = 1;
    }
    w->left = zt_shape_count(&w->shape);
}

void zt_walk_strides(struct zt_walk *w, int tensor, const struct zt_shape *of) {
    zt_broadcast_steps(&w->shape, of, w->step[tensor]);
}

void zt_walk_merge(struct zt_walk *w) {
    int64_t *step[4];
    for (int t = 0; t < w->tensors; t++)
        step[t] = w->step[t];
    w->shape.rank = zt_merge_axes(w->shape.rank, w->shape.dim, w->tensors, step);
    if (w->shape.rank > 0)
        return;
    w->shape.rank = 1;
    w->shape.dim[0] = 1;
}

void zt_walk_part(struct zt_walk *w, int64_t first, int64_t count) {
    w->left = count;
    for (int k = w->shape.rank - 1; k >= 0; k--) {
        w->index[k] = w->shape.dim[k] ? first % w->shape.dim[k] : 0;
        first /= w->shape.dim[k] ? w->shape.dim[k] : 1;
    }
}

bool zt_walk_next(struct zt_walk *w) {
    int last = w->shape.rank - 1;
    if (w->count > 0) { /* advance past the last block, with a carry into the outer axes */
        w->left -= w->count;
        w->index[last] += w->count;
        for (int k = last; k > 0 && w->index[k] == w->shape.dim[k]; k--) {
            w->index[k] = 0;
            w->index[k - 1]++;
        }
    }
    if (w->left <= 0)
        return false;
    int64_t rest = w->shape.dim[last] - w->index[last];
    w->count = rest < w->limit ? rest : w->limit;
    w->count = w->count < w->left ? w->count : w->left;
    for (int t = 0; t < w->tensors; t++) {
        w->stride[t] = w->step[t][last];
        w->offset[t] = 0;
        for (int k = 0; k <= last; k++)
            w->offset[t] += w->index[k] * w->step[t][k];
    }
    return true;
}
