#include "ops/recurrent/simd_gate.h"

#include <math.h>
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wpsabi"           /* functions that take vectors are all inlined */
#pragma GCC diagnostic ignored "-Wunused-function" /* of simd_math.inc */

#define BODY "ops/recurrent/simd_gate.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_simd_cells *zt_simd_cells(void) {
    return OF_MACHINE(&cells);
}

void zt_simd_gate_clip(struct zt_simd_gate *gate, float clip) {
    float bound[2], cut[2] = { -clip, clip };
    for (int i = 0; i < 2; i++) {
        struct zt_simd_gate open = { gate->kind, INFINITY, -INFINITY, INFINITY };
        float x = cut[i], h, y;
        struct zt_simd_row row = { .hidden = 1, .end = 1, .function = &open, .gate = &x, .h = &h, .y = &y };
        zt_simd_cells()->rnn(&row);
        bound[i] = y;
    }
    gate->clip = clip;
    gate->low = isinf(clip) ? -INFINITY : bound[0];
    gate->high = isinf(clip) ? INFINITY : bound[1];
}
