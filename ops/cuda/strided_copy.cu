/* Strided copies by a grid (strided_copy.cuh). */
#include "ops/cuda/strided_copy.cuh"

template <class T, class Y, class Put>
static __global__ void copy_kernel(struct zt_launch_strided_copy m, int64_t count, const T *from, Y *to, Put put) {
    copy_elements(m, count, { (int64_t)blockIdx.x * blockDim.x + threadIdx.x, (int64_t)gridDim.x * blockDim.x }, from,
                  to, put);
}

enum { ROWS = 8 }; /* rows of a tile that a block copies at a time */

template <class T, class Y, class Put>
static __global__ void tile_kernel(struct zt_launch_strided_copy m, struct shares s, const T *from, Y *to, Put put) {
    copy_tiles<ROWS>(m, s, { blockIdx.x, gridDim.x }, from, to, put);
}

template <class T, class Y, class Put>
static void launch_copy(cudaStream_t stream, const struct zt_launch_strided_copy &m, const struct shares &s,
                        const void *from, void *to, Put put) {
    if (s.across >= 0)
        tile_kernel<T, Y, Put>
            <<<job_blocks(s.tiles), dim3(TILE, ROWS), 0, stream>>>(m, s, (const T *)from, (Y *)to, put);
    else
        copy_kernel<T, Y, Put><<<blocks_for(s.count), BLOCK, 0, stream>>>(m, s.count, (const T *)from, (Y *)to, put);
}

int zt_launch_strided_copy(cudaStream_t stream, size_t bytes, const struct zt_launch_strided_copy *m, const void *from,
                           void *to) {
    const struct shares s = shares_of(m);
    WITH_BYTES(bytes, s.count, (launch_copy<T, T>(stream, *m, s, from, to, as_it_is<T>{})));
}

int zt_launch_strided_copy_sum(cudaStream_t stream, const struct zt_launch_strided_copy *m,
                               struct zt_launch_tensor from, struct zt_launch_tensor to, bool accumulate) {
    const struct shares s = shares_of(m);
    if (to.dtype == ZT_FLOAT)
        WITH_TYPE(from.dtype, s.count,
                  (launch_copy<T, float>(stream, *m, s, from.data, to.data, as_number<T, float>{ accumulate })));
    if (to.dtype == ZT_FLOAT16)
        WITH_TYPE(from.dtype, s.count,
                  (launch_copy<T, __half>(stream, *m, s, from.data, to.data, as_number<T, __half>{ accumulate })));
    WITH_TYPE(
        from.dtype, s.count,
        (launch_copy<T, __nv_bfloat16>(stream, *m, s, from.data, to.data, as_number<T, __nv_bfloat16>{ accumulate })));
}
