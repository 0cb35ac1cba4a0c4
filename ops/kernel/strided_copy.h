/* The copy that every op that only moves elements consists of, on the host. */
#ifndef ZT_OPS_KERNEL_STRIDED_COPY_H
#define ZT_OPS_KERNEL_STRIDED_COPY_H

#include "graph/ir/dtype.h"

#include <stddef.h>

/* The elements of `shape`, walked row-major in input `in` and output `out` of a node: from element `from` (`to`) on,
 * with a step per axis, in elements (any sign in the input, 0 too). */
struct zt_strided_copy {
    int in, out;
    struct zt_shape shape;
    int64_t from, to, from_step[ZT_MAX_RANK], to_step[ZT_MAX_RANK];
};

/* Runs the copy for elements of `bytes` each; `to` and `from` are the output's and the input's data. */
void zt_strided_copy_run(int threads, size_t bytes, const struct zt_strided_copy *copy, void *to, const void *from);

#endif
