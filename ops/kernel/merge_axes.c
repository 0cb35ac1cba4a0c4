#include "ops/kernel/merge_axes.h"

#include <string.h>

int zt_merge_axes(int axes, int64_t *dim, int tensors, int64_t *const step[]) {
    int left = 0;
    for (int k = 0; k < axes; k++) {
        bool merges = left > 0;
        if (dim[k] == 1)
            continue;
        for (int t = 0; t < tensors; t++)
            merges = merges && step[t][left - 1] == step[t][k] * dim[k];
        left += !merges;
        dim[left - 1] = merges ? dim[left - 1] * dim[k] : dim[k];
        for (int t = 0; t < tensors; t++)
            step[t][left - 1] = step[t][k];
    }
    return left;
}

int zt_merge_marked_axes(const struct zt_shape *shape, const bool *marked, int64_t dim[ZT_MAX_RANK],
                         bool is_marked[ZT_MAX_RANK]) {
    int64_t own[ZT_MAX_RANK], unmarked[ZT_MAX_RANK]; /* unmarked: of a tensor that repeats along marked axes */
    memcpy(dim, shape->dim, (size_t)shape->rank * sizeof *dim);
    zt_shape_strides(shape, own);
    for (int k = 0; k < shape->rank; k++)
        unmarked[k] = marked[k] ? 0 : own[k];
    const int axes = zt_merge_axes(shape->rank, dim, 2, (int64_t *[]){ own, unmarked });
    for (int k = 0; k < axes; k++)
        is_marked[k] = unmarked[k] == 0;
    return axes;
}
