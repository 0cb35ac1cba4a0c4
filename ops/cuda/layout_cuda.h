/* Layouts on CUDA: plain (NCHW) and channels last (NHWC), which tensor cores need in convolutions. A node takes its
 * tensors in the layout they arrive in, so that the choice of a convolution reaches the next one. Layouts change
 * where a node supports plain tensors alone: at the images, and at rows and losses. A kernel there may read one
 * layout and write the other (free_in and free_out of struct zt_prepare: generated elementwise kernels, pools in
 * front of dense layers); else a Reorder node changes it.
 *
 * A tensor with one channel, or with one place a channel, has the same order in both layouts: its layout is plain and
 * nothing is copied. */
#ifndef ZT_OPS_CUDA_LAYOUT_CUDA_H
#define ZT_OPS_CUDA_LAYOUT_CUDA_H

#include "ops/cuda/launch_strided_copy.h"
#include "ops/kernel/layout.h"

/* Whether a tensor of this shape has the same order in both layouts. */
bool zt_layout_either(const struct zt_shape *shape);
/* The channels last layout of `v`, of rank 3 or more: `given` where it is one, else a new one in the arena; NULL
 * where plain has the same order. */
const struct zt_layout *zt_layout_last(struct zt_arena *arena, const struct zt_layout *given, const struct zt_value *v);

/* For kernels that accept one layout for all their tensors: channels last where one of the inputs in `ins` arrives
 * so, else plain. `ins` and `outs` have a bit a tensor, the last bit stands for all behind it. Sets the layouts of
 * those tensors; all others are plain. Returns whether the layout is channels last.
 *
 * Inputs with one place a channel show no layout. Where all are so, the tensors beside output 0 in its readers
 * decide: the gradient of a global pool takes the layout of the tensor that was pooled. */
bool zt_layout_alike(struct zt_prepare *p, unsigned ins, unsigned outs);

/* For elementwise kernels: y is channels last where one of the first `inputs` inputs of its shape is, or where all of
 * them are broadcast and the readers of y are channels last. Inputs of y's shape take its layout; broadcast inputs
 * keep theirs. */
void zt_layout_broadcast(struct zt_prepare *p, int inputs);
/* Dims of output 0 in memory order, outermost first, and the strides of input `i` along them: 0 along broadcast axes.
 */
void zt_broadcast_layout_dims(const struct zt_prepare *p, int64_t dim[ZT_MAX_RANK]);
void zt_broadcast_layout_steps(const struct zt_prepare *p, int i, int64_t step[ZT_MAX_RANK]);

/* Axes in memory order, outermost first; and the stride of each axis in elements. */
void zt_layout_axes(const struct zt_layout *layout, int rank, int axis[ZT_MAX_RANK]);
void zt_layout_steps(const struct zt_layout *layout, const struct zt_shape *shape, int64_t step[ZT_MAX_RANK]);

/* The copy of a tensor from one layout to another, in the order of the target. */
struct zt_launch_strided_copy zt_transposed_copy_cuda(const struct zt_shape *shape, const struct zt_layout *from,
                                                      const struct zt_layout *to);

#endif
