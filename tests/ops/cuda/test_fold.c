/* Sums that several blocks share (fold.cuh, conv_weight.cu, norm.cu), emulated: right, the same bits whichever block
 * comes last, and counters that are zero again. */
#include "ops/norm/launch_norm.h"
#include "ops/norm/launch_batch_norm.h"
#include "ops/reduce/launch_reduce.h"
#include "ops/conv/launch_weight.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

enum { MOST = 200000, FEW = 4096, COUNTERS = 512 };

static unsigned arrived[COUNTERS];
static float x[MOST], partial[MOST];

static void fill(void) {
    for (int i = 0; i < MOST; i++)
        x[i] = (float)exp(6 * sin(i)); /* of sizes so different that the order of the sum shows */
}

static void expect_counters_are_zero(void) {
    for (int i = 0; i < COUNTERS; i++)
        ck_assert_uint_eq(arrived[i], 0);
}

/* ---- the same from the last block to the first ---- */

typedef void run_fn(const void *how, float *to);

static void expect_same_bits(run_fn *run, const void *how, int count, const double *want) {
    static float to[2][FEW];
    for (int backwards = 0; backwards < 2; backwards++) {
        for (int i = 0; i < MOST; i++)
            partial[i] = NAN;
        if (backwards)
            setenv("ZT_EMULATED_BACKWARDS", "1", 1);
        run(how, to[backwards]);
        unsetenv("ZT_EMULATED_BACKWARDS");
        expect_counters_are_zero();
    }
    ck_assert_mem_eq(to[0], to[1], (size_t)count * sizeof(float));
    for (int i = 0; i < count; i++)
        ck_assert_msg(fabs(to[0][i] - want[i]) <= 1e-4 * fabs(want[i]), "%d: got %g, want %g", i, (double)to[0][i],
                      want[i]);
}

/* ---- folds ---- */

static struct zt_launch_reduce sums_of(int64_t kept, int64_t over, bool columns) {
    struct zt_launch_reduce r = { .fold = ZT_FOLD_SUM, .result_axes = 1, .reduced_axes = 1, .arrived = arrived };
    r.results = r.result_dim[0] = kept;
    r.reduced = r.reduced_dim[0] = over;
    r.result_step[0] = columns ? 1 : over;
    r.reduced_step[0] = columns ? kept : 1;
    r.parts = zt_launch_reduce_parts(&r);
    ck_assert_int_gt(r.parts, 1);
    return r;
}

static void add_up(const struct zt_launch_reduce *r, double *to) {
    for (int64_t i = 0; i < r->results; i++) {
        to[i] = 0;
        for (int64_t k = 0; k < r->reduced; k++)
            to[i] += (double)x[i * r->result_step[0] + k * r->reduced_step[0]];
    }
}

static void run_fold(const void *how, float *to) {
    const struct zt_launch_tensor from = { ZT_FLOAT, x }, sums = { ZT_FLOAT, to };
    ck_assert_int_eq(zt_launch_reduce(NULL, how, from, sums, partial), 0);
}

static void expect_sums(int64_t kept, int64_t over, bool columns) {
    static double want[FEW];
    const struct zt_launch_reduce r = sums_of(kept, over, columns);
    add_up(&r, want);
    expect_same_bits(run_fold, &r, (int)kept, want);
}

START_TEST(columns_are_added_in_an_order_of_their_own) {
    fill();
    expect_sums(70, 2000, true);
    expect_sums(10, 19000, true); /* more parts than a block has rows of threads */
}
END_TEST

START_TEST(rows_are_added_in_an_order_of_their_own) {
    fill();
    expect_sums(3, 9000, false);
    expect_sums(1, MOST, false);
}
END_TEST

/* ---- behind a convolution's weight gradient ---- */

enum { OUT = 40, IN = 6, PLACES = 9, WEIGHTS = OUT * IN * PLACES, ROWS = 3000 };

/* to: dw, and db behind it. */
static void run_weight_end(const void *how, float *to) {
    struct zt_launch_weight_end end = *(const struct zt_launch_weight_end *)how;
    for (int i = 0; i < WEIGHTS; i++)
        to[i] = (float)i;
    end.dw = to;
    end.db = end.db ? to + WEIGHTS : NULL;
    ck_assert_int_eq(zt_launch_weight_end(NULL, &end), 0);
}

/* dw [OUT, PLACES, IN] to [OUT, IN, PLACES], as channels last are made plain; with db, of ROWS. */
START_TEST(weights_are_turned_beside_the_sums) {
    static double want[WEIGHTS + OUT];
    static float dw[WEIGHTS];
    struct zt_launch_weight_end end = { ZT_FLOAT, ZT_FLOAT, ZT_FLOAT, .dw_from = dw, .dy = x, .partial = partial };
    fill();
    end.transpose =
        (struct zt_launch_strided_copy){ 3, { OUT, IN, PLACES }, { IN * PLACES, 1, IN }, { IN * PLACES, PLACES, 1 } };
    end.sums = sums_of(OUT, ROWS, true);
    for (int i = 0; i < WEIGHTS; i++)
        dw[i] = (float)sin(i);
    for (int accumulate = 0; accumulate < 2; accumulate++)
        for (int with_db = 0; with_db < 2; with_db++) {
            end.accumulate = accumulate;
            end.db = with_db ? dw : NULL;
            for (int i = 0; i < WEIGHTS; i++) {
                const int out = i / (IN * PLACES), in = i / PLACES % IN, place = i % PLACES;
                want[i] = (double)dw[(out * PLACES + place) * IN + in] + (accumulate ? i : 0);
            }
            add_up(&end.sums, want + WEIGHTS);
            expect_same_bits(run_weight_end, &end, WEIGHTS + (with_db ? OUT : 0), want);
        }
}
END_TEST

/* ---- scale and bias of a normalisation ---- */

enum { LINES = 2000, WIDE = 40 };

/* to: dscale, and dbias behind it. */
static void run_scale(const void *how, float *to) {
    static float one[LINES], mean[LINES], dy[LINES * WIDE];
    const struct zt_launch_norm *n = how;
    for (int i = 0; i < LINES * WIDE; i++)
        dy[i] = (float)cos(i);
    for (int i = 0; i < LINES; i++)
        one[i] = 1;
    const struct zt_launch_norm_grad g = { .dy = { ZT_FLOAT, dy },
                                           .x = { ZT_FLOAT, x },
                                           .scale = { ZT_FLOAT, one },
                                           .mean = { ZT_FLOAT, mean },
                                           .inv_std = { ZT_FLOAT, one },
                                           .dscale = { ZT_FLOAT, to },
                                           .dbias = { ZT_FLOAT, to + WIDE },
                                           .parts = zt_launch_norm_grad_parts(n),
                                           .arrived = arrived };
    ck_assert_int_gt(g.parts, 1);
    ck_assert_int_eq(zt_launch_norm_grad(NULL, n, &g, partial), 0);
}

START_TEST(scales_are_added_in_an_order_of_their_own) {
    static double want[2 * WIDE];
    const struct zt_launch_norm rows = { .rows = LINES, .length = WIDE, .period = 1, .per_row = WIDE, .per_scale = 1 };
    /* 20 samples of 100 places, whose channels have statistics of their own */
    const struct zt_launch_norm last = {
        .rows = 20 * WIDE, .length = 100, .period = WIDE, .per_row = 1, .per_scale = 100, .last = true
    };
    fill();
    for (int i = 0; i < LINES * WIDE; i++) {
        want[i % WIDE] += (double)(float)cos(i) * (double)x[i];
        want[WIDE + i % WIDE] += (double)(float)cos(i);
    }
    expect_same_bits(run_scale, &rows, 2 * WIDE, want);
    expect_same_bits(run_scale, &last, 2 * WIDE, want);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("fold");
    tcase_add_test(test, columns_are_added_in_an_order_of_their_own);
    tcase_add_test(test, rows_are_added_in_an_order_of_their_own);
    tcase_add_test(test, weights_are_turned_beside_the_sums);
    tcase_add_test(test, scales_are_added_in_an_order_of_their_own);
    return run_suite("fold", test, CK_NOFORK);
}
