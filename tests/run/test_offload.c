/* Offload changes where numbers are, never the numbers: the weights of a run have the same bits with it. */
#include "tests/run/layouts.h"
#include "tests/suite.h"

#include "base/arena.h"
#include "base/file.h"
#include "plan/rank_bytes.h"

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
#define NVME(more)  ", 'offload_optimizer': {'device': 'nvme', 'nvme_path': '%s'" more "}"
#define PARAM(more) ", 'offload_param': {'device': 'nvme', 'nvme_path': '%s'" more "}"
#define OVERLAP     ", 'pipeline_read': true, 'pipeline_write': true, 'buffer_count': 6"

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
    struct tiny_run without = layout_train_once(make, l);
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

START_TEST(matrices_train_alike_from_files) {
    static const char *const more[] = {
        NVME(""),
        NVME("") ", 'sub_group_size': 1",
        NVME(OVERLAP) ", 'sub_group_size': 1",
        NVME(OVERLAP ", 'ratio': 0.4") ", 'sub_group_size': 1",
        NVME(", 'pipeline_read': true") ", 'sub_group_size': 200000",
        NVME(OVERLAP) PARAM(", 'max_in_cpu': 0") ", 'sub_group_size': 1",
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        check_same(tiny_middle, zero3(1 + i % 2, "Muon"), more[i]);
    check_same(tiny_wide, zero3(2, "Muon"), more[1]);
    struct layout stages = zero3(4, "Muon");
    stages.stages = 2;
    check_same(tiny_middle, stages, more[2]);
}
END_TEST

START_TEST(the_average_of_the_weights_trains_alike_from_files) {
    static const char *const types[] = { "AdamW", "SGD", "Lamb", "Muon" };
    static const char *const more[] = {
        NVME("") ", 'sub_group_size': 1",
        NVME(OVERLAP) ", 'sub_group_size': 1",
        NVME(", 'ratio': 0.4") ", 'sub_group_size': 1",
        PARAM(", 'max_in_cpu': 0"),
        NVME(OVERLAP) PARAM(", 'max_in_cpu': 30000"),
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        for (size_t k = 0; k < 2; k++) {
            struct layout l = zero3(1 + (i + k) % 2, types[(i + 2 * k) % 4]);
            l.ema = 0.75;
            check_same(tiny_middle, l, more[i]);
        }
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
        check_same(tiny_middle, zero3(1, NULL), more[i]);
}
END_TEST

START_TEST(slices_of_several_ranks_train_alike_from_files) {
    check_same(tiny_wide, zero3(4, NULL), NVME("") ", 'sub_group_size': 1");
    check_same(tiny_middle, zero3(2, "Lamb"), NVME(OVERLAP ", 'ratio': 0.6") ", 'sub_group_size': 1");
    struct layout stages = zero3(4, NULL);
    stages.stages = 2;
    check_same(tiny_middle, stages, NVME("") ", 'sub_group_size': 1");
    check_same(tiny_tied, stages, NVME(""));
}
END_TEST

START_TEST(parameters_in_files_train_alike) {
    static const char *const more[] = {
        PARAM(", 'max_in_cpu': 0"),
        PARAM(", 'max_in_cpu': 0, 'buffer_count': 1"),
        PARAM(", 'max_in_cpu': 30000, 'buffer_count': 0, 'buffer_size': 5") NVME("") ", 'sub_group_size': 1",
        PARAM(", 'max_in_cpu': 0, 'buffer_count': 99") NVME(OVERLAP) ", 'sub_group_size': 1",
        PARAM(", 'max_in_cpu': 100000") NVME(OVERLAP ", 'ratio': 0.3") ", 'sub_group_size': 1",
        PARAM(", 'max_in_cpu': 40000") NVME(", 'ratio': 0.7"),
        PARAM("") NVME(""),
        PARAM(", 'max_in_cpu': 0") ", 'stage3_param_persistence_threshold': 1000",
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        check_same(tiny_middle, zero3(1 + i % 2, i == 4 ? "Lamb" : NULL), more[i]);
    check_same(tiny_wide, zero3(4, NULL), PARAM(", 'max_in_cpu': 0, 'buffer_count': 2"));
    check_same(tiny_norm, zero3(1, NULL), PARAM(", 'max_in_cpu': 0") NVME(""));
    check_same(tiny_shared, zero3(2, NULL), PARAM(", 'max_in_cpu': 0") NVME(""));
    struct layout stages = zero3(4, NULL);
    stages.stages = 2;
    check_same(tiny_middle, stages, PARAM(", 'max_in_cpu': 0") NVME(OVERLAP) ", 'sub_group_size': 1");
    stages.ranks = 2;
    check_same(tiny_middle, stages, PARAM(", 'max_in_cpu': 0"));
}
END_TEST

START_TEST(parameters_that_stages_share_stay_in_memory) {
    struct tiny t;
    struct zt_err err = { 0 };
    ck_assert(tiny_open(&t, tiny_tied(),
                        "'train_batch_size': 8, 'pipeline': {'stages': 2}, 'zero_optimization': {'stage': 3, "
                        "'offload_param': {'device': 'nvme', 'nvme_path': '/none'}}, 'optimizer': {'type': 'AdamW'}",
                        2, &err));
    struct zt_rank_options options = { .source = t.source, .threads = 1 };
    ck_assert_ptr_null(zt_rank_plan_create(t.job, &options, &err));
    ck_assert_msg(strstr(err.text[0], "excludes weights that pipeline stages share"), "%s", err.text[0]);
    tiny_finish(&t);
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

/* Bytes of the only rank of tiny_middle with AdamW, on a CPU or planned for a GPU. */
static struct zt_rank_bytes plan_bytes(const char *zero, bool gpu) {
    struct tiny t;
    struct zt_err err = { 0 };
    char config[400];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'zero_optimization': {'stage': 3%s}, 'optimizer': {'type': 'AdamW', 'params': "
             "{'lr': 0.01}}",
             zero);
    ck_assert_msg(tiny_open(&t, tiny_middle(), config, 1, &err), "%s", err.text[0]);
    struct zt_rank_options options = { .source = t.source, .threads = 1, .elsewhere = gpu };
    struct zt_rank_plan *plan = zt_rank_plan_create(t.job, &options, &err);
    ck_assert_msg(plan != NULL, "%s", err.text[0]);
    struct zt_rank_bytes bytes = zt_rank_plan_bytes(plan, 0);
    zt_rank_plan_destroy(plan);
    tiny_finish(&t);
    return bytes;
}

enum { MIDDLE = 12 * 256 + 256 + 256 * 512 + 512 + 512 * 5 + 5, SLACK = 64 * 1024 /* ends of blocks of the disk */ };

#define OBJECT(name, device, more) ", '" name "': {'device': '" device "', 'nvme_path': '/none'" more "}"

START_TEST(the_plan_counts_what_is_where) {
    const struct zt_rank_bytes whole = plan_bytes("", false);
    ck_assert_int_eq(whole.optimizer, 8 * MIDDLE);
    ck_assert_int_eq(whole.host + whole.nvme, 0);
    struct zt_rank_bytes b = plan_bytes(OBJECT("offload_optimizer", "nvme", ""), false);
    ck_assert_int_eq(b.nvme, 8 * MIDDLE);
    ck_assert_int_eq(b.parameters, whole.parameters);
    ck_assert_int_ge(b.optimizer, 8 * MIDDLE); /* one sub-group has it all */
    ck_assert_int_le(b.optimizer, 8 * MIDDLE + 2 * SLACK);
    b = plan_bytes(OBJECT("offload_optimizer", "nvme", "") OBJECT("offload_param", "nvme", ", 'max_in_cpu': 0"), false);
    ck_assert_int_eq(b.nvme, 12 * MIDDLE);
    b = plan_bytes(OBJECT("offload_optimizer", "nvme", "") "}, 'ztrain': {'ema': 0.9", false);
    ck_assert_int_eq(b.nvme, 12 * MIDDLE);
    b = plan_bytes(OBJECT("offload_optimizer", "nvme", ", 'ratio': 0.5"), false);
    ck_assert_int_eq(b.nvme, MIDDLE / 2 * 8);
    b = plan_bytes(OBJECT("offload_optimizer", "cpu", ""), true);
    ck_assert_int_eq(b.optimizer + b.nvme, 0);
    ck_assert_int_ge(b.host, 12 * MIDDLE + 8 * MIDDLE); /* states, master weights; two buffers of gradients */
    ck_assert_int_le(b.host, 12 * MIDDLE + 8 * MIDDLE + 2 * SLACK);
    b = plan_bytes(OBJECT("offload_optimizer", "cpu", "") "}, 'ztrain': {'ema': 0.9", true);
    ck_assert_int_eq(b.optimizer + b.nvme, 0);
    ck_assert_int_ge(b.host, 16 * MIDDLE + 8 * MIDDLE);
    b = plan_bytes(OBJECT("offload_optimizer", "cpu", "") OBJECT("offload_param", "cpu", ""), true);
    ck_assert_int_ge(b.host, 20 * MIDDLE);
    ck_assert_int_eq(b.parameters + 4 * MIDDLE, plan_bytes("", true).parameters);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("offload");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_add_test(cases, every_optimizer_trains_alike_from_files);
    tcase_add_test(cases, matrices_train_alike_from_files);
    tcase_add_test(cases, the_average_of_the_weights_trains_alike_from_files);
    tcase_add_test(cases, no_size_and_no_key_of_aio_changes_a_bit);
    tcase_add_test(cases, slices_of_several_ranks_train_alike_from_files);
    tcase_add_test(cases, parameters_in_files_train_alike);
    tcase_add_test(cases, parameters_that_stages_share_stay_in_memory);
    tcase_add_test(cases, on_a_cpu_offload_to_its_memory_changes_nothing);
    tcase_add_test(cases, the_plan_counts_what_is_where);
    return run_suite("offload", cases, CK_NOFORK);
}
