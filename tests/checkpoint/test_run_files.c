/* The files of a run: which folders hold a run, and what a run may not write over. */
#include "tests/suite.h"

#include "base/arena.h"
#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/run_files.h"

#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/ztrain-files-XXXXXX";
static struct zt_err err;
static struct zt_config config;
static struct zt_options options;
static const struct zt_session session = { .options = &options, .config = &config };

static char *in_folder(const char *name) {
    static char path[sizeof folder + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name) {
    FILE *file = fopen(in_folder(name), "w");
    ck_assert(file && fputs("x", file) >= 0 && fclose(file) == 0);
}

static void make_folder(void) {
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    err = (struct zt_err){ 0 };
    options = (struct zt_options){ 0 };
    config = (struct zt_config){ 0 };
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_folder(void) {
    ck_assert_int_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void refused(bool ok, const char *says) {
    ck_assert(!ok && err.count == 1 && err.code == ZT_EXIT_DATA);
    ck_assert_msg(strstr(err.text[0], says), "%s", err.text[0]);
    err.count = 0;
}

START_TEST(a_folder_with_any_file_that_a_run_writes_holds_a_run) {
    static const char *const names[] = { "metrics.jsonl",        "model.onnx.data",      "plan.txt",
                                         "config.resolved.json", "memory.jsonl",         "hashes-3.bin",
                                         "trace.json",           "Train_Samples_lr.csv", "profile.tsv",
                                         "model.16bit.onnx",     "adapter_config.json" };
    put("m.onnx");
    put("report.html");
    put("hashes.bin");
    ck_assert(zt_run_files_absent(&options, folder, &err) && err.count == 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put(names[i]);
        refused(zt_run_files_absent(&options, folder, &err), names[i]);
        ck_assert(zt_run_files_writable(&session, folder, &err));
        unlink(in_folder(names[i]));
    }
    put("plan.txt");
    options.resume = true;
    ck_assert(zt_run_files_absent(&options, folder, &err));
}
END_TEST

START_TEST(a_run_does_not_write_over_what_it_reads) {
    struct zt_file_map map;
    char name[sizeof folder + 64];
    const char *const configs[] = { name };
    options.overwrite = true;
    put("model.onnx");
    strcpy(name, in_folder("model.onnx"));
    ck_assert(zt_run_files_writable(&session, folder, &err));
    options.model = name;
    refused(zt_run_files_writable(&session, folder, &err), "model.onnx: cannot be written: the command reads it");
    options.model = NULL;
    config.data.path = name;
    refused(zt_run_files_writable(&session, folder, &err), "model.onnx: cannot be written: the command reads it");
    config.data.path = NULL;
    options.configs = (struct zt_texts){ (const char **)configs, 1 };
    put("config.resolved.json");
    strcpy(name, in_folder("config.resolved.json"));
    ck_assert(zt_run_files_writable(&session, folder, &err)); /* a run is continued with its own config */
    put("plan.txt");
    strcpy(name, in_folder("plan.txt"));
    refused(zt_run_files_writable(&session, folder, &err), "plan.txt: cannot be written");
    strcpy(name, in_folder("config.resolved.json"));
    config.flops = (struct zt_flops_config){ .enabled = true, .output_file = name };
    refused(zt_run_files_writable(&session, "/nonexistent", &err), "config.resolved.json: cannot be written");
    config.flops.enabled = false;
    options.configs.count = 0;
    /* external data, and a checkpoint of --load */
    put("model.onnx.data");
    ck_assert(zt_file_map_below(&map, folder, "model.onnx.data", ZT_EXIT_MODEL, &err));
    refused(zt_run_files_writable(&session, folder, &err), "model.onnx.data: cannot be written");
    zt_file_unmap(&map);
    mkdir(in_folder("checkpoints"), 0777);
    put("checkpoints/weights");
    ck_assert(zt_file_map(&map, in_folder("checkpoints/weights"), ZT_EXIT_DATA, &err));
    refused(zt_run_files_writable(&session, folder, &err), "checkpoints: cannot be written: the command reads it");
    options.overwrite = false;
    ck_assert(zt_run_files_writable(&session, folder, &err));
    zt_file_unmap(&map);
}
END_TEST

START_TEST(a_name_that_is_taken_by_something_else_is_refused) {
    mkdir(in_folder("model.onnx"), 0777);
    refused(zt_run_files_writable(&session, folder, &err), "model.onnx: cannot be written: it is a folder");
    rmdir(in_folder("model.onnx"));
    put("checkpoints");
    refused(zt_run_files_writable(&session, folder, &err), "checkpoints: cannot be written: it is not a folder");
    unlink(in_folder("checkpoints"));
    mkfifo(in_folder("metrics.jsonl"), 0666);
    refused(zt_run_files_writable(&session, folder, &err),
            "metrics.jsonl: cannot be written: it is not a regular file");
}
END_TEST

START_TEST(the_files_of_a_replaced_run_are_removed_and_no_others) {
    put("model.onnx");
    put("model.onnx.data");
    put("Train_Samples_lr.csv");
    put("report.html");
    put("hashes-0.bin");
    put("m.onnx");
    zt_run_files_remove(folder);
    ck_assert(!zt_file_exists(in_folder("model.onnx")) && !zt_file_exists(in_folder("model.onnx.data")));
    ck_assert(!zt_file_exists(in_folder("Train_Samples_lr.csv")) && !zt_file_exists(in_folder("report.html")));
    ck_assert(zt_file_exists(in_folder("hashes-0.bin")) && zt_file_exists(in_folder("m.onnx")));
}
END_TEST

START_TEST(checkpoints_after_the_step_of_a_resumed_run_count_as_the_oldest) {
    const struct zt_checkpoint_folder checkpoints = { folder, "step-" };
    for (int kept = 3; kept > 0; kept--) {
        static const char *const names[] = { "step-11", "step-10", "step-14", "step-12" }; /* in the order they stay */
        for (int i = 0; i < 4; i++)
            mkdir(in_folder(names[i]), 0777);
        ck_assert(zt_checkpoint_prune(&checkpoints, 11, kept, 12, &err));
        for (int i = 0; i < 4; i++)
            ck_assert_msg(zt_file_exists(in_folder(names[i])) == (i < kept || i == 3 /* the best */), "%d: %s", kept,
                          names[i]);
    }
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("run-files");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, a_folder_with_any_file_that_a_run_writes_holds_a_run);
    tcase_add_test(tests, a_run_does_not_write_over_what_it_reads);
    tcase_add_test(tests, a_name_that_is_taken_by_something_else_is_refused);
    tcase_add_test(tests, the_files_of_a_replaced_run_are_removed_and_no_others);
    tcase_add_test(tests, checkpoints_after_the_step_of_a_resumed_run_count_as_the_oldest);
    return run_suite("run-files", tests, CK_FORK);
}
