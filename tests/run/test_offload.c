/* Offload changes where numbers are, never the numbers: the weights of a run have the same bits with it. */
#include "tests/run/layouts.h"
#include "tests/suite.h"

#include "base/arena.h"
#include "base/file.h"

#include <string.h>
#include <unistd.h>

static char *folder;

/* In memory where possible: the files of some hundred steps take a minute on a disk. */
static void make_folder(void) {
    const char *temporary = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
    folder = zt_path_join(temporary ? temporary : P_tmpdir, "ztrain-offload-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Fails where a run has left anything. */
static void remove_folder(void) {
    ck_assert_int_eq(remove(folder), 0);
    free(folder);
}

/* Objects of zero_optimization, behind which the object ends and another may begin; %s is the nvme_path. */
#define NVME(more) ", 'offload_optimizer': {'device': 'nvme', 'nvme_path': '%s'" more "}"
#define OVERLAP    ", 'pipeline_read': true, 'pipeline_write': true, 'buffer_count': 6"

static struct tiny_run train(struct zt_graph *(*make)(void), struct layout l) {
    char more[400];
    if (l.more) {
        snprintf(more, sizeof more, l.more, folder, folder);
        l.more = more;
    }
    return layout_train(make, l);
}

/* Trains the layout with and without `more`. */
static void check_same(struct zt_graph *(*make)(void), struct layout l, const char *more) {
    struct tiny_run without = train(make, l);
    l.more = more;
    struct tiny_run with = train(make, l);
    layout_check_close(&with, &without, 0, l);
    ck_assert_msg(with.hash == without.hash, "%d ranks, %s, %s: other weights", l.ranks, more,
                  l.optimizer ? l.optimizer : "AdamW");
}

static struct layout zero3(int ranks, const char *optimizer) {
    return (struct layout){ .ranks = ranks, .stages = 1, .zero = 3, .micro = 2, .optimizer = optimizer };
}

START_TEST(every_optimizer_trains_alike_from_files) {
    static const char *const types[] = { "AdamW", "Adam", "Lamb", "Lion", "Adagrad", "SGD" };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        check_same(tiny_deep, zero3(1 + i % 2, types[i]), NVME("") ", 'sub_group_size': 100000");
}
END_TEST

START_TEST(no_size_and_no_key_of_aio_changes_a_bit) {
    static const char *const more[] = {
        NVME(""),
        NVME("") ", 'sub_group_size': 1",
        NVME(", 'pipeline_read': true") ", 'sub_group_size': 200000",
        NVME(", 'pipeline_write': true") ", 'sub_group_size': 200000",
        NVME(OVERLAP) ", 'sub_group_size': 1}, 'aio': {'block_size': 4096, 'queue_depth': 3, 'single_submit': true",
        NVME(
            "") ", 'sub_group_size': 1}, 'aio': {'block_size': 512, 'overlap_events': false, 'intra_op_parallelism': 3",
        NVME(OVERLAP ", 'ratio': 0.3") ", 'sub_group_size': 1",
        NVME(", 'ratio': 0"),
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        check_same(tiny_deep, zero3(1, NULL), more[i]);
}
END_TEST

START_TEST(slices_of_several_ranks_train_alike_from_files) {
    check_same(tiny_wide, zero3(4, NULL), NVME("") ", 'sub_group_size': 1");
    check_same(tiny_deep, zero3(2, "Lamb"), NVME(OVERLAP ", 'ratio': 0.6") ", 'sub_group_size': 1");
    struct layout stages = zero3(4, NULL);
    stages.stages = 2;
    check_same(tiny_deep, stages, NVME("") ", 'sub_group_size': 1");
    check_same(tiny_tied, stages, NVME(""));
}
END_TEST

#define PARAM(more) ", 'offload_param': {'device': 'nvme', 'nvme_path': '%s'" more "}"

START_TEST(parameters_in_files_train_alike) {
    static const char *const more[] = {
        PARAM(", 'max_in_cpu': 0"),
        PARAM(", 'max_in_cpu': 0, 'buffer_count': 1"),
        PARAM(", 'max_in_cpu': 300000, 'buffer_count': 0, 'buffer_size': 5") NVME("") ", 'sub_group_size': 1",
        PARAM(", 'max_in_cpu': 0, 'buffer_count': 99") NVME(OVERLAP) ", 'sub_group_size': 1",
        PARAM(", 'max_in_cpu': 1500000") NVME(OVERLAP ", 'ratio': 0.3") ", 'sub_group_size': 1",
        PARAM(", 'max_in_cpu': 400000") NVME(", 'ratio': 0.7"),
        PARAM("") NVME(""),
        PARAM(", 'max_in_cpu': 0") ", 'stage3_param_persistence_threshold': 1000",
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        check_same(tiny_deep, zero3(1 + i % 2, i == 4 ? "Lamb" : NULL), more[i]);
    check_same(tiny_wide, zero3(4, NULL), PARAM(", 'max_in_cpu': 0, 'buffer_count': 2"));
    check_same(tiny_norm, zero3(1, NULL), PARAM(", 'max_in_cpu': 0") NVME(""));
    check_same(tiny_shared, zero3(2, NULL), PARAM(", 'max_in_cpu': 0") NVME(""));
}
END_TEST

START_TEST(on_a_cpu_offload_to_its_memory_changes_nothing) {
    for (int zero = 1; zero <= 3; zero++) {
        struct layout l = zero3(2, NULL);
        l.zero = zero;
        check_same(tiny_mlp, l, ", 'offload_optimizer': {'device': 'cpu'}, 'offload_param': {'device': 'cpu'}");
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("offload");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_add_test(cases, every_optimizer_trains_alike_from_files);
    tcase_add_test(cases, no_size_and_no_key_of_aio_changes_a_bit);
    tcase_add_test(cases, slices_of_several_ranks_train_alike_from_files);
    tcase_add_test(cases, parameters_in_files_train_alike);
    tcase_add_test(cases, on_a_cpu_offload_to_its_memory_changes_nothing);
    return run_suite("offload", cases, CK_NOFORK);
}
