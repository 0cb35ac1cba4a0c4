/* Convolutions tap by tap, forward or to x, with one group and 1 or 2 axes.
 *
 *     few results    as the last layer of a decoder or of a network that marks pixels: in the kernels of other
 *                    convolutions most of a vector of result channels would be empty. The input lies in vectors of
 *                    channels, results are plain
 *     few sources    to x with few channels of the input y, as the data gradient of such a layer: y is plain, x lies in
 *                    vectors of channels
 *     dense          convolutions over time, and dilated ones: both lie in vectors of channels
 *
 * Weights are plain. */
#ifndef ZT_OPS_CONV_TAPS_CPU_H
#define ZT_OPS_CONV_TAPS_CPU_H

#include "ops/conv/conv_cpu.h"
#include "ops/cpu/blocked_layout.h"

enum zt_taps_kind { ZT_TAPS_TO_FEW, ZT_TAPS_OF_FEW, ZT_TAPS_DENSE };

struct zt_taps;
/* Whether few channels on one side make the convolution fit. */
bool zt_taps_is_few(const struct zt_conv *c, enum zt_conv_direction direction);
/* In the arena; NULL where it does not fit or other kernels are faster. `direction`: forward or to x. */
const struct zt_taps *zt_taps_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_conv_direction direction);
enum zt_taps_kind zt_taps_kind_of(const struct zt_taps *f);

/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_taps_bytes(const struct zt_taps *f);
/* The bits do not depend on `threads`; something is added, and ReLU follows, in dense ones only. */
void zt_taps_run(const struct zt_taps *f, const struct zt_conv_data *data, void *workspace, int threads);

#endif
