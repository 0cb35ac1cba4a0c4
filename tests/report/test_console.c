#include "report/console.h"
#include "report/deepspeed_lines.h"
#include "report/progress_bar.h"

#include "base/file.h"
#include "optim/types/types.h"

#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static struct zt_config config;
static struct zt_log talk;
static struct zt_console_options options;
static const struct zt_metrics_row first = { .step = 1,
                                             .epoch = 0,
                                             .samples = 256,
                                             .loss = 2.30258512,
                                             .lr = 0.001,
                                             .next = { .lr = 0.002, .beta1 = 0.85, .beta2 = 0.99 },
                                             .grad_norm = 1.73,
                                             .loss_scale = 4294967296,
                                             .seconds = 0.03125,
                                             .micro_batches = 2,
                                             .allocated = 64 << 20,
                                             .peak = (size_t)3 << 30 };

static void set_up(void) {
    snprintf(folder, sizeof folder, "%s", "ztrain-monitor-XXXXXX"); /* below the current folder */
    ck_assert_ptr_nonnull(mkdtemp(folder));
    config = (struct zt_config){ .steps_per_print = 2,
                                 .optimizer = { .type = "AdamW", .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999 } };
    talk = (struct zt_log){ .level = ZT_LOG_INFO };
    options = (struct zt_console_options){
        .config = &config, .log = &talk, .folder = folder, .steps_total = 4, .batches_per_epoch = 196
    };
}

static void tear_down(void) {
    char *path = zt_path_join(folder, "metrics.jsonl"), *said = zt_path_join(folder, "stderr");
    unlink(path);
    unlink(said);
    rmdir(folder);
    free(path);
    free(said);
}

static char *contents(const char *name) {
    static char text[8192];
    char *path = zt_path_join(folder, name);
    FILE *f = fopen(path, "r");
    free(path);
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* Standard error goes to a file while `body` runs; what it said. */
static char *said_by(void (*body)(void)) {
    char *path = zt_path_join(folder, "stderr");
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600), old = dup(STDERR_FILENO);
    ck_assert_int_ge(file, 0);
    dup2(file, STDERR_FILENO);
    body();
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
    close(file);
    free(path);
    return contents("stderr");
}

static void run_four_steps(void) {
    struct zt_err err = { 0 };
    struct zt_console *m = zt_console_create(&options, &err);
    ck_assert_ptr_nonnull(m);
    zt_console_begin(m);
    for (int i = 0; i < 4; i++) {
        struct zt_metrics_row row = first;
        row.step = i + 1;
        row.skipped = i == 2;
        ck_assert(zt_console_step(m, &row, i, &err));
    }
    ck_assert(zt_console_eval(m, 4, 0, 0.08, 0.98, &err));
    ck_assert(zt_console_eval(m, 4, 0, 0.5, NAN, &err));
    ck_assert(zt_console_finish(m, &err));
}

START_TEST(a_row_is_written_as_the_contract_has_it) {
    struct zt_err err = { 0 };
    options.quiet = true;
    struct zt_console *m = zt_console_create(&options, &err);
    ck_assert(zt_console_step(m, &first, 0, &err));
    ck_assert_str_eq(contents("metrics.jsonl"),
                     "{\"step\": 1, \"epoch\": 0, \"loss\": 2.30258512, \"lr\": 0.001, \"grad_norm\": 1.73, "
                     "\"loss_scale\": 4294967296, "
                     "\"skipped\": false, \"samples\": 256, \"seconds\": 0.03125}\n");
    ck_assert(zt_console_finish(m, &err));
}
END_TEST

START_TEST(evaluation_rows_leave_out_an_accuracy_that_is_none) {
    options.quiet = true;
    run_four_steps();
    ck_assert_ptr_nonnull(strstr(contents("metrics.jsonl"),
                                 "{\"step\": 4, \"epoch\": 0, \"eval\": true, \"loss\": 0.08, \"accuracy\": 0.98}\n"
                                 "{\"step\": 4, \"epoch\": 0, \"eval\": true, \"loss\": 0.5}\n"));
}
END_TEST

START_TEST(a_loss_that_is_no_number_is_null) {
    struct zt_err err = { 0 };
    struct zt_metrics_row row = first;
    options.quiet = true;
    row.loss = NAN;
    row.grad_norm = INFINITY;
    struct zt_console *m = zt_console_create(&options, &err);
    ck_assert(zt_console_step(m, &row, 0, &err));
    ck_assert(zt_console_finish(m, &err));
    ck_assert_ptr_nonnull(strstr(contents("metrics.jsonl"), "\"loss\": null, \"lr\": 0.001, \"grad_norm\": null"));
}
END_TEST

START_TEST(float_losses_read_back_exactly) {
    struct zt_err err = { 0 };
    struct zt_metrics_row row = first;
    float loss = 0.1f + 0.2f;
    options.quiet = true;
    row.loss = (double)loss;
    struct zt_console *m = zt_console_create(&options, &err);
    ck_assert(zt_console_step(m, &row, 0, &err));
    ck_assert(zt_console_finish(m, &err));
    ck_assert(strtof(strstr(contents("metrics.jsonl"), "\"loss\": ") + 8, NULL) == loss);
}
END_TEST

START_TEST(lines_come_after_the_first_step_and_at_multiples) {
    ck_assert_str_eq(said_by(run_four_steps),
                     "step=0, skipped=0, lr=[0.001], mom=[[0.9, 0.999]]\n"
                     "Epoch: 0 | Batch: 0/196 | Loss: 2.3026 | lr 1.0e-03 | 8192 samples/s\n"
                     "Epoch: 0 | Batch: 1/196 | Loss: 2.3026 | lr 1.0e-03 | 8192 samples/s\n"
                     "step=2, skipped=0, lr=[0.002], mom=[[0.85, 0.99]]\n"
                     "[deepspeed] OVERFLOW! Rank 0 Skipping step.\n"
                     "Epoch: 0 | Batch: 3/196 | Loss: 2.3026 | lr 1.0e-03 | 8192 samples/s\n"
                     "step=4, skipped=1, lr=[0.002], mom=[[0.85, 0.99]]\n"
                     "Evaluation: step 4 | Loss: 0.0800 | accuracy 0.9800\n"
                     "Evaluation: step 4 | Loss: 0.5000\n");
}
END_TEST

/* Its rates are those of the next step, as DeepSpeed prints them; the metrics have the step's own. */
START_TEST(the_deepspeed_line_is_ahead_of_the_metrics) {
    ck_assert_ptr_nonnull(strstr(said_by(run_four_steps), "step=2, skipped=0, lr=[0.002]"));
    ck_assert_ptr_nonnull(strstr(contents("metrics.jsonl"), "\"lr\": 0.001,"));
}
END_TEST

START_TEST(the_deepspeed_line_has_an_entry_a_group) {
    struct zt_group_config groups[] = { { "*.bias", NAN, 0, -1 }, { "*.head", 0.01, NAN, -1 } };
    config.groups = groups;
    config.group_count = 2;
    config.optimizer.type = "SGD";
    config.optimizer.params = calloc(1, zt_optimizer_find("SGD")->type.bytes); /* momentum 0 */
    ck_assert_ptr_nonnull(strstr(said_by(run_four_steps), "lr=[0.002, 0.002, 0.02], mom=[0.0, 0.0, 0.0]\n"));
    free(config.optimizer.params);
}
END_TEST

static double printed_rate;

static void say_a_rate(void) {
    struct zt_metrics_row row = first;
    struct zt_text text = { 0 };
    row.next.lr = printed_rate;
    zt_deepspeed_say_step(&talk, &config, &row, 0, &text);
    zt_text_finish(&text);
}

/* Expected: Python's repr(). */
START_TEST(the_deepspeed_line_has_numbers_as_python_prints_them) {
    static const struct {
        double value;
        const char *text;
    } rows[] = { { 0, "0.0" },
                 { 1, "1.0" },
                 { 10, "10.0" },
                 { 100, "100.0" },
                 { 123456, "123456.0" },
                 { 1234.5, "1234.5" },
                 { 0.1, "0.1" },
                 { 0.1 + 0.2, "0.30000000000000004" },
                 { 1. / 3, "0.3333333333333333" },
                 { 0.001, "0.001" },
                 { 0.0001, "0.0001" },
                 { 0.00012, "0.00012" },
                 { 0.00010000000000000002, "0.00010000000000000002" },
                 { 0.00009, "9e-05" },
                 { 1e-5, "1e-05" },
                 { 1.5e-5, "1.5e-05" },
                 { 6.25e-125, "6.25e-125" },
                 { 5e-324, "5e-324" },
                 { 1e15, "1000000000000000.0" },
                 { 9007199254740992, "9007199254740992.0" },
                 { 9999999999999998, "9999999999999998.0" },
                 { 1e16, "1e+16" },
                 { 1.25e16, "1.25e+16" },
                 { 1e22, "1e+22" },
                 { -0.5, "-0.5" },
                 { INFINITY, "inf" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[80];
        printed_rate = rows[i].value;
        snprintf(expected, sizeof expected, "step=1, skipped=0, lr=[%s], mom=[[0.85, 0.99]]\n", rows[i].text);
        ck_assert_str_eq(said_by(say_a_rate), expected);
    }
}
END_TEST

static void run_uneven_steps(void) {
    struct zt_err err = { 0 };
    struct zt_console *m = zt_console_create(&options, &err);
    ck_assert_ptr_nonnull(m);
    for (int i = 0; i < 4; i++) {
        struct zt_metrics_row row = first;
        row.step = i + 1;
        row.seconds = 0.25 * (i + 1);
        row.samples = i < 3 ? 256 : 128;
        row.loss = 1.0 / (i + 1);
        ck_assert(zt_console_step(m, &row, i, &err));
    }
    ck_assert(zt_console_finish(m, &err));
}

START_TEST(a_pipeline_has_means_over_the_steps_since_the_last_line) {
    config.parallel.stages = 2;
    ck_assert_str_eq(said_by(run_uneven_steps),
                     "Epoch: 0 | Batch: 0/196 | Loss: 1.0000 | lr 1.0e-03 | 1024 samples/s\n"
                     "Epoch: 0 | Batch: 1/196 | Loss: 0.5000 | lr 1.0e-03 | 512 samples/s\n"
                     "step=2, skipped=0, lr=[0.002], mom=[[0.85, 0.99]]\n"
                     "steps: 2 loss: 0.5000 iter time (s): 0.375 samples/sec: 682.667\n"
                     "Epoch: 0 | Batch: 3/196 | Loss: 0.2500 | lr 1.0e-03 | 219 samples/s\n"
                     "step=4, skipped=0, lr=[0.002], mom=[[0.85, 0.99]]\n"
                     "steps: 4 loss: 0.2500 iter time (s): 0.875 samples/sec: 219.429\n");
    config.parallel.stages = 1;
    ck_assert_ptr_null(strstr(said_by(run_uneven_steps), "iter time"));
    config.parallel.stages = 2;
    options.quiet = true;
    ck_assert_str_eq(said_by(run_uneven_steps), "");
}
END_TEST

/* The first two steps do not count, and DeepSpeed's engine of a pipeline does not print the line. */
START_TEST(the_throughput_line_averages_from_the_third_step_on) {
    config.throughput = true;
    const char *said = said_by(run_uneven_steps);
    ck_assert_ptr_nonnull(strstr(said,
                                 "step=4, skipped=0, lr=[0.002], mom=[[0.85, 0.99]]\n"
                                 "epoch=0/micro_step=8/global_step=4, RunningAvgSamplesPerSec=219.42857142857142, "
                                 "CurrSamplesPerSec=128.0, MemAllocated=0.06GB, MaxMemAllocated=3.0GB\n"));
    ck_assert_ptr_null(strstr(said, "global_step=2"));
    config.parallel.stages = 2;
    ck_assert_ptr_null(strstr(said_by(run_uneven_steps), "global_step="));
}
END_TEST

START_TEST(quiet_says_nothing) {
    options.quiet = true;
    ck_assert_str_eq(said_by(run_four_steps), "");
}
END_TEST

START_TEST(json_lines_are_objects) {
    talk.json = true;
    char *at = said_by(run_four_steps);
    ck_assert_ptr_nonnull(
        strstr(at, "{\"event\": \"step\", \"step\": 1, \"epoch\": 0, \"batch\": 0, \"batches\": 196, "));
    for (char *line = strtok(at, "\n"); line; line = strtok(NULL, "\n"))
        ck_assert(line[0] == '{' && line[strlen(line) - 1] == '}');
}
END_TEST

START_TEST(steps_per_print_of_zero_prints_the_first_step_alone) {
    config.steps_per_print = 0;
    const char *text = said_by(run_four_steps);
    ck_assert_ptr_nonnull(strstr(text, "Batch: 0/196"));
    ck_assert_ptr_null(strstr(text, "Batch: 3/196"));
    ck_assert_ptr_null(strstr(text, "step="));
}
END_TEST

START_TEST(a_file_that_cannot_be_written_is_named) {
    struct zt_err err = { 0 };
    options.folder = "/nowhere/at/all";
    ck_assert_ptr_null(zt_console_create(&options, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    ck_assert_ptr_nonnull(strstr(err.text[0], "/nowhere/at/all/metrics.jsonl"));
}
END_TEST

START_TEST(without_a_folder_nothing_is_written) {
    options.folder = NULL;
    options.quiet = true;
    run_four_steps();
    char *path = zt_path_join(folder, "metrics.jsonl");
    ck_assert(!zt_file_exists(path));
    free(path);
}
END_TEST

START_TEST(finishing_none_is_harmless) {
    struct zt_err err = { 0 };
    zt_console_clear(NULL);
    ck_assert(zt_console_finish(NULL, &err));
}
END_TEST

/* Returns the output of four steps on a terminal. */
static const char *said_to_a_terminal(void) {
    static char text[8192];
    int terminal;
    size_t n = 0;
    pid_t child = forkpty(&terminal, NULL, NULL, &(struct winsize){ .ws_row = 24, .ws_col = 100 });
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        run_four_steps();
        _Exit(0);
    }
    for (ssize_t got; n < sizeof text - 1 && (got = read(terminal, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = 0;
    close(terminal);
    waitpid(child, NULL, 0);
    return text;
}

START_TEST(a_terminal_gets_a_bar) {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    const char *text = said_to_a_terminal();
    ck_assert_ptr_nonnull(strstr(text, "\repoch 0 [\033[32m"));
    ck_assert_ptr_nonnull(strstr(text, "100% | loss 2.3026 | lr 1.0e-03 | 8192 samples/s | 0:00:00 left"));
    ck_assert_ptr_nonnull(strstr(text, "Evaluation: "));
    ck_assert_ptr_null(strstr(text, "Batch:"));
    ck_assert_ptr_null(strstr(text, "step="));
}
END_TEST

START_TEST(no_color_takes_the_colour_away) {
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    const char *text = said_to_a_terminal();
    ck_assert_ptr_nonnull(strstr(text, "\repoch 0 [="));
    ck_assert_ptr_null(strstr(text, "\033[32m"));
}
END_TEST

START_TEST(a_terminal_that_cannot_redraw_gets_lines) {
    setenv("TERM", "dumb", 1);
    ck_assert_ptr_nonnull(strstr(said_to_a_terminal(), "Batch: 0/196"));
}
END_TEST

START_TEST(the_bar_keeps_to_the_width_of_the_terminal) {
    for (int width = 1; width < 200; width++) {
        struct zt_text text = { 0 };
        struct zt_bar bar = { .step = 50,
                              .steps_total = 100,
                              .epoch = 3,
                              .loss = 0.6931,
                              .lr = 1e-3,
                              .rate = 8123,
                              .seconds_left = 100,
                              .width = width };
        zt_bar_text(&bar, &text);
        ck_assert_int_lt((int)text.length, width);
        zt_text_finish(&text);
    }
}
END_TEST

START_TEST(the_bar_shows_how_much_is_done) {
    struct zt_text text = { 0 };
    struct zt_bar bar = { .step = 50,
                          .steps_total = 100,
                          .epoch = 3,
                          .loss = 0.6931,
                          .lr = 1e-3,
                          .rate = 8123,
                          .seconds_left = 100,
                          .width = 87 };
    zt_bar_text(&bar, &text);
    ck_assert_str_eq(text.at, "epoch 3 [======>     ]  50% | loss 0.6931 | lr 1.0e-03 | 8123 samples/s | 0:01:40 left");
    zt_text_finish(&text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("console");
    TCase *c = tcase_create("console");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, a_row_is_written_as_the_contract_has_it);
    tcase_add_test(c, evaluation_rows_leave_out_an_accuracy_that_is_none);
    tcase_add_test(c, a_loss_that_is_no_number_is_null);
    tcase_add_test(c, float_losses_read_back_exactly);
    tcase_add_test(c, lines_come_after_the_first_step_and_at_multiples);
    tcase_add_test(c, the_deepspeed_line_is_ahead_of_the_metrics);
    tcase_add_test(c, the_deepspeed_line_has_an_entry_a_group);
    tcase_add_test(c, the_deepspeed_line_has_numbers_as_python_prints_them);
    tcase_add_test(c, a_pipeline_has_means_over_the_steps_since_the_last_line);
    tcase_add_test(c, the_throughput_line_averages_from_the_third_step_on);
    tcase_add_test(c, quiet_says_nothing);
    tcase_add_test(c, json_lines_are_objects);
    tcase_add_test(c, steps_per_print_of_zero_prints_the_first_step_alone);
    tcase_add_test(c, a_file_that_cannot_be_written_is_named);
    tcase_add_test(c, without_a_folder_nothing_is_written);
    tcase_add_test(c, finishing_none_is_harmless);
    tcase_add_test(c, a_terminal_gets_a_bar);
    tcase_add_test(c, no_color_takes_the_colour_away);
    tcase_add_test(c, a_terminal_that_cannot_redraw_gets_lines);
    tcase_add_test(c, the_bar_keeps_to_the_width_of_the_terminal);
    tcase_add_test(c, the_bar_shows_how_much_is_done);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
