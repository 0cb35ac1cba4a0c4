/* Weight gradients from planes by our own kernels: of those that take a convolution, the fastest. */
#ifndef ZT_OPS_CPU_GRADIENT_PLANES_H
#define ZT_OPS_CPU_GRADIENT_PLANES_H

#include "ops/cpu/gradient/taps.h"
#include "ops/cpu/gradient/pointwise.h"
#include "ops/cpu/gradient/pointwise_bfloat.h"
#include "ops/cpu/winograd/gradient.h"

/* A convolution as each kernel takes it; false where it does not. */
struct zt_planes_forms {
    enum zt_dtype dtype; /* of x and dy: float, bfloat16 */
    bool is_winograd, is_pointwise, is_taps;
    struct zt_winograd_conv winograd;
    struct zt_pointwise pointwise;
    struct zt_taps_conv taps;
};

struct zt_planes_gradient {
    const struct zt_winograd_gradient *winograd; /* one of them is not NULL */
    const struct zt_pointwise_gradient *pointwise;
    const struct zt_pointwise_bfloat *pointwise_bfloat;
    const struct zt_taps_gradient *taps;
};
/* In the arena; NULL where no kernel takes the convolution, or others are faster. */
const struct zt_planes_gradient *zt_planes_gradient_make(struct zt_arena *arena, const struct zt_planes_forms *forms);
/* Whether dy must be plain; else it lies in vectors of channels, as x does. */
bool zt_planes_gradient_reads_plain(const struct zt_planes_gradient *w);

/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_planes_gradient_bytes(const struct zt_planes_gradient *w, int threads);
void zt_planes_gradient_run(const struct zt_planes_gradient *w, const struct zt_planes_weights *data, void *workspace,
                            int threads);

#endif
