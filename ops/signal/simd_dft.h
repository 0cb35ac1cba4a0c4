/* The fast transform (dft_plan.h) of a group of slices side by side, `across` of them, in float or in double. In memory
 * a number of the transform is a row of `across` real parts, and in another array one of imaginary parts, so that all
 * loops run over slices too. Each element of a result depends on its slice alone, by the same operations at any place
 * in a vector. Compiled for several instruction sets, chosen by CPUID. */
#ifndef ZT_OPS_SIGNAL_SIMD_DFT_H
#define ZT_OPS_SIGNAL_SIMD_DFT_H

#include "ops/signal/dft.h"

enum { ZT_SIMD_DFT_ACROSS = 16 }; /* slices of a group at most */

struct zt_simd_dft_group {
    const struct zt_dft_plan *plan;
    const void *numbers; /* the plan's tables, float or double */
    const struct zt_view *x, *window, *y;
    int64_t first;    /* slice */
    int across, used; /* slices of the group, a power of two, and those that exist */
    void *room;       /* zt_simd_dft_room() numbers */
};

struct zt_simd_dft {
    void (*floats)(const struct zt_simd_dft_group *g);
    void (*doubles)(const struct zt_simd_dft_group *g);
};
/* The functions for the widest vectors of this machine. */
const struct zt_simd_dft *zt_simd_dft(void);

/* Numbers of the room of a group. */
static inline int64_t zt_simd_dft_room(const struct zt_dft_plan *p, int across) {
    return 4 * zt_dft_rows(p) * across + (p->dft.window ? p->dft.length : 0);
}

#endif
