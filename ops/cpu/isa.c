#include "ops/cpu/isa.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[ZT_ISAS] = { [ZT_ISA_GENERIC] = "generic",
                                            [ZT_ISA_AVX2] = "avx2",
                                            [ZT_ISA_AVX512] = "avx512",
                                            [ZT_ISA_AVX512_BF16] = "avx512_bf16",
                                            [ZT_ISA_AMX] = "amx" };

const char *zt_isa_name(enum zt_isa isa) {
    return names[isa];
}

#if defined(__x86_64__)
#include <cpuid.h>

/* AMX_TILE and AMX_BF16; gcc 12's __builtin_cpu_supports does not know them. */
static bool has_amx(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1 && d >> 22 & 1;
}

static enum zt_isa find(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return ZT_ISA_GENERIC;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        return ZT_ISA_AVX2;
    if (!__builtin_cpu_supports("avx512bf16"))
        return ZT_ISA_AVX512;
    return has_amx() ? ZT_ISA_AMX : ZT_ISA_AVX512_BF16;
}
#else
static enum zt_isa find(void) {
    return ZT_ISA_GENERIC;
}
#endif

static enum zt_isa of_cpu(void) {
    const enum zt_isa cpu = find();
    return cpu < ZT_ISA_BUILT ? cpu : ZT_ISA_BUILT;
}

/* ZT_ISAS: no such name. */
static enum zt_isa named(const char *name) {
    int isa = 0;
    while (isa < ZT_ISAS && strcmp(names[isa], name) != 0)
        isa++;
    return (enum zt_isa)isa;
}

/* Returns the instruction set that ZTRAIN_ISA names, ZT_ISAS if there is none of this name; without the variable that
 * of the CPU. */
static enum zt_isa asked_of(enum zt_isa cpu) {
    const char *asked = getenv(ZT_ISA_VARIABLE);
    return asked ? named(asked) : cpu;
}

enum zt_isa zt_isa(void) {
    static _Atomic int known = -1; /* threads that find it absent find the same */
    if (known < 0) {
        const enum zt_isa cpu = of_cpu(), asked = asked_of(cpu);
        known = asked < cpu ? asked : cpu;
    }
    return known;
}

bool zt_isa_check(struct zt_err *err) {
    const enum zt_isa cpu = of_cpu(), asked = asked_of(cpu);
    if (asked == ZT_ISAS)
        return zt_fail(err, ZT_EXIT_CONFIG,
                       ZT_ISA_VARIABLE ": \"%s\" is none of generic, avx2, avx512, avx512_bf16, amx",
                       getenv(ZT_ISA_VARIABLE));
    return asked <= cpu || zt_fail(err, ZT_EXIT_CONFIG, ZT_ISA_VARIABLE ": this CPU or build has no %s, its best is %s",
                                   names[asked], names[cpu]);
}
