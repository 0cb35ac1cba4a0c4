/* Resize and its gradient: a thread computes an element of the result, a sum over the product of the axes' maps
 * (ops/resample/resize.h). */
#include "ops/resample/launch_resize.h"
#include "ops/cuda/types.cuh"

/* The taps of element i: first, end and current tap of each axis. False where an axis has none: the element is
 * outside. */
struct taps {
    int32_t first[ZT_MAX_RANK], end[ZT_MAX_RANK], at[ZT_MAX_RANK];
};

static __device__ bool start(const struct zt_launch_resize &r, int64_t i, struct taps *t) {
    bool inside = true;
    for (int k = r.rank - 1; k >= 0; k--) {
        int64_t o = i % r.to[k];
        i /= r.to[k];
        t->first[k] = t->at[k] = r.begin[k][o];
        t->end[k] = r.begin[k][o + 1];
        inside &= t->first[k] < t->end[k];
    }
    return inside;
}

static __device__ bool next(const struct zt_launch_resize &r, struct taps *t) {
    for (int k = r.rank - 1; k >= 0; k--) {
        if (++t->at[k] < t->end[k])
            return true;
        t->at[k] = t->first[k];
    }
    return false;
}

template <class T> static __global__ void resize_kernel(struct zt_launch_resize r, int64_t count, const T *x, T *y) {
    EACH(i, count) {
        struct taps t;
        float sum = r.fill;
        if (start(r, i, &t)) {
            sum = 0;
            do {
                int64_t from = 0;
                float weight = 1;
                for (int k = 0; k < r.rank; k++) {
                    from = from * r.from[k] + r.index[k][t.at[k]];
                    weight *= r.weight[k][t.at[k]];
                }
                sum += weight * to_float(x[from]);
            } while (next(r, &t));
        }
        y[i] = from_float<T>(sum);
    }
}

int zt_launch_resize(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_resize *r, const void *x,
                     void *y) {
    int64_t count = 1;
    for (int k = 0; k < r->rank; k++)
        count *= r->to[k];
    WITH_TYPE(dtype, count,
              (resize_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*r, count, (const T *)x, (T *)y)));
}
