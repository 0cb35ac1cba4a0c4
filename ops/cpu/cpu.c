#include "ops/cpu/cpu.h"

#ifdef HAVE_DNNL
#include "ops/cpu/dnnl.h"
#endif

#define BODY "ops/cpu/simd_width.inc"
#include "ops/cpu/simd_targets.inc"

const char *zt_cpu_instructions(void) {
    const int width = OF_MACHINE(width);
    return width == 16 ? "AVX-512" : width == 8 ? "AVX2" : "vectors of 4";
}

const char *zt_cpu_onednn(void) {
#ifdef HAVE_DNNL
    return zt_dnnl_version();
#else
    return "";
#endif
}
