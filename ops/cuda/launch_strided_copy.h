/* Launchers of strided_copy.cu: copies between two strided tensors. Conventions: launch.h. */
#ifndef ZT_OPS_CUDA_LAUNCH_STRIDED_COPY_H
#define ZT_OPS_CUDA_LAUNCH_STRIDED_COPY_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* to[i . to_step] = from[i . from_step] for every index i of a tensor of shape `dim`. Strides are in elements. */
struct zt_launch_strided_copy {
    int axes; /* 0: one element */
    int64_t dim[ZT_MAX_RANK], from_step[ZT_MAX_RANK], to_step[ZT_MAX_RANK];
};
/* bytes: size of an element: 1, 2, 4 or 8. */
int zt_launch_strided_copy(struct CUstream_st *stream, size_t bytes, const struct zt_launch_strided_copy *copy,
                           const void *from, void *to);
/* Converts from the dtype of `from` to the dtype of `to`; accumulate: to += from, in fp32. */
int zt_launch_strided_copy_sum(struct CUstream_st *stream, const struct zt_launch_strided_copy *copy,
                               struct zt_launch_tensor from, struct zt_launch_tensor to, bool accumulate);

#ifdef __cplusplus
}
#endif

#endif
