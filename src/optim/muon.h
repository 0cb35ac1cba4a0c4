/* One element of a Muon step, and the iteration on a matrix, for the host and for the CUDA kernels (muon.c has the
 * formulas). */
#ifndef ZT_OPTIM_MUON_H
#define ZT_OPTIM_MUON_H

#include "optim/matrix.h"
#include "optim/step.h"

struct zt_muon {
    float scale, shrink, lr; /* shrink = 1 - lr wd; lr of a matrix with the factor of its shape */
    float momentum, take;    /* take = 1 - momentum */
    float b1, a1, b2, a2;    /* Adam's; a = 1 - b */
    float m_factor, v_factor, eps;
};

/* Advances the momentum b; returns the direction u. */
ZT_ELEMENT float zt_muon_direction(const struct zt_muon *c, float g, float *b) {
    float d = g * c->scale;
    float bi = *b + c->take * (d - *b);
    *b = bi;
    return d + c->momentum * (bi - d);
}

/* `u`: of the orthogonalised direction */
ZT_ELEMENT void zt_muon_apply(const struct zt_muon *c, float *p, float u) {
    *p = *p * c->shrink - c->lr * u;
}

/* Tensors that are no matrices: AdamW. */
ZT_ELEMENT void zt_muon_adam(const struct zt_muon *c, float *p, float g, float *m, float *v) {
    float d = g * c->scale;
    float mi = c->b1 * *m + c->a1 * d;
    float vi = c->b2 * *v + c->a2 * (d * d);
    *m = mi;
    *v = vi;
    *p = *p * c->shrink - c->lr * (mi * c->m_factor / (sqrtf(vi) * c->v_factor + c->eps));
}

#ifdef __cplusplus
extern "C" {
#endif

enum zt_muon_method { ZT_MUON_GRAM, ZT_MUON_STANDARD };

/* Floats of memory that the iteration needs beside x. */
int64_t zt_muon_room(int method, const struct zt_matrix *m);
/* The orthogonalised x, which is left in x or in `room` (aligned to 64 bytes). */
float *zt_muon_orthogonalise(int method, const struct zt_matrix *m, float *x, float *room,
                             const struct zt_matrix_ops *ops);

#ifdef __cplusplus
}
#endif

#endif
