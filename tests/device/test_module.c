/* Choosing a device where the CUDA module cannot be opened, and how broadcasting is handed to its kernels. */
#include "device/module.h"
#include "tests/suite.h"
#include "ops/cuda/broadcast_cuda.h"

#include <stdlib.h>
#include <string.h>

static void expect(struct zt_err *err, enum zt_exit code, const char *words) {
    ck_assert_int_eq(err->count, 1);
    ck_assert_int_eq(err->code, code);
    ck_assert_msg(strstr(err->text[0], words) != NULL, "\"%s\" does not say \"%s\"", err->text[0], words);
}

START_TEST(a_folder_without_a_module_is_named) {
    struct zt_err err = { 0 };
    ck_assert_ptr_null(zt_module_device("/nowhere", 0, 1, &err));
    expect(&err, ZT_EXIT_RUN, "no CUDA device: the CUDA module /nowhere/ztrain-cuda.so was not found");
    ck_assert_str_ne(err.hint[0], "");
}
END_TEST

START_TEST(device_cuda_without_a_module_fails_with_the_reason) {
    struct zt_err err = { 0 };
    ck_assert_ptr_null(zt_device_open("cuda", -1, 1, NULL, &err)); /* there is none beside this test */
    expect(&err, ZT_EXIT_RUN, "no CUDA device: ");
}
END_TEST

START_TEST(device_auto_is_the_host_where_there_is_no_module) {
    struct zt_err err = { 0 }, why = { 0 };
    struct zt_device *device = zt_device_open("auto", -1, 3, &why, &err);
    ck_assert_ptr_nonnull(device);
    ck_assert_str_eq(device->api->name, "cpu");
    ck_assert_int_eq(device->threads, 3);
    ck_assert_ptr_null(device->module);
    ck_assert_int_eq(err.count, 0);
    expect(&why, ZT_EXIT_RUN, "no CUDA device: ");
    device->api->destroy(device);
    device = zt_device_open("auto", -1, 3, NULL, &err); /* nobody asks why */
    ck_assert_str_eq(device->api->name, "cpu");
    device->api->destroy(device);
}
END_TEST

START_TEST(a_local_rank_that_is_no_number_is_refused) {
    static const char *const wrong[] = { "one", "-1", "1x", "99999999999999999999" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct zt_err err = { 0 };
        setenv("LOCAL_RANK", wrong[i], 1);
        ck_assert_ptr_null(zt_device_open("cuda", -1, 1, NULL, &err));
        expect(&err, ZT_EXIT_CONFIG, "LOCAL_RANK = ");
        expect(&err, ZT_EXIT_CONFIG, wrong[i]);
    }
    unsetenv("LOCAL_RANK");
}
END_TEST

START_TEST(a_device_of_another_name_is_refused) {
    struct zt_err err = { 0 };
    ck_assert_ptr_null(zt_device_open("tpu", -1, 1, NULL, &err));
    expect(&err, ZT_EXIT_CONFIG, "device \"tpu\", allowed auto, cpu, cuda");
}
END_TEST

/* Element i of the output by the walk, as the kernels do it. */
static void place(const struct zt_launch_walk *w, int64_t i, int64_t *a, int64_t *b) {
    *a = *b = 0;
    for (int k = w->rank - 1; k >= 0; k--) {
        *a += i % w->dim[k] * w->a[k];
        *b += i % w->dim[k] * w->b[k];
        i /= w->dim[k];
    }
}

START_TEST(tensors_of_one_shape_are_walked_as_one_axis) {
    struct zt_shape shape = { 4, { 2, 1, 3, 5 } };
    struct zt_launch_walk w = zt_walk_cuda(&shape, &shape, &shape);
    ck_assert_int_eq(w.rank, 1);
    ck_assert_int_eq(w.dim[0], 30);
    ck_assert(w.a[0] == 1 && w.b[0] == 1);
}
END_TEST

START_TEST(a_scalar_repeats_over_everything) {
    struct zt_shape shape = { 2, { 4, 6 } }, scalar = { 0, { 0 } };
    struct zt_launch_walk w = zt_walk_cuda(&shape, &shape, &scalar);
    ck_assert_int_eq(w.rank, 1);
    ck_assert_int_eq(w.b[0], 0);
    w = zt_walk_cuda(&scalar, &scalar, &scalar);
    ck_assert(w.rank == 1 && w.dim[0] == 1);
}
END_TEST

START_TEST(broadcast_axes_step_as_numpy_says) {
    struct zt_shape y = { 4, { 2, 3, 4, 5 } }, a = { 4, { 2, 1, 4, 1 } }, b = { 2, { 4, 5 } };
    struct zt_launch_walk w = zt_walk_cuda(&y, &a, &b);
    for (int64_t i = 0; i < 2 * 3 * 4 * 5; i++) {
        int64_t left, right, n = i / 60, h = i / 5 % 4, x = i % 5;
        place(&w, i, &left, &right);
        ck_assert_int_eq(left, n * 4 + h);
        ck_assert_int_eq(right, h * 5 + x);
    }
}
END_TEST

int main(void) {
    TCase *test = tcase_create("module");
    tcase_add_test(test, a_folder_without_a_module_is_named);
    tcase_add_test(test, device_cuda_without_a_module_fails_with_the_reason);
    tcase_add_test(test, device_auto_is_the_host_where_there_is_no_module);
    tcase_add_test(test, a_local_rank_that_is_no_number_is_refused);
    tcase_add_test(test, a_device_of_another_name_is_refused);
    tcase_add_test(test, tensors_of_one_shape_are_walked_as_one_axis);
    tcase_add_test(test, a_scalar_repeats_over_everything);
    tcase_add_test(test, broadcast_axes_step_as_numpy_says);
    return run_suite("module", test, CK_FORK);
}
