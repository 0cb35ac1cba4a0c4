/* Launchers of gather.cu: gathers, scatters and the gradients of gathers. Conventions: ops/cuda/launch.h.
 *
 * A gather reads zero bits for an index outside; a scatter ignores it. Negative indices count from the end. A scatter
 * combines (combine.h) the sources of one place in their order: it sorts them by place first, in a workspace. The
 * functions zt_launch_*_bytes give its bytes, or SIZE_MAX where the sources cannot be sorted: there are more than 2^32
 * of them, or a source's number and its place need more than 64 bits together. */
#ifndef ZT_OPS_MOVEMENT_LAUNCH_GATHER_H
#define ZT_OPS_MOVEMENT_LAUNCH_GATHER_H

#include "ops/cuda/launch.h"
#include "ops/movement/combine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zt_launch_room {
    void *workspace;
    unsigned *arrived; /* zeroed counters of the device (device/cuda.h) */
};

/* y[o, j, i] = x[o, index[j], i]; y is [outer, count, inner], x is [outer, size, inner]. */
struct zt_launch_gather {
    enum zt_dtype index_dtype; /* ZT_INT32, ZT_INT64 */
    int64_t outer, size, count, inner;
};
/* bytes: size of an element. */
int zt_launch_gather(struct CUstream_st *stream, size_t bytes, const struct zt_launch_gather *g, const void *x,
                     const void *index, void *y);
/* dx[o, index[j], i] += dy[o, j, i], in the order of j. dx has the dtype of dy. */
int zt_launch_gather_grad(struct CUstream_st *stream, const struct zt_launch_gather *g, struct zt_launch_tensor dy,
                          const void *index, void *dx, struct zt_launch_room room);
size_t zt_launch_gather_grad_bytes(const struct zt_launch_gather *g);

/* GatherElements, its gradient and ScatterElements. */
struct zt_launch_elements {
    enum zt_dtype index_dtype;
    enum zt_combine how;
    int axes, axis;
    int64_t dim[ZT_MAX_RANK], data[ZT_MAX_RANK]; /* shapes of the index and of the data */
};
int zt_launch_gather_elements(struct CUstream_st *stream, size_t bytes, const struct zt_launch_elements *e,
                              const void *x, const void *index, void *y);
/* Combines y with the elements that `index` sends there from x, in their order. x and y: float, half, int32, int64;
 * with ZT_COMBINE_REPLACE any dtype. */
int zt_launch_put_elements(struct CUstream_st *stream, const struct zt_launch_elements *e, struct zt_launch_tensor x,
                           const void *index, void *y, struct zt_launch_room room);
size_t zt_launch_put_elements_bytes(const struct zt_launch_elements *e);

/* GatherND, its gradient and ScatterND: a tuple of `length` indices names a slice of `slice` elements of its batch
 * entry of the data. */
struct zt_launch_tuples {
    enum zt_dtype index_dtype;
    enum zt_combine how;
    int64_t tuples, length, slice, per_batch; /* per_batch: tuples of a batch entry */
    int64_t batch_step;                       /* slices of data of a batch entry */
    int64_t size[ZT_MAX_RANK];                /* of the indexed axes */
};
int zt_launch_gather_tuples(struct CUstream_st *stream, size_t bytes, const struct zt_launch_tuples *t, const void *x,
                            const void *index, void *y);
/* Combines y with slice t of x at the place of tuple t, in the order of t. Dtypes as zt_launch_put_elements. */
int zt_launch_put_tuples(struct CUstream_st *stream, const struct zt_launch_tuples *t, struct zt_launch_tensor x,
                         const void *index, void *y, struct zt_launch_room room);
size_t zt_launch_put_tuples_bytes(const struct zt_launch_tuples *t);

#ifdef __cplusplus
}
#endif

#endif
