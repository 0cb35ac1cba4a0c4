#include "ops/walk_cuda.h"

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

void zt_steps_cuda(const struct zt_shape *y, const struct zt_shape *of, int64_t step[ZT_MAX_RANK]) {
    int64_t own[ZT_MAX_RANK];
    zt_shape_strides(of, own);
    for (int k = 0; k < y->rank; k++) {
        const int from = k - (y->rank - of->rank);
        step[k] = from < 0 || of->dim[from] == 1 ? 0 : own[from];
    }
}

struct zt_launch_walk zt_walk_cuda(const struct zt_shape *y, const struct zt_shape *a, const struct zt_shape *b) {
    struct zt_launch_walk w = { .rank = 0 };
    int64_t step[2][ZT_MAX_RANK];
    memcpy(w.dim, y->dim, sizeof w.dim);
    zt_steps_cuda(y, a, step[0]);
    zt_steps_cuda(y, b, step[1]);
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
