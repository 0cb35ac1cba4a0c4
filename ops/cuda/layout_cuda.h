/* Layouts on CUDA: plain (NCHW), and channels last (NHWC), in which tensor cores want what convolutions read. A node
 * takes its tensors in the order in which they come, so that what a convolution chose goes on to the next one; orders
 * change where a node knows plain tensors alone: the images at one end, rows and losses at the other. A kernel beside
 * that place may read one order and write the other (free_in and free_out of struct zt_prepare: generated elementwise
 * kernels, pools in front of dense layers), else a Reorder stands there.
 *
 * A tensor with one channel, or with one place a channel, lies the same way in both: its layout is plain, and nothing
 * is moved on account of it. Matrices may have filled rows beside that (below). */
#ifndef ZT_OPS_CUDA_LAYOUT_CUDA_H
#define ZT_OPS_CUDA_LAYOUT_CUDA_H

#include "ops/cuda/launch_strided_copy.h"
#include "ops/kernel/layout.h"

/* Whether a tensor of this shape lies the same way in both. */
bool zt_layout_either(const struct zt_shape *shape);
/* Channels last for `v`, of rank 3 and more: `given` where it is that, else made in the arena; NULL where plain is the
 * same. */
const struct zt_layout *zt_layout_last(struct zt_arena *arena, const struct zt_layout *given, const struct zt_value *v);

/* For kernels that take their tensors in either order, if it is one for all: channels last where one of the inputs in
 * `ins` (a bit each, the last one for all behind it) comes so, and those of `ins` and `outs` are asked to be; else all
 * are plain. Inputs and outputs beside them are plain. Whether it is channels last.
 *
 * Where none of `ins` can show it, having one place a channel, what the readers of output 0 have beside it does: the
 * gradient of a global pool is wanted as the tensor that was pooled lies. */
bool zt_layout_alike(struct zt_prepare *p, unsigned ins, unsigned outs);

/* For elementwise kernels: y comes channels last where one of the first `inputs` inputs of its shape does, or where
 * these only stretch and its readers want it so. Inputs of y's shape lie as it does, those that stretch as they come.
 */
void zt_layout_broadcast(struct zt_prepare *p, int inputs);
/* Dims of output 0 as it lies, outermost first, and the steps in input `i` along them: 0 along stretched axes. */
void zt_broadcast_layout_dims(const struct zt_prepare *p, int64_t dim[ZT_MAX_RANK]);
void zt_broadcast_layout_steps(const struct zt_prepare *p, int i, int64_t step[ZT_MAX_RANK]);

/* Axes outermost first, and the step of each axis in elements. */
void zt_layout_axes(const struct zt_layout *layout, int rank, int axis[ZT_MAX_RANK]);
void zt_layout_steps(const struct zt_layout *layout, const struct zt_shape *shape, int64_t step[ZT_MAX_RANK]);

/* The copy of a tensor from one layout to another, row by row of the one it goes to. */
struct zt_launch_strided_copy zt_transposed_copy_cuda(const struct zt_shape *shape, const struct zt_layout *from,
                                                      const struct zt_layout *to);

#endif
