/* The disk cache of cuBLASLt's choices for products, over the emulated library. */
#include "ops/cuda/blas_cuda.h"

#include "device/cuda.h"
#include "tests/gpu/cache_folder.h"
#include "tests/gpu/emulated/cublaslt.h"
#include "tests/suite.h"

static struct zt_device *device;

/* [4, 8] times [8, 16] */
static struct zt_blas_spec product(enum zt_blas_then then) {
    return (struct zt_blas_spec){ .a = zt_blas_packed(ZT_FLOAT, 4, 8, false),
                                  .b = zt_blas_packed(ZT_FLOAT, 8, 16, false),
                                  .y = zt_blas_packed(ZT_FLOAT, 4, 16, false),
                                  .batch = 1,
                                  .then = then };
}

/* Makes it, computes with it, and gives how often the rule was asked. */
static int asked_for(const struct zt_blas_spec *spec) {
    static float a[32] __attribute__((aligned(16))), b[128] __attribute__((aligned(16))),
        y[65] __attribute__((aligned(16)));
    char workspace[4096];
    struct zt_err err = { 0 };
    const int before = emulated_heuristics();
    struct zt_blas *blas = zt_blas_create(device, spec, &err);
    ck_assert_msg(blas != NULL, "%s", err.text[0]);
    ck_assert_uint_gt(zt_blas_workspace_bytes(blas), 0);
    ck_assert_uint_le(zt_blas_workspace_bytes(blas), sizeof workspace);
    for (int i = 0; i < 32; i++)
        a[i] = (float)i;
    for (int i = 0; i < 128; i++)
        b[i] = (float)(i % 16 == i / 16); /* row k has a 1 in column k */
    for (int off = 0; off < 2; off++) {
        const struct zt_blas_data data = { .a = a, .b = b, .y = y + off, .alpha = 1 };
        ck_assert(zt_blas_takes(blas, &data));
        ck_assert_msg(zt_blas_run(blas, &data, workspace, "node", &err), "%s", err.text[0]);
        if (spec->then == ZT_BLAS_STORE)
            ck_assert_float_eq(y[off + 16 + 3], 11); /* of row 1 */
    }
    zt_blas_destroy(blas);
    return emulated_heuristics() - before;
}

static void begin(void) {
    struct zt_err err = { 0 };
    ck_assert(cache_begin());
    device = zt_cuda_create(0, &err);
    ck_assert_msg(device != NULL, "%s", err.text[0]);
}
static void end(void) {
    device->api->destroy(device);
    cache_end();
}

START_TEST(a_choice_is_kept_by_product) {
    struct zt_blas_spec spec = product(ZT_BLAS_STORE);
    ck_assert_int_eq(asked_for(&spec), 2);
    ck_assert_int_eq(asked_for(&spec), 0);
    spec.tf32 = true;
    ck_assert_int_eq(asked_for(&spec), 2);
    spec = product(ZT_BLAS_GELU);
    ck_assert_int_eq(asked_for(&spec), 2);
    ck_assert_int_eq(asked_for(&spec), 0);
    spec = product(ZT_BLAS_STORE);
    ck_assert_int_eq(asked_for(&spec), 0);
}
END_TEST

static void damage(void) {
    ck_assert(cache_cut());
}

static void expect_made_anew_after(void (*spoil)(void)) {
    struct zt_blas_spec spec = product(ZT_BLAS_STORE);
    ck_assert_int_eq(asked_for(&spec), 2);
    spoil();
    ck_assert_int_eq(asked_for(&spec), 2);
    ck_assert_int_eq(asked_for(&spec), 0);
}

START_TEST(a_choice_that_is_damaged_or_not_known_any_more_is_made_anew) {
    expect_made_anew_after(_i ? emulated_forgets : damage);
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("products");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_choice_is_kept_by_product);
    tcase_add_loop_test(tests, a_choice_that_is_damaged_or_not_known_any_more_is_made_anew, 0, 2);
    return run_suite("gpu-blas", tests, CK_NOFORK);
}
