#include "ops/cuda/broadcast_cuda.h"

#include "ops/kernel/merge_axes.h"

#include <string.h>

struct zt_launch_strided_copy zt_strided_copy_cuda(int axes, const int64_t *dim, const int64_t *from,
                                                   const int64_t *to) {
    struct zt_launch_strided_copy m = { 0 };
    memcpy(m.dim, dim, (size_t)axes * sizeof *dim);
    memcpy(m.from_step, from, (size_t)axes * sizeof *from);
    memcpy(m.to_step, to, (size_t)axes * sizeof *to);
    m.axes = zt_merge_axes(axes, m.dim, 2, (int64_t *[]){ m.from_step, m.to_step });
    return m;
}

void zt_steps_cuda(const struct zt_shape *y, const struct zt_shape *of, const int64_t *own, int64_t step[ZT_MAX_RANK]) {
    for (int k = 0; k < y->rank; k++) {
        const int from = k - (y->rank - of->rank);
        step[k] = from < 0 || of->dim[from] == 1 ? 0 : own[from];
    }
}

struct zt_launch_walk zt_walk_cuda(const struct zt_shape *y, const struct zt_shape *a, const struct zt_shape *b) {
    struct zt_launch_walk w = { .rank = 0 };
    int64_t own[ZT_MAX_RANK];
    memcpy(w.dim, y->dim, sizeof w.dim);
    zt_shape_strides(a, own);
    zt_steps_cuda(y, a, own, w.a);
    zt_shape_strides(b, own);
    zt_steps_cuda(y, b, own, w.b);
    w.rank = zt_merge_axes(y->rank, w.dim, 2, (int64_t *[]){ w.a, w.b });
    if (w.rank == 0) {
        w.rank = 1;
        w.dim[0] = 1;
        w.a[0] = w.b[0] = 0;
    }
    return w;
}
