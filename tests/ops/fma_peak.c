/* Peak floating-point operations per second of this machine's cores: a tool, no test, since it is about
 * time.
 *
 *     fma_peak [THREADS [ROUNDS]]        all cores, 40: at least so many, and for a second
 *
 * Each thread repeats one multiply-add instruction on registers alone, with more independent sums than the
 * instruction's latency needs. A multiplication and an addition are two operations. fp32: a fused multiply-add of the
 * widest vectors that ops/cpu/isa.h allows. bf16: vdpbf16ps, or tdpbf16ps where there is AMX; null where there is
 * neither. The shortest round counts, so that a machine that does other things as well is measured where it did not.
 * Prints one JSON object. */
#include "base/clock.h"
#include "device/threads.h"
#include "ops/cpu/isa.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { REPEATS = 20000 };

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 24")
#endif

/* A loop over one instruction. */
struct loop {
    void (*run)(void);
    double flops; /* of one call */
};

/* Defines NAME(), which runs FMA(sum, a, b) on SUMS sums REPEATS times. The compiler must not know their values. */
#define LOOP(NAME, TARGET, TYPE, FACTOR, SUMS, FMA)                                                                    \
    TARGET static void NAME(void) {                                                                                    \
        TYPE sum[SUMS];                                                                                                \
        FACTOR a, b;                                                                                                   \
        memset(sum, 0, sizeof sum);                                                                                    \
        memset(&a, 0, sizeof a);                                                                                       \
        memset(&b, 0, sizeof b);                                                                                       \
        __asm__("" : "+m"(sum), "+m"(a), "+m"(b));                                                                     \
        for (int r = 0; r < REPEATS; r++)                                                                              \
            UNROLLED for (int k = 0; k < (SUMS); k++) sum[k] = FMA(sum[k], a, b);                                      \
        __asm__ volatile("" : : "m"(sum));                                                                             \
    }

#if defined(__x86_64__)
#define PLAIN_ADD(sum, a, b)  _mm_add_ps(sum, _mm_mul_ps(a, b))
#define AVX2_ADD(sum, a, b)   _mm256_fmadd_ps(a, b, sum)
#define AVX512_ADD(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define BF16_ADD(sum, a, b)   _mm512_dpbf16_ps(sum, a, b)
LOOP(plain, , __m128, __m128, 12, PLAIN_ADD)
LOOP(avx2, __attribute__((target("avx2,fma"))), __m256, __m256, 12, AVX2_ADD)
LOOP(avx512, __attribute__((target("avx512f"))), __m512, __m512, 24, AVX512_ADD)
LOOP(bf16, __attribute__((target("avx512f,avx512bf16"))), __m512, __m512bh, 24, BF16_ADD)

/* The operand of ldtilecfg: four tiles of sums and two factors, all of 16 rows of 64 bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

__attribute__((target("amx-tile,amx-bf16"))) static void amx(void) {
    struct tile_config config = { .palette = 1 };
    for (int t = 0; t < 6; t++) {
        config.bytes[t] = 64;
        config.rows[t] = 16;
    }
    __asm__("" : "+m"(config)); /* gcc 12 takes only a pointer's bytes as read */
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (int r = 0; r < REPEATS / 16; r++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_release();
}

/* Asks Linux for the tiles' state (ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA); threads that start later have it too. */
static bool tiles_granted(void) {
    return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

static struct loop fp32_loop(void) {
    if (zt_isa_has(ZT_ISA_AVX512))
        return (struct loop){ avx512, 2.0 * 16 * 24 * REPEATS };
    return zt_isa_has(ZT_ISA_AVX2) ? (struct loop){ avx2, 2.0 * 8 * 12 * REPEATS }
                                   : (struct loop){ plain, 2.0 * 4 * 12 * REPEATS };
}

static struct loop bf16_loop(void) {
    if (zt_isa_has(ZT_ISA_AMX) && tiles_granted())
        return (struct loop){ amx, 2.0 * 16 * 16 * 32 * 4 * (REPEATS / 16) };
    return zt_isa_has(ZT_ISA_AVX512_BF16) ? (struct loop){ bf16, 2.0 * 32 * 24 * REPEATS } : (struct loop){ NULL, 0 };
}
#else
#if defined(__aarch64__)
#define TYPE                 float32x4_t
#define PLAIN_ADD(sum, a, b) vfmaq_f32(sum, a, b)
#else
#define TYPE                 float
#define PLAIN_ADD(sum, a, b) fmaf(a, b, sum)
#endif
LOOP(plain, , TYPE, TYPE, 24, PLAIN_ADD)

static struct loop fp32_loop(void) {
    return (struct loop){ plain, 2.0 * sizeof(TYPE) / sizeof(float) * 24 * REPEATS };
}

static struct loop bf16_loop(void) {
    return (struct loop){ NULL, 0 };
}
#endif

static void call(void *arg, int64_t block) {
    (void)block;
    ((const struct loop *)arg)->run();
}

/* GFLOP/s of the shortest round; the first does not count. A round takes less time than the system gives other programs
 * at once, so that rounds go on for a while. */
static double rate(struct loop loop, int threads, int rounds) {
    const double start = zt_now(), least = 1; /* seconds */
    double best = HUGE_VAL;
    for (int r = -1; r < rounds || zt_now() - start < least; r++) {
        const double began = zt_now();
        zt_parallel_for(threads, threads, call, &loop);
        const double seconds = zt_now() - began;
        best = r >= 0 && seconds < best ? seconds : best;
    }
    return 1e-9 * loop.flops * threads / best;
}

int main(int argc, char **argv) {
    const int threads = argc > 1 ? atoi(argv[1]) : zt_parallel_cores(), rounds = argc > 2 ? atoi(argv[2]) : 40;
    if (threads < 1 || rounds < 1 || argc > 3) {
        fprintf(stderr, "usage: fma_peak [THREADS [ROUNDS]]\n");
        return 2;
    }
    zt_parallel_enter();
    const struct loop half = bf16_loop();
    printf("{\"isa\": \"%s\", \"threads\": %d, \"fp32_gflops\": %.1f, \"bf16_gflops\": ", zt_isa_name(zt_isa()),
           threads, rate(fp32_loop(), threads, rounds));
    if (half.run)
        printf("%.1f}\n", rate(half, threads, rounds));
    else
        puts("null}");
    return 0;
}
