/* The gradient of a transform along one axis, which gradient rules of this family emit (formulas in dft_gradient.c). */
#ifndef ZT_OPS_SIGNAL_DFT_GRADIENT_H
#define ZT_OPS_SIGNAL_DFT_GRADIENT_H

#include "graph/passes/grad.h"
#include "ops/signal/dft.h"

/* Emits the gradient of the N elements (N / 2 + 1 of a onesided inverse) that the transform `d` along `axis` takes,
 * from the gradient dy of its result. The last axis has one number where d->in.real. */
int zt_dft_emit_gradient(struct zt_grad *b, const struct zt_dft *d, int dy, int axis);
/* `value` with `size` elements along `axis`: the first ones, or zeros behind. */
int zt_dft_emit_sized(struct zt_grad *b, int value, int axis, int64_t size);

#endif
