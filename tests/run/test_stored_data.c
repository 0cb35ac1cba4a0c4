/* Data that stay on the device, over the emulated module: what they do where their file changes, or memory is short. */
#include "tests/suite.h"

#include "device/module.h"
#include "device/threads.h"
#include "plan/open.h"
#include "plan/rank_plan.h"
#include "run/rank_data.h"
#include "run/step.h"
#include "run/rank/stored_data.h"

#include <string.h>
#include <unistd.h>

enum { SAMPLES = 24, RECORD = 3073 };

/* A sample model and records of CIFAR-10 of its own, planned. */
struct walk {
    char folder[32], file[96], model[4096], config[4096], set[128];
    const char *sets[4];
    struct zt_options options;
    struct zt_session session;
    struct zt_device *device;
    struct zt_comm *comm;
    struct zt_rank_plan *plan;
    struct zt_rank *rank;
    struct zt_err err;
};

static void write_records(const char *path) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < SAMPLES * RECORD; i++)
        fputc(i % RECORD ? (i * 7 + i / RECORD * 13) % 256 : i / RECORD % 10, file);
    fclose(file);
}

static void open_walk(struct walk *w) {
    *w = (struct walk){ .folder = "scratch-XXXXXX" };
    ck_assert_ptr_nonnull(mkdtemp(w->folder));
    snprintf(w->file, sizeof w->file, "%s/data_batch_1.bin", w->folder);
    write_records(w->file);
    snprintf(w->model, sizeof w->model, "%s/models/convnet.onnx", getenv("ZT_ROOT"));
    snprintf(w->config, sizeof w->config, "%s/configs/ds_config.json", getenv("ZT_ROOT"));
    char *here = getcwd(NULL, 0);
    snprintf(w->set, sizeof w->set, "ztrain.data.path=%s/%s", here, w->folder);
    free(here);
    w->sets[0] = w->set;
    w->sets[1] = "train_batch_size=4";
    w->options = (struct zt_options){ .model = w->model, .config = w->config };
    w->options.configs = (struct zt_texts){ &w->options.config, 1 };
    w->options.log.level = ZT_LOG_ERROR;
    w->options.over =
        (struct zt_config_overrides){ .set = w->sets, .set_count = 2, .epochs = -1, .steps = 2, .seed = -1 };
    ck_assert_msg(zt_open(&w->session, &w->options, ZT_WEIGHTS_MAPPED, ZT_DATA_TRAIN, &w->err), "%s", w->err.text[0]);
    w->device = zt_module_device(getenv("ZT_MODULE"), 0, 1, &w->err);
    ck_assert_msg(w->device != NULL, "%s", w->err.text[0]);
    w->comm = zt_comm_self_create();
    struct zt_rank_options of = { .source = w->session.source, .device = w->device, .threads = 1 };
    w->plan = zt_rank_plan_create(w->session.job, &of, &w->err);
    ck_assert_msg(w->plan != NULL, "%s", w->err.text[0]);
}

static bool start(struct walk *w) {
    w->rank = zt_rank_create(w->plan, w->device, w->comm, w->comm, NULL, &w->err);
    return w->rank != NULL;
}

/* The loss of the first step. */
static double step(struct walk *w) {
    struct zt_loader *loader;
    struct zt_step_result result;
    ck_assert_msg(zt_rank_loader(w->rank, true, 0, 1, &loader, &w->err), "%s", w->err.text[0]);
    ck_assert_msg(zt_rank_step(w->rank, loader, 0, &result, &w->err), "%s", w->err.text[0]);
    zt_loader_destroy(loader);
    return result.loss;
}

static void close_walk(struct walk *w) {
    zt_rank_destroy(w->rank);
    zt_rank_plan_destroy(w->plan);
    w->comm->api->destroy(w->comm);
    w->device->api->destroy(w->device);
    zt_open_finish(&w->session);
    unlink(w->file);
    rmdir(w->folder);
}

START_TEST(a_file_cut_short_before_it_is_read_ends_the_run) {
    struct walk w;
    open_walk(&w);
    ck_assert_int_eq(truncate(w.file, RECORD), 0);
    ck_assert(!start(&w));
    ck_assert_int_eq(w.err.code, ZT_EXIT_DATA);
    ck_assert_msg(strstr(w.err.text[0], "changed while it was read") != NULL, "%s", w.err.text[0]);
    close_walk(&w);
}
END_TEST

START_TEST(a_file_that_changes_later_changes_nothing) {
    struct walk w;
    open_walk(&w);
    ck_assert_msg(start(&w), "%s", w.err.text[0]);
    const double loss = step(&w);
    zt_rank_destroy(w.rank);
    ck_assert_msg(start(&w), "%s", w.err.text[0]);
    ck_assert(zt_rank_stored_has(w.rank, w.session.source));
    ck_assert_int_eq(truncate(w.file, RECORD), 0);
    const double again = step(&w);
    ck_assert(loss == again);
    close_walk(&w);
}
END_TEST

/* Half of what is free must hold them: bytes, and a table of 256 floats a channel and of 256 classes. */
START_TEST(data_stay_where_half_of_what_is_free_holds_them) {
    enum { BYTES = SAMPLES * 3072 + 3 * 1024 + 64 + 2048 };
    struct walk w;
    char text[32];
    for (int short_of = 0; short_of < 2; short_of++) {
        snprintf(text, sizeof text, "%d", 2 * BYTES - short_of);
        open_walk(&w);
        setenv("ZT_EMULATED_FREE", text, 1);
        ck_assert_msg(start(&w), "%s", w.err.text[0]);
        unsetenv("ZT_EMULATED_FREE");
        ck_assert(zt_rank_stored_has(w.rank, w.session.source) == !short_of);
        close_walk(&w);
    }
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *test = tcase_create("stored");
    /* in this order: the module then has mapped files of its own, of its disk cache */
    tcase_add_test(test, a_file_that_changes_later_changes_nothing);
    tcase_add_test(test, a_file_cut_short_before_it_is_read_ends_the_run);
    tcase_add_test(test, data_stay_where_half_of_what_is_free_holds_them);
    return run_suite("gpu-stored", test, CK_NOFORK);
}
