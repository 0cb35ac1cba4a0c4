/* The end of a convolution's weight gradient (launch_weight.h): the first blocks reduce dy to db (fold.cuh), the others
 * copy dw (strided_copy.cuh). */
#include "ops/reduce/fold.cuh"
#include "ops/conv/launch_weight.h"
#include "ops/cuda/strided_copy.cuh"

enum { THREADS = ACROSS * ALONG };
static_assert((int)ACROSS == (int)TILE, "a row of threads is a row of a tile");

template <class T, class Y>
static __global__ void weight_end_kernel(struct zt_launch_weight_end e, struct shares s, unsigned sums) {
    const T *from = (const T *)e.dw_from;
    Y *to = (Y *)e.dw;
    const as_number<T, Y> put = { e.accumulate };
    if (blockIdx.x < sums) {
        fold_columns_of<fold_sum>(e.sums, blockIdx.x, sums, (const T *)e.dy, (Y *)e.db, e.partial);
        return;
    }
    const int64_t block = blockIdx.x - sums, blocks = gridDim.x - sums;
    if (s.across >= 0)
        copy_tiles<ALONG>(e.transpose, s, { block, blocks }, from, to, put);
    else
        copy_elements(e.transpose, s.count, { block * THREADS + threadIdx.y * ACROSS + threadIdx.x, blocks * THREADS },
                      from, to, put);
}

template <class T, class Y> static void launch_both(cudaStream_t stream, const struct zt_launch_weight_end *e) {
    const struct shares s = shares_of(&e->transpose);
    const unsigned sums = job_blocks(columns_of(e->sums) * e->sums.parts);
    const unsigned copies = s.across >= 0 ? job_blocks(s.tiles) : blocks_for(s.count);
    weight_end_kernel<T, Y><<<sums + copies, dim3(ACROSS, ALONG), 0, stream>>>(*e, s, sums);
}

static int launch_apart(cudaStream_t stream, const struct zt_launch_weight_end *e) {
    int code = cudaSuccess;
    if (e->dw_from)
        code = zt_launch_strided_copy_sum(stream, &e->transpose, { e->dtype, (void *)e->dw_from },
                                          { e->dw_dtype, e->dw }, e->accumulate);
    return code || !e->db
               ? code
               : zt_launch_reduce(stream, &e->sums, { e->dtype, (void *)e->dy }, { e->db_dtype, e->db }, e->partial);
}

int zt_launch_weight_end(cudaStream_t stream, const struct zt_launch_weight_end *e) {
    const int64_t weights = elems_in(e->transpose.dim, e->transpose.axes);
    const bool both = e->dw_from && e->db && weights > 0 && side_by_side(&e->sums) && e->dw_dtype == e->db_dtype;
    if (both && e->dw_dtype == ZT_FLOAT)
        WITH_TYPE(e->dtype, weights, (launch_both<T, float>(stream, e)));
    if (both && e->dw_dtype == e->dtype)
        WITH_TYPE(e->dtype, weights, (launch_both<T, T>(stream, e)));
    return launch_apart(stream, e);
}
