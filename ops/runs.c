#include "ops/runs.h"

#include <string.h>

#define EACH for (int64_t i = 0; i < count; i++)

void zt_load_run(enum zt_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t count, double *to) {
    if (dtype == ZT_FLOAT) {
        const float *p = (const float *)data + offset;
        EACH to[i] = p[i * stride];
    } else if (dtype == ZT_DOUBLE) {
        const double *p = (const double *)data + offset;
        EACH to[i] = p[i * stride];
    } else if (dtype == ZT_BFLOAT16) {
        const uint16_t *p = (const uint16_t *)data + offset;
        EACH to[i] = zt_bfloat_to_float(p[i * stride]);
    } else {
        EACH to[i] = zt_load_double(dtype, data, offset + i * stride);
    }
}

void zt_store_run(enum zt_dtype dtype, void *data, int64_t offset, int64_t stride, int64_t count, const double *from) {
    if (dtype == ZT_FLOAT) {
        float *p = (float *)data + offset;
        EACH p[i * stride] = (float)from[i];
    } else if (dtype == ZT_DOUBLE) {
        double *p = (double *)data + offset;
        EACH p[i * stride] = from[i];
    } else {
        EACH zt_store_double(dtype, data, offset + i * stride, from[i]);
    }
}

void zt_load_run_int(enum zt_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t count,
                     int64_t *to) {
    EACH to[i] = zt_load_int(dtype, data, offset + i * stride);
}

void zt_store_run_int(enum zt_dtype dtype, void *data, int64_t offset, int64_t stride, int64_t count,
                      const int64_t *from) {
    EACH zt_store_int(dtype, data, offset + i * stride, from[i]);
}

void zt_walk_start(struct zt_walk *w, const struct zt_shape *shape, int tensors) {
    memset(w, 0, sizeof *w);
    w->shape = *shape;
    w->tensors = tensors;
    w->limit = ZT_RUN;
    if (w->shape.rank == 0) { /* a scalar is walked as one element of a vector */
        w->shape.rank = 1;
        w->shape.dim[0] = 1;
    }
    w->left = zt_shape_count(&w->shape);
}

void zt_walk_strides(struct zt_walk *w, int tensor, const struct zt_shape *of) {
    int64_t stride[ZT_MAX_RANK];
    zt_shape_strides(of, stride);
    for (int i = of->rank - 1, k = w->shape.rank - 1; i >= 0 && k >= 0; i--, k--)
        w->step[tensor][k] = of->dim[i] == 1 ? 0 : stride[i];
}

bool zt_walk_next(struct zt_walk *w) {
    int last = w->shape.rank - 1;
    if (w->count > 0) { /* step over the run just done, carrying into the outer axes */
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
    for (int t = 0; t < w->tensors; t++) {
        w->stride[t] = w->step[t][last];
        w->offset[t] = 0;
        for (int k = 0; k <= last; k++)
            w->offset[t] += w->index[k] * w->step[t][k];
    }
    return true;
}
