/* Group and instance normalisation on the CPU where activations are blocked or channels last, as convolutions leave
 * them (ops/cpu/blocked_layout.h). The kernels of norm_cpu.c use it there. The
 * file also has the kernels of ztrain.NormSwish and NormSwishGrad, which ask for such activations. */
#ifndef ZT_OPS_NORM_NORM_PLANES_CPU_H
#define ZT_OPS_NORM_NORM_PLANES_CPU_H

#include "ops/norm/norm.h"

struct zt_norm_planes;

/* Whether the producer of input x writes planes of vectors of channels, and the rows of `norm` are whole channels. */
bool zt_norm_planes_takes(const struct zt_prepare *p, const struct zt_norm *norm, int x);
/* Asks for such planes for the inputs up to x, and gives output 0 in them if `maps`; free with free(). Sets the
 * workspace. */
struct zt_norm_planes *zt_norm_planes_prepare(struct zt_prepare *p, const struct zt_norm *norm, int x, bool maps);

/* Inputs and outputs of the forward ops, of ztrain.NormStats and of ztrain.NormGrad. */
void zt_norm_planes_normalise(const struct zt_norm_planes *s, const struct zt_call *call);
void zt_norm_planes_statistics(const struct zt_norm_planes *s, const struct zt_call *call);
void zt_norm_planes_gradient(const struct zt_norm_planes *s, const struct zt_call *call);

#endif
