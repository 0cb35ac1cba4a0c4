/* 3 x 3 to 6 x 6 convolutions, those of 3 x 3 and 4 x 4 with stride 2, and their data gradients by Winograd's filtering
 * (simd_winograd.h). x and y lie in vectors of channels (zt_winograd_layout), weights are plain. */
#ifndef ZT_OPS_CPU_WINOGRAD_WINOGRAD_H
#define ZT_OPS_CPU_WINOGRAD_WINOGRAD_H

#include "ops/cpu/winograd/tiles.h"

struct zt_winograd;

/* The requested convolution: forward, or backward, in which x below is the gradient of the convolution's result and y
 * that of its input. rows, columns: requested ones of y, from the first on. */
struct zt_winograd_wish {
    struct zt_winograd_conv conv;
    bool backward;
    int64_t rows, columns;
};
/* The time of Winograd's filtering over that of the direct convolution, 1 where it is not used: with few channels,
 * few tiles for many weights, or without fused multiply-add. */
double zt_winograd_share(const struct zt_winograd_wish *wish);
/* In the arena; NULL where it is not used. */
const struct zt_winograd *zt_winograd_make(struct zt_arena *arena, const struct zt_winograd_wish *wish);

struct zt_winograd_data {
    const void *x, *w, *bias, *added;    /* bias, added NULL: none; added: in the order of y, not with a pool */
    void *y;                             /* max(y, 0) if relu, NaN stays; or the maxima of 2 x 2 results */
    uint8_t *position;                   /* NULL: no pool; in the order of y */
    struct zt_planes x_planes, y_planes; /* y_planes: of what is written */
    bool relu;
};
/* Workspace bytes of a run; the workspace must be aligned to 64. */
size_t zt_winograd_bytes(const struct zt_winograd *w, int threads);
void zt_winograd_run(const struct zt_winograd *w, const struct zt_winograd_data *data, void *workspace, int threads);

#endif
