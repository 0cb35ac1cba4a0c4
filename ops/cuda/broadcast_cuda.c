#include "ops/cuda/broadcast_cuda.h"

#include <string.h>

int zt_axes_cuda(int axes, int64_t *dim, int tensors, int64_t (*step)[ZT_MAX_RANK]) {
    int left = 0;
    for (int k = 0; k < axes; k++) {
        bool joins = left > 0;
        if (dim[k] == 1)
            continue;
        for (int i = 0; i < tensors; i++)
            joins = joins && step[i][left - 1] == step[i][k] * dim[k];
        left += !joins;
        dim[left - 1] = joins ? dim[left - 1] * dim[k] : dim[k];
        for (int i = 0; i < tensors; i++)
            step[i][left - 1] = step[i][k];
    }
    return left;
}

struct zt_launch_strided_copy zt_strided_copy_cuda(int axes, const int64_t *dim, const int64_t *from,
                                                   const int64_t *to) {
    struct zt_launch_strided_copy m = { 0 };
    int64_t step[2][ZT_MAX_RANK] = { 0 };
    memcpy(m.dim, dim, (size_t)axes * sizeof *dim);
    memcpy(step[0], from, (size_t)axes * sizeof *from);
    memcpy(step[1], to, (size_t)axes * sizeof *to);
    m.axes = zt_axes_cuda(axes, m.dim, 2, step);
    memcpy(m.from_step, step[0], sizeof m.from_step);
    memcpy(m.to_step, step[1], sizeof m.to_step);
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
    int64_t step[2][ZT_MAX_RANK], own[ZT_MAX_RANK];
    memcpy(w.dim, y->dim, sizeof w.dim);
    zt_shape_strides(a, own);
    zt_steps_cuda(y, a, own, step[0]);
    zt_shape_strides(b, own);
    zt_steps_cuda(y, b, own, step[1]);
    w.rank = zt_axes_cuda(y->rank, w.dim, 2, step);
    memcpy(w.a, step[0], sizeof w.a);
    memcpy(w.b, step[1], sizeof w.b);
    if (w.rank == 0) {
        w.rank = 1;
        w.dim[0] = 1;
        w.a[0] = w.b[0] = 0;
    }
    return w;
}
