/* Convolutions as products of matrices: those of few windows for a large weight, where reading and writing the weight
 * takes the time, and those whose only window is the whole plane.
 *
 *     columns  [samples * windows, c * kernel]   x below each window, 0 in the padding
 *     w        [m, c * kernel]                   plain, as the graph has it
 *     results  [samples * windows, m]            y
 *
 *     forward  results = columns w^T     data gradient  columns = results w     weight gradient  w = results^T columns
 *
 * A window that is the whole plane needs no copies: x and y, plain, are the matrices. */
#ifndef ZT_OPS_CONV_IM2COL_CPU_H
#define ZT_OPS_CONV_IM2COL_CPU_H

#include "ops/conv/conv_cpu.h"

struct zt_im2col;
/* In the arena; NULL where the convolution is another one or has several groups, and without fused multiply-add. */
const struct zt_im2col *zt_im2col_make(struct zt_arena *arena, const struct zt_conv *c,
                                       enum zt_conv_direction direction);
/* Whether x and y are plain and nothing can be added to the result; else both lie in vectors of channels. */
bool zt_im2col_is_whole(const struct zt_im2col *i);
/* Workspace bytes; the workspace must be aligned to 64. */
size_t zt_im2col_bytes(const struct zt_im2col *i, int threads);

/* Forwards and to x. */
void zt_im2col_run(const struct zt_im2col *i, const struct zt_conv_data *data, void *workspace, int threads);
/* x and dy in the layouts of zt_im2col_is_whole(). */
void zt_im2col_weight_gradient(const struct zt_im2col *i, const struct zt_planes_weights *data, void *workspace,
                               int threads);

#endif
