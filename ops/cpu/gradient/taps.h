/* Weight gradients tap by tap, of convolutions with one group and one to three axes: dw[m][c][tap] is the sum over
 * places of dy[m] x[c] at the tap. x lies in vectors of channels, and so does dy, but with few result channels it is
 * plain; the gradients are plain. */
#ifndef ZT_OPS_CPU_GRADIENT_TAPS_H
#define ZT_OPS_CPU_GRADIENT_TAPS_H

#include "ops/cpu/blocked_layout.h"

enum { ZT_TAPS_FEW = 6 }; /* result channels, of which dy is plain */

/* Planes, rows, columns; those that a convolution lacks are 1. */
struct zt_taps_conv {
    int64_t samples, channels, results;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
};

struct zt_taps_gradient;
/* In the arena; NULL with few channels of x, short rows of results, and without fused multiply-add. */
const struct zt_taps_gradient *zt_taps_gradient_make(struct zt_arena *arena, const struct zt_taps_conv *c);

/* Whether dy must be plain: few result channels. */
bool zt_taps_gradient_reads_plain(const struct zt_taps_gradient *w);

/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_taps_gradient_bytes(const struct zt_taps_gradient *w);
/* The bits do not depend on `threads`. */
void zt_taps_gradient_run(const struct zt_taps_gradient *w, const struct zt_planes_weights *data, void *workspace,
                          int threads);

#endif
