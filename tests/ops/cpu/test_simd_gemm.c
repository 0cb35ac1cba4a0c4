/* Our own matrix product in every vector width this machine has, and with numbers rounded to bfloat16, against plain
 * loops in double. Every array is exactly as long as the product says, so that a memory checker sees a step beyond. */
#include "ops/cpu/simd_gemm.h"

#include "base/half.h"
#include "base/rng.h"
#include "device/threads.h"
#include "tests/normal.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NO_BIAS, SCALAR, ROW, COLUMN, FULL, BIASES };

struct problem {
    struct zt_simd_gemm g;
    float *a, *b, *bias, *y;
    int64_t a_count, b_count;
    size_t y_count;
};

static float *filled(int64_t count, uint64_t key) {
    float *x = malloc((size_t)count * sizeof *x);
    ck_assert_ptr_nonnull(x);
    struct normal normal = normal_start(key, 1);
    for (int64_t i = 0; i < count; i++)
        x[i] = normal_next(&normal);
    return x;
}

static struct problem make(int64_t count, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b, int bias) {
    struct problem p = { .g = { .count = count, .m = m, .n = n, .k = k, .alpha = 1, .beta = 1 } };
    struct zt_simd_gemm *g = &p.g;
    g->a_row = trans_a ? 1 : k;
    g->a_col = trans_a ? m : 1;
    g->b_row = trans_b ? 1 : n;
    g->b_col = trans_b ? k : 1;
    g->a_step = m * k;
    g->b_step = k * n;
    g->y_row = n;
    g->y_step = m * n;
    g->bias_row = bias == FULL ? n : bias == COLUMN;
    g->bias_col = bias == FULL || bias == ROW;
    p.a_count = count * m * k;
    p.b_count = count * k * n;
    p.a = filled(p.a_count, 1);
    p.b = filled(p.b_count, 2);
    p.bias = bias == NO_BIAS ? NULL : filled(bias == FULL ? m * n : bias == ROW ? n : bias == COLUMN ? m : 1, 3);
    p.y_count = (size_t)(count * m * n);
    p.y = filled((int64_t)p.y_count, 4);
    return p;
}

static void destroy(struct problem *p) {
    free(p->a);
    free(p->b);
    free(p->bias);
    free(p->y);
}

/* A new array of a or b in elements of so many bytes. */
static void *elements(int bytes, const float *x, int64_t count) {
    char *to = malloc((size_t)(count * bytes));
    ck_assert_ptr_nonnull(to);
    for (int64_t i = 0; i < count; i++) {
        const uint16_t half = zt_float_to_bfloat(x[i]);
        memcpy(to + i * bytes, bytes == 2 ? (const void *)&half : &x[i], (size_t)bytes);
    }
    return to;
}

/* Of an element of y. */
static size_t y_bytes(const struct problem *p) {
    return p->g.y_bfloat ? sizeof(uint16_t) : sizeof(float);
}

/* A new y, of bfloat16 where the problem says so. */
static void *run(const struct zt_simd_gemm_kernel *kernel, const struct problem *p, int threads) {
    size_t bytes = zt_simd_gemm_bytes(kernel, &p->g, threads);
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
    void *y = elements((int)y_bytes(p), p->y, (int64_t)p->y_count);
    ck_assert_ptr_nonnull(workspace);
    memset(workspace, 0xff, bytes);
    void *a = elements(kernel->a_bytes, p->a, p->a_count), *b = elements(kernel->b_bytes, p->b, p->b_count);
    zt_simd_gemm_run(kernel, &p->g, &(struct zt_simd_gemm_operands){ a, b, p->bias, y, NULL }, workspace, threads);
    free(workspace);
    free(a);
    free(b);
    return y;
}

enum { KERNELS = 5 };

/* NULL where this machine does not have it. */
static const struct zt_simd_gemm_kernel *kernel_number(int i) {
    switch (i) {
    case 0:
    case 1:
        return zt_simd_gemm_kernel(i ? 16 : 8);
    case 2:
        return zt_simd_gemm_bfloat();
    case 3:
        return zt_simd_gemm_of_bfloat();
    default:
        return zt_simd_gemm_of_bfloat_by_float();
    }
}

/* A factor as the kernel takes it. */
static double taken(const struct zt_simd_gemm_kernel *kernel, float x) {
    return (double)(kernel->depths == 2 ? zt_bfloat_to_float(zt_float_to_bfloat(x)) : x);
}

static void expect_right(const struct zt_simd_gemm_kernel *kernel, const struct problem *p, const float *y) {
    const struct zt_simd_gemm *g = &p->g;
    for (int64_t c = 0; c < g->count; c++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                double sum = 0, size = 1;
                for (int64_t k = 0; k < g->k; k++) {
                    double x = taken(kernel, p->a[c * g->a_step + i * g->a_row + k * g->a_col]) *
                               taken(kernel, p->b[c * g->b_step + k * g->b_row + j * g->b_col]);
                    sum += x;
                    size += fabs(x);
                }
                int64_t at = c * g->y_step + i * g->y_row + j;
                sum *= (double)g->alpha;
                if (p->bias)
                    sum += (double)g->beta * (double)p->bias[i * g->bias_row + j * g->bias_col];
                if (g->add)
                    sum += (double)p->y[at];
                if (g->relu && sum < 0)
                    sum = 0;
                ck_assert_msg(fabs((double)y[at] - sum) <= 1e-6 * size,
                              "%lld of %lldx%lldx%lld, row %lld column %lld: %.9g, wants %.9g", (long long)c,
                              (long long)g->m, (long long)g->n, (long long)g->k, (long long)i, (long long)j,
                              (double)y[at], sum);
            }
}

/* A product beside the same product of fewer rows and columns, or more: both have the same bits as alone. */
static void expect_same_beside(const struct zt_simd_gemm_kernel *kernel, const struct problem *p, const float *y) {
    void *a = elements(kernel->a_bytes, p->a, p->a_count), *b = elements(kernel->b_bytes, p->b, p->b_count);
    const int64_t less = p->g.m > 1 ? p->g.m - p->g.m / 3 : 1, fewer = p->g.n > 1 ? p->g.n - p->g.n / 2 : 1;
    for (int narrow = 0; narrow < 2; narrow++) {
        struct zt_simd_gemm g = p->g, beside = p->g;
        beside.m = less;
        *(narrow ? &beside.n : &g.n) = fewer;
        g.beside = &beside;
        float *first = calloc(p->y_count, sizeof *first), *second = calloc(p->y_count, sizeof *second);
        ck_assert(first && second);
        memcpy(first, p->y, p->y_count * sizeof *y);
        memcpy(second, p->y, p->y_count * sizeof *y);
        void *workspace = aligned_alloc(64, (zt_simd_gemm_bytes(kernel, &g, 2) + 63) / 64 * 64);
        const struct zt_simd_gemm_operands other = { a, b, p->bias, second, NULL };
        zt_simd_gemm_run(kernel, &g, &(struct zt_simd_gemm_operands){ a, b, p->bias, first, &other }, workspace, 2);
        for (int64_t i = 0; i < p->g.m; i++) {
            const size_t row = (size_t)(i * p->g.y_row);
            ck_assert(memcmp(first + row, y + row, (size_t)g.n * sizeof *y) == 0);
            ck_assert(i >= less || memcmp(second + row, y + row, (size_t)beside.n * sizeof *y) == 0);
        }
        free(workspace);
        free(second);
        free(first);
    }
    free(b);
    free(a);
}

/* y of bfloat16 is y of float, rounded, on any number of threads. */
static void expect_rounded(const struct zt_simd_gemm_kernel *kernel, const struct problem *p, const float *y) {
    struct problem half = *p;
    half.g.y_bfloat = 1;
    uint16_t *wanted = elements(2, y, (int64_t)p->y_count);
    for (int threads = 1; threads <= 3; threads++) {
        uint16_t *made = run(kernel, &half, threads);
        ck_assert_msg(memcmp(made, wanted, p->y_count * sizeof *made) == 0,
                      "%lldx%lldx%lld on %d threads: y of bfloat16 is not y of float, rounded", (long long)p->g.m,
                      (long long)p->g.n, (long long)p->g.k, threads);
        free(made);
    }
    free(wanted);
}

static void check(const struct problem *p) {
    for (int i = 0; i < KERNELS; i++) {
        const struct zt_simd_gemm_kernel *kernel = kernel_number(i);
        const bool seen =
            kernel && kernel->depths == 2 && p->bias && p->g.bias_row == 0; /* the same code as in float */
        if (!kernel || seen)
            continue;
        float *one = run(kernel, p, 1);
        expect_right(kernel, p, one);
        for (int threads = 2; threads <= 3; threads++) {
            float *more = run(kernel, p, threads);
            ck_assert_msg(memcmp(one, more, p->y_count * sizeof *one) == 0,
                          "%lldx%lldx%lld: %d threads give other bits than one", (long long)p->g.m, (long long)p->g.n,
                          (long long)p->g.k, threads);
            free(more);
        }
        if (p->g.count == 1)
            expect_same_beside(kernel, p, one);
        if (kernel->round && !p->g.add)
            expect_rounded(kernel, p, one);
        free(one);
    }
}

static const int64_t sizes[][3] = {
    { 1, 1, 1 },    { 1, 1, 300 }, { 1, 37, 5 },    { 37, 1, 5 },    { 5, 7, 1 },      { 6, 16, 4 },    { 12, 32, 256 },
    { 7, 17, 33 },  { 13, 33, 3 }, { 5, 15, 257 },  { 11, 31, 258 }, { 100, 10, 512 }, { 97, 65, 511 }, { 25, 129, 2 },
    { 8, 45, 150 }, { 13, 9, 77 }, { 30, 5, 1030 }, { 45, 2, 33 },   { 21, 1, 16 },
};

START_TEST(products_of_any_size_and_order_are_right) {
    const int64_t *s = sizes[_i];
    for (int trans = 0; trans < 4; trans++)
        for (int bias = 0; bias < BIASES; bias++)
            for (int add = 0; add < 2; add++) {
                struct problem p = make(1, s[0], s[1], s[2], trans & 1, trans & 2, bias);
                p.g.add = add;
                p.g.relu = add != (bias & 1);
                if (bias == FULL)
                    p.g.alpha = 0.5f, p.g.beta = -2;
                check(&p);
                destroy(&p);
            }
}
END_TEST

START_TEST(batches_of_products_are_right) {
    static const int64_t counts[] = { 2, 8, 19 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int trans = 0; trans < 4; trans++) {
            struct problem p = make(counts[i], 33, 41, 29, trans & 1, trans & 2, ROW);
            check(&p);
            p.g.a_step = 0; /* the first a for all of them */
            check(&p);
            p.g.b_step = 0;
            check(&p);
            destroy(&p);
        }
}
END_TEST

START_TEST(a_product_larger_than_a_block_of_b_is_right) {
    static const int64_t large[][3] = {
        { 3, 2, 4400 },     { 2, 270, 4200 }, { 30, 4200, 260 }, { 290, 70, 530 }, { 290, 70, 4100 },
        { 530, 200, 1300 }, { 16, 600, 500 }, { 11, 530, 1027 }, { 70, 10, 1300 }, { 37, 16, 1029 },
    };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        for (int trans = 0; trans < 4; trans++) {
            struct problem p = make(1, large[i][0], large[i][1], large[i][2], trans & 1, trans & 2, ROW);
            p.g.relu = trans & 1;
            check(&p);
            destroy(&p);
        }
}
END_TEST

START_TEST(rows_of_y_may_lie_apart) {
    struct problem p = make(1, 14, 19, 8, false, false, NO_BIAS);
    p.g.n = 18; /* the last column is not ours */
    check(&p);
    const struct zt_simd_gemm_kernel *kernel = zt_simd_gemm_best();
    float *y = kernel ? run(kernel, &p, 2) : NULL;
    for (int i = 0; y && i < 14; i++)
        ck_assert(memcmp(&y[i * 19 + 18], &p.y[i * 19 + 18], sizeof *y) == 0);
    free(y);
    destroy(&p);
}
END_TEST

START_TEST(nan_and_infinity_reach_what_they_meet_and_nothing_else) {
    for (int i = 0; i < KERNELS; i++) {
        const struct zt_simd_gemm_kernel *kernel = kernel_number(i);
        if (!kernel)
            continue;
        struct problem p = make(1, 13, 35, 300, false, false, ROW);
        p.g.relu = 1;
        p.a[4 * 300 + 299] = NAN;
        p.b[10 * 35 + 34] = INFINITY;
        float *y = run(kernel, &p, 2);
        for (int row = 0; row < 13; row++)
            for (int j = 0; j < 35; j++) {
                float x = y[row * 35 + j];
                ck_assert(!isnan(x) == (row != 4));
                ck_assert(row == 4 || j == 34 || isfinite(x));
                ck_assert(row == 4 || j != 34 || x == 0 || isinf(x));
            }
        free(y);
        destroy(&p);
    }
}
END_TEST

int main(void) {
    zt_parallel_enter();
    if (!zt_simd_gemm_best())
        return 77; /* no fused multiply-add here */
    Suite *suite = suite_create("our own matrix product");
    TCase *cases = tcase_create("every vector width of this machine");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, products_of_any_size_and_order_are_right, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(cases, batches_of_products_are_right);
    tcase_add_test(cases, a_product_larger_than_a_block_of_b_is_right);
    tcase_add_test(cases, rows_of_y_may_lie_apart);
    tcase_add_test(cases, nan_and_infinity_reach_what_they_meet_and_nothing_else);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); /* libgomp does not survive a fork */
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
