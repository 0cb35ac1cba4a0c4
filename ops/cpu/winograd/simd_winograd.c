#include "ops/cpu/winograd/simd_winograd.h"
#include "ops/kernel/unrolled.h"

#include <stddef.h>

#define FUSED_ONLY
#define ELEMENT                 float
#define DEPTHS                  1
#define WORD(a)                 ((a) - (FLOATS){ 0 })
#define PRODUCT(a, b, c)        MULADD(a, b, c)
#define READ(p)                 (*(const FLOATS *)(p))
#define WRITE(p, x)             ((void)(*(FLOATS *)(p) = (x)))
#define WRITE_WORDS(p, x, next) WRITE(p, x)
#define WRITE_DEPTH(p, x, d)    ((void)(d), WRITE(p, x))
#define BODY                    "ops/cpu/winograd/simd_winograd.inc"
#include "ops/cpu/simd_targets.inc"

const struct zt_winograd_kernels *zt_winograd_kernels(enum zt_winograd_form form, enum zt_dtype dtype) {
    if (dtype == ZT_BFLOAT16)
        return zt_winograd_bfloat_kernels(form);
    const struct zt_winograd_kernels *const *kernels = OF_MACHINE(kernels);
    return kernels ? kernels[form] : NULL;
}
