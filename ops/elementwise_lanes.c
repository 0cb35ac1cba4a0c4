#include "ops/elementwise_lanes.h"

#include <stdbool.h>
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

#define TARGET
#define NAME(id) id##_plain
#include "ops/elementwise_body.inc"
#if defined(__x86_64__)
#define TARGET   __attribute__((target("avx2")))
#define NAME(id) id##_avx2
#include "ops/elementwise_body.inc"
#define TARGET   __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define NAME(id) id##_avx512
#include "ops/elementwise_body.inc"
#endif

zt_lane_function *const *zt_lane_functions(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return functions_avx512;
    if (__builtin_cpu_supports("avx2"))
        return functions_avx2;
#endif
    return functions_plain;
}
