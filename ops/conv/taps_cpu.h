/* Convolutions with few result channels, forward or to x, as the last layer of a decoder or of a network that marks
 * pixels: in the kernels of other convolutions most of a vector of result channels would be empty. The input lies in
 * vectors of channels, weights and results are plain. And those to x with few channels of the input y, as the data
 * gradient of such a layer: y is plain, x lies in vectors of channels. */
#ifndef ZT_OPS_CONV_TAPS_CPU_H
#define ZT_OPS_CONV_TAPS_CPU_H

#include "ops/conv/conv.h"
#include "ops/cpu/blocked_layout.h"

struct zt_taps;
/* Whether the convolution fits, one group with 1 or 2 axes, and other kernels are slower. */
bool zt_taps_fits(const struct zt_conv *c, enum zt_conv_direction direction);
/* In the arena; NULL where it does not fit. `direction`: forward or to x. */
const struct zt_taps *zt_taps_make(struct zt_arena *arena, const struct zt_conv *c, enum zt_conv_direction direction);

/* Whether it has few channels of the input. */
bool zt_taps_reads_plain(const struct zt_taps *f);

struct zt_taps_data {
    const float *from, *w, *bias; /* bias NULL: none */
    float *to;
    struct zt_planes from_planes, to_planes;
};
/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_taps_bytes(const struct zt_taps *f);
void zt_taps_run(const struct zt_taps *f, const struct zt_taps_data *data, void *workspace, int threads);

#endif
