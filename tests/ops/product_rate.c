/* Times single float products of our own kernel: the side of tools/compare_products that is ztrain's. A tool, no test,
 * since it is about time.
 *
 *     product_rate THREADS
 *
 * Answers each line `M N K FORM SECONDS` of standard input with one JSON object: the median of the calls that fit in
 * SECONDS, at least one, after as many as fit in half of them. FORM: nn, nt or tn, y = a b, a b^T or a^T b with both
 * matrices plain, as the forward product of a linear layer (nt), its data gradient (nn) and its weight's gradient (tn);
 * +: y is added to. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/sort.h"
#include "device/threads.h"
#include "ops/cpu/simd_gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 512, LARGEST = 1 << 15 };

struct product {
    struct zt_simd_gemm gemm;
    struct zt_simd_gemm_operands at;
    void *workspace;
    int threads;
};

static bool read_product(const char *line, struct zt_simd_gemm *g, double *seconds) {
    char form[4];
    long long m, n, k;
    if (sscanf(line, "%lld %lld %lld %3s %lf", &m, &n, &k, form, seconds) != 5 || m < 1 || n < 1 || k < 1 ||
        m > LARGEST || n > LARGEST || k > LARGEST)
        return false;
    const bool a_turned = form[0] == 't', b_turned = form[1] == 't';
    *g = (struct zt_simd_gemm){ .count = 1, .m = m, .n = n, .k = k, .y_row = n, .alpha = 1, .beta = 1 };
    g->a_row = a_turned ? 1 : k;
    g->a_col = a_turned ? m : 1;
    g->b_row = b_turned ? 1 : n;
    g->b_col = b_turned ? k : 1;
    g->add = form[2] == '+';
    return strcspn(form, "nt") == 0 && strspn(form, "nt") == 2;
}

static float *filled(int64_t count, uint64_t stream, struct zt_err *err) {
    float *to = zt_block_create((size_t)count * sizeof *to, "a matrix", err);
    struct zt_rng rng = zt_rng_start(0, stream);
    for (int64_t i = 0; to && i < count; i++)
        to[i] = zt_rng_uniform(&rng) - 0.5F;
    return to;
}

static double once(const struct product *p) {
    const double start = zt_now();
    zt_simd_gemm_run(zt_simd_gemm_best(), &p->gemm, &p->at, p->workspace, p->threads);
    return 1e3 * (zt_now() - start);
}

static void time_product(const struct product *p, double seconds) {
    double sample[SAMPLES];
    int count = 0;
    for (const double warm = zt_now() + seconds / 2; once(p) > 0 && zt_now() < warm;) /* threads spread over cores */
        ;
    for (const double end = zt_now() + seconds; count == 0 || (count < SAMPLES && zt_now() < end); count++)
        sample[count] = once(p);
    zt_sort_doubles(sample, count);
    printf("{\"ms\": %.6f}\n", sample[count / 2]);
}

static bool answer(const char *line, int threads, struct zt_err *err) {
    struct product p = { .threads = threads };
    double seconds;
    if (!read_product(line, &p.gemm, &seconds))
        return zt_fail(err, ZT_EXIT_CONFIG, "not M N K FORM SECONDS: %s", line);
    const struct zt_simd_gemm *g = &p.gemm;
    const size_t bytes = zt_simd_gemm_bytes(zt_simd_gemm_best(), g, threads);
    float *a = filled(g->m * g->k, 1, err), *b = filled(g->k * g->n, 2, err), *y = filled(g->m * g->n, 3, err);
    p.workspace = zt_block_create(bytes, "the workspace", err);
    const bool good = a && b && y && p.workspace;
    p.at = (struct zt_simd_gemm_operands){ .a = a, .b = b, .y = y };
    if (good)
        time_product(&p, seconds);
    zt_block_destroy(p.workspace, bytes);
    zt_block_destroy(y, (size_t)(g->m * g->n) * sizeof *y);
    zt_block_destroy(b, (size_t)(g->k * g->n) * sizeof *b);
    zt_block_destroy(a, (size_t)(g->m * g->k) * sizeof *a);
    return good;
}

int main(int argc, char **argv) {
    const int threads = argc == 2 ? atoi(argv[1]) : 0;
    struct zt_err err = { 0 };
    char line[128];
    if (threads < 1) {
        fprintf(stderr, "usage: product_rate THREADS\n");
        return 2;
    }
    if (!zt_simd_gemm_best()) {
        fprintf(stderr, "product_rate: no own kernel on this machine\n");
        return 1;
    }
    zt_parallel_enter();
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin))
        if (!answer(line, threads, &err)) {
            fprintf(stderr, "product_rate: %s\n", err.text[0]);
            return 1;
        }
    return 0;
}
