/* Offload from a device whose memory the host cannot touch (far_device.h): the host updates what is offloaded, and the
 * weights have the bits that the device's own update leaves. */
#include "tests/gpu/far_device.h"
#include "tests/run/layouts.h"
#include "tests/suite.h"

#include "base/arena.h"
#include "base/file.h"
#include "device/threads.h"

#include <unistd.h>

static char *folder;

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

static struct tiny_run train(struct zt_graph *(*make)(void), struct layout l, const char *more) {
    char text[400];
    snprintf(text, sizeof text, more, folder, folder);
    l.more = text;
    return layout_train(make, l);
}

/* Trains the layout with and without `more`, both away. */
static void check_same(struct zt_graph *(*make)(void), struct layout l, const char *more) {
    l.device = far_device_create;
    struct tiny_run without = layout_train_once(make, l), with = train(make, l, more);
    layout_check_close(&with, &without, 0, l);
    ck_assert_msg(with.hash == without.hash, "zero %d, %d ranks, %s, %s: other weights", l.zero, l.ranks, more,
                  l.optimizer ? l.optimizer : "AdamW");
}

static struct layout zero(int stage, int ranks, const char *optimizer) {
    return (struct layout){ .ranks = ranks, .stages = 1, .zero = stage, .micro = 2, .optimizer = optimizer };
}

#define OPTIMIZER(device, more) ", 'offload_optimizer': {'device': '" device "'" more "}"
#define PARAM(device, more)     ", 'offload_param': {'device': '" device "'" more "}"
#define PATH                    ", 'nvme_path': '%s'"
#define OVERLAP                 ", 'pipeline_read': true, 'pipeline_write': true, 'buffer_count': 8"

START_TEST(the_host_updates_as_the_device) {
    static const char *const types[] = { "AdamW", "Adam", "Lamb", "Lion", "Adagrad", "SGD" };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        check_same(tiny_middle, zero(1, 1, types[i]), OPTIMIZER("cpu", "") ", 'sub_group_size': 100000");
    for (int stage = 1; stage <= 3; stage++) {
        check_same(tiny_wide, zero(stage, 2, "Lamb"), OPTIMIZER("cpu", ""));
        check_same(tiny_middle, zero(stage, 2, NULL), OPTIMIZER("cpu", "") ", 'sub_group_size': 1");
    }
}
END_TEST

START_TEST(states_of_a_device_in_files_train_alike) {
    static const char *const more[] = {
        OPTIMIZER("nvme", PATH),
        OPTIMIZER("nvme", PATH OVERLAP) ", 'sub_group_size': 1",
        OPTIMIZER("nvme", PATH ", 'pipeline_write': true") ", 'sub_group_size': 1",
        OPTIMIZER("nvme", PATH ", 'ratio': 0.4") ", 'sub_group_size': 1",
        OPTIMIZER("cpu", ", 'ratio': 0.4") ", 'sub_group_size': 1",
        OPTIMIZER("cpu", ", 'ratio': 0"),
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        check_same(tiny_middle, zero(3, 1 + i % 2, NULL), more[i]);
    check_same(tiny_middle, zero(3, 2, "Lamb"), more[1]);
}
END_TEST

START_TEST(parameters_away_from_a_device_train_alike) {
    static const char *const more[] = {
        PARAM("cpu", "") OPTIMIZER("cpu", ""),
        PARAM("cpu", "") OPTIMIZER("nvme", PATH OVERLAP) ", 'sub_group_size': 1",
        PARAM("nvme", PATH ", 'max_in_cpu': 0, 'buffer_count': 2") OPTIMIZER("cpu", "") ", 'sub_group_size': 1",
        PARAM("nvme", PATH ", 'max_in_cpu': 0") OPTIMIZER("nvme", PATH) ", 'sub_group_size': 1",
        PARAM("nvme", PATH ", 'max_in_cpu': 70000, 'buffer_count': 1") OPTIMIZER("nvme", PATH OVERLAP),
        PARAM("nvme", PATH) OPTIMIZER("cpu", ""),
        PARAM("cpu", "") OPTIMIZER("cpu", "") ", 'stage3_param_persistence_threshold': 1000",
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        check_same(tiny_middle, zero(3, 1 + i % 2, i == 3 ? "Lamb" : NULL), more[i]);
    struct layout stages = zero(3, 4, NULL);
    stages.stages = 2;
    check_same(tiny_middle, stages, more[0]);
    check_same(tiny_tied, stages, OPTIMIZER("cpu", "") ", 'sub_group_size': 1");
    check_same(tiny_norm, zero(3, 1, "SGD"), more[0]);
    check_same(tiny_shared, zero(3, 2, NULL), more[3]);
}
END_TEST

/* Device memory holds nothing of what the host updates: masters, matrices, and the average. */
START_TEST(matrices_and_averages_away_from_a_device_train_alike) {
    static const struct {
        const char *type, *more;
        double ema;
    } rows[] = {
        { "Muon", OPTIMIZER("cpu", "") ", 'sub_group_size': 1", 0 },
        { "AdamW", OPTIMIZER("cpu", "") ", 'sub_group_size': 1", 0.75 },
        { "Muon", OPTIMIZER("nvme", PATH OVERLAP) ", 'sub_group_size': 1", 0.75 },
        { "SGD", OPTIMIZER("nvme", PATH) ", 'sub_group_size': 1", 0.75 },
        { "Muon", PARAM("cpu", "") OPTIMIZER("cpu", ""), 0.75 },
        { "Muon", PARAM("nvme", PATH ", 'max_in_cpu': 0") OPTIMIZER("nvme", PATH OVERLAP) ", 'sub_group_size': 1", 0 },
        { "AdamW", PARAM("cpu", "") OPTIMIZER("nvme", PATH), 0.75 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct layout l = zero(3, 1 + i % 2, rows[i].type);
        l.ema = rows[i].ema;
        check_same(tiny_middle, l, rows[i].more);
    }
    for (int stage = 1; stage <= 2; stage++)
        check_same(tiny_wide, zero(stage, 2, "Muon"), OPTIMIZER("cpu", ""));
    struct layout part = zero(3, 2, NULL);
    part.ema = 0.75;
    check_same(tiny_middle, part, OPTIMIZER("nvme", PATH ", 'ratio': 0.4") ", 'sub_group_size': 1");
    check_same(tiny_middle, part, OPTIMIZER("cpu", ", 'ratio': 0.4") ", 'sub_group_size': 1");
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *cases = tcase_create("offload away");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_add_test(cases, the_host_updates_as_the_device);
    tcase_add_test(cases, states_of_a_device_in_files_train_alike);
    tcase_add_test(cases, parameters_away_from_a_device_train_alike);
    tcase_add_test(cases, matrices_and_averages_away_from_a_device_train_alike);
    return run_suite("offload_away", cases, CK_NOFORK);
}
