/* MaxUnpool and its gradient (ops/pool/max_unpool.c): a thread an element. Of the elements that an index sends to one
 * place the last counts; an integer maximum finds it. */
#include "ops/pool/launch_max_unpool.h"
#include "ops/cuda/types.cuh"

/* Offset in y of element `flat` of the pooled shape; -1: outside. */
static __device__ int64_t place_of(const struct zt_launch_unpool &u, int64_t flat) {
    return flat < 0 || flat >= u.inner_elems ? -1 : walked(u.axes, u.inner, u.step, flat);
}

static __global__ void last_kernel(struct zt_launch_unpool u, const int64_t *index, int32_t *last) {
    EACH(i, u.elems) {
        const int64_t at = place_of(u, index[i]);
        if (at >= 0)
            atomicMax(&last[at], (int32_t)i + 1);
    }
}

template <class T>
static __global__ void unpool_kernel(struct zt_launch_unpool u, const int32_t *last, const T *x, T *y) {
    EACH(i, u.whole_elems) {
        y[i] = last[i] > 0 ? x[last[i] - 1] : T{};
    }
}

template <class T>
static __global__ void unpool_grad_kernel(struct zt_launch_unpool u, const int64_t *index, const T *dy, T *dx) {
    EACH(i, u.elems) {
        const int64_t at = place_of(u, index[i]);
        dx[i] = at < 0 ? T{} : dy[at];
    }
}

int zt_launch_unpool(cudaStream_t stream, const struct zt_launch_unpool *u, struct zt_launch_tensor x,
                     const int64_t *index, void *y, int32_t *last) {
    if (u->elems > 0)
        last_kernel<<<blocks_for(u->elems), BLOCK, 0, stream>>>(*u, index, last);
    WITH_BYTES(
        bytes_of(x.dtype), u->whole_elems,
        (unpool_kernel<T><<<blocks_for(u->whole_elems), BLOCK, 0, stream>>>(*u, last, (const T *)x.data, (T *)y)));
}

int zt_launch_unpool_grad(cudaStream_t stream, const struct zt_launch_unpool *u, struct zt_launch_tensor dy,
                          const int64_t *index, void *dx) {
    WITH_BYTES(
        bytes_of(dy.dtype), u->elems,
        (unpool_grad_kernel<T><<<blocks_for(u->elems), BLOCK, 0, stream>>>(*u, index, (const T *)dy.data, (T *)dx)));
}
