/* The instruction set that the kernels of this machine may use. A kernel that exists for several is chosen by this,
 * never by the CPU's flags alone, so that each can be run and compared on one machine. */
#ifndef ZT_OPS_CPU_ISA_H
#define ZT_OPS_CPU_ISA_H

#include "base/err.h"

/* Each includes those before it. */
enum zt_isa {
    ZT_ISA_GENERIC,     /* what the compiler's target has: SSE2 on x86-64, NEON on aarch64 */
    ZT_ISA_AVX2,        /* with FMA: vectors of 8 floats */
    ZT_ISA_AVX512,      /* F, BW, VL and DQ: vectors of 16 floats */
    ZT_ISA_AVX512_BF16, /* products of bfloat16 added in float */
    ZT_ISA_AMX,         /* tiles of bfloat16, through oneDNN alone */
    ZT_ISAS
};

#define ZT_ISA_VARIABLE "ZTRAIN_ISA"

/* The CPU's best, or what the environment variable ZTRAIN_ISA names where that is less; at most ZT_ISA_BUILT, the
 * widest that kernels are built for (the option `isa` of the build). Any thread. */
enum zt_isa zt_isa(void);
/* Whether kernels for `isa` may run. A constant for what is not built, so that the compiler leaves out such kernels. */
static inline bool zt_isa_has(enum zt_isa isa) {
    return isa <= ZT_ISA_BUILT && zt_isa() >= isa;
}
/* As ZTRAIN_ISA spells it: generic, avx2, avx512, avx512_bf16, amx. */
const char *zt_isa_name(enum zt_isa isa);
/* Whether ZTRAIN_ISA is absent or names one that the CPU has. ZT_EXIT_CONFIG. */
bool zt_isa_check(struct zt_err *err);

#endif
