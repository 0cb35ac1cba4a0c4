#include "ops/walk_cuda.h"

/* Step along axis k of `y` in `of`: 0 where `of` is stretched. */
static int64_t step(const struct zt_shape *y, const struct zt_shape *of, int k) {
    int64_t own[ZT_MAX_RANK];
    int from = k - (y->rank - of->rank);
    zt_shape_strides(of, own);
    return from < 0 || of->dim[from] == 1 ? 0 : own[from];
}

struct zt_launch_walk zt_walk_cuda(const struct zt_shape *y, const struct zt_shape *a, const struct zt_shape *b) {
    struct zt_launch_walk w = { .rank = 0 };
    for (int k = 0; k < y->rank; k++) {
        int64_t dim = y->dim[k], left = step(y, a, k), right = step(y, b, k);
        int last = w.rank - 1;
        if (dim == 1)
            continue;
        if (last >= 0 && w.a[last] == left * dim && w.b[last] == right * dim) {
            w.dim[last] *= dim;
        } else {
            last = w.rank++;
            w.dim[last] = dim;
        }
        w.a[last] = left;
        w.b[last] = right;
    }
    if (w.rank == 0)
        w.dim[w.rank++] = 1;
    return w;
}
