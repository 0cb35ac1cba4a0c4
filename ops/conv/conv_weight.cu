/* What stands behind a convolution's weight gradient (launch_weight.h): the first blocks fold the sums of dy
 * (fold.cuh), the others move dw (copy.cuh). */
#include "ops/cuda/fold.cuh"
#include "ops/conv/launch_weight.h"
#include "ops/cuda/copy.cuh"

enum { THREADS = ACROSS * ALONG };
static_assert((int)ACROSS == (int)TILE, "a line of threads is a line of a square too");

template <class T, class Y>
static __global__ void weight_end_kernel(struct zt_launch_weight_end e, struct shares s, unsigned folds) {
    const T *from = (const T *)e.dw_from;
    Y *to = (Y *)e.dw;
    const as_number<T, Y> put = { e.accumulate };
    if (blockIdx.x < folds) {
        fold_columns_of<fold_sum>(e.sums, blockIdx.x, folds, (const T *)e.dy, (Y *)e.db, e.partial);
        return;
    }
    const int64_t block = blockIdx.x - folds, blocks = gridDim.x - folds;
    if (s.across >= 0)
        turn_squares<ALONG>(e.turn, s, block, blocks, from, to, put);
    else
        move_elements(e.turn, s.count, block * THREADS + threadIdx.y * ACROSS + threadIdx.x, blocks * THREADS, from, to,
                      put);
}

template <class T, class Y> static void launch_both(cudaStream_t stream, const struct zt_launch_weight_end *e) {
    const struct shares s = shares_of(&e->turn);
    const unsigned folds = job_blocks(columns_of(e->sums) * e->sums.parts);
    const unsigned moves = s.across >= 0 ? job_blocks(s.squares) : blocks_for(s.count);
    weight_end_kernel<T, Y><<<folds + moves, dim3(ACROSS, ALONG), 0, stream>>>(*e, s, folds);
}

static int launch_apart(cudaStream_t stream, const struct zt_launch_weight_end *e) {
    int code = cudaSuccess;
    if (e->dw_from)
        code = zt_launch_strided_copy_sum(stream, e->dtype, e->dw_dtype, &e->turn, e->dw_from, e->dw, e->accumulate);
    return code || !e->db ? code : zt_launch_reduce(stream, e->dtype, e->db_dtype, &e->sums, e->dy, e->db, e->partial);
}

int zt_launch_weight_end(cudaStream_t stream, const struct zt_launch_weight_end *e) {
    const int64_t weights = product(e->turn.dim, e->turn.axes);
    const bool both = e->dw_from && e->db && weights > 0 && side_by_side(&e->sums) && e->dw_dtype == e->db_dtype;
    if (both && e->dw_dtype == ZT_FLOAT)
        WITH_TYPE(e->dtype, weights, (launch_both<T, float>(stream, e)));
    if (both && e->dw_dtype == e->dtype)
        WITH_TYPE(e->dtype, weights, (launch_both<T, T>(stream, e)));
    return launch_apart(stream, e);
}
