#include "report/console.h"

#include "base/arena.h"
#include "base/clock.h"
#include "report/append_file.h"
#include "report/deepspeed_lines.h"
#include "report/progress_bar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct zt_console {
    struct zt_console_options o;
    struct zt_append_file metrics; /* closed: none */
    bool bar, colour, bar_shown;   /* bar: the terminal can redraw a line */
    double drawn;                  /* time of the last drawing, from zt_now() */
    double line_seconds;           /* seconds since the last console line */
    struct zt_deepspeed_interval interval;
    struct zt_deepspeed_throughput throughput;
    double run_seconds;
    int64_t line_samples, run_steps, skipped;
    struct zt_text text; /* the current row or line; reused, so that a step allocates nothing */
};

static bool set_in_environment(const char *name) {
    const char *value = getenv(name);
    return value && value[0];
}

/* Returns the console's text, emptied. */
static struct zt_text *fresh(struct zt_console *c) {
    c->text.length = 0;
    return &c->text;
}

static bool may_talk(const struct zt_console *c) {
    return !c->o.quiet && c->o.log && c->o.log->level <= ZT_LOG_INFO;
}

void zt_console_clear(struct zt_console *c) {
    if (c && c->bar_shown)
        fputs("\r\033[K", stderr);
    if (c)
        c->bar_shown = false;
}

static void draw_bar(struct zt_console *c, const struct zt_metrics_row *row) {
    double time = zt_now(), mean = c->run_seconds / (double)c->run_steps;
    if (row->step < c->o.steps_total && c->bar_shown && time - c->drawn < 0.1)
        return;
    struct winsize size = { 0 };
    struct zt_bar bar = { .step = row->step,
                          .steps_total = c->o.steps_total,
                          .epoch = row->epoch,
                          .loss = row->loss,
                          .lr = row->lr,
                          .rate = c->line_seconds > 0 ? (double)c->line_samples / c->line_seconds : 0,
                          .seconds_left = c->run_steps > 1 ? mean * (double)(c->o.steps_total - row->step) : -1,
                          .width = c->o.columns                                                  ? c->o.columns
                                   : ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
                                                                                                 : 80,
                          .colour = c->colour };
    struct zt_text *text = fresh(c);
    zt_bar_text(&bar, text);
    fprintf(stderr, "\r%s\033[K", text->at ? text->at : "");
    c->bar_shown = true;
    c->drawn = time;
    c->line_samples = 0;
    c->line_seconds = 0;
}

static void say_line(struct zt_console *c, const struct zt_metrics_row *row, int64_t batch) {
    double rate = c->line_seconds > 0 ? (double)c->line_samples / c->line_seconds : 0;
    if (c->o.log->json) {
        struct zt_text *text = fresh(c);
        zt_text_add(text, "{\"event\": \"step\", \"step\": %lld, \"epoch\": %lld, \"batch\": %lld, \"batches\": %lld, ",
                    (long long)row->step, (long long)row->epoch, (long long)batch, (long long)c->o.batches_per_epoch);
        zt_metrics_add_number(text, "loss", row->loss);
        zt_text_add(text, ", ");
        zt_metrics_add_number(text, "lr", row->lr);
        zt_text_add(text, ", ");
        zt_metrics_add_number(text, "samples_per_second", rate);
        fprintf(stderr, "%s}\n", text->at);
    } else {
        zt_say(c->o.log, ZT_LOG_INFO, "Epoch: %lld | Batch: %lld/%lld | Loss: %.4f | lr %.1e | %.0f samples/s",
               (long long)row->epoch, (long long)batch, (long long)c->o.batches_per_epoch, row->loss, row->lr, rate);
    }
    c->line_samples = 0;
    c->line_seconds = 0;
}

/* `multiple`: the step is a multiple of steps_per_print. */
static void say(struct zt_console *c, const struct zt_metrics_row *row, int64_t batch, bool multiple) {
    if (row->skipped)
        zt_console_clear(c);
    zt_deepspeed_say_scaling(c->o.log, row);
    if (c->bar) {
        draw_bar(c, row);
        return;
    }
    if (multiple || row->step == 1)
        say_line(c, row, batch);
    if (multiple)
        zt_deepspeed_say_step(c->o.log, c->o.config, row, c->skipped, fresh(c));
    if (multiple && c->o.config->parallel.stages > 1)
        zt_deepspeed_say_interval(c->o.log, row, &c->interval);
    else if (multiple && c->o.config->throughput)
        zt_deepspeed_say_throughput(c->o.log, &c->throughput, row, fresh(c));
}

static void talk(struct zt_console *c, const struct zt_metrics_row *row, int64_t batch) {
    int64_t every = c->o.config->steps_per_print;
    bool multiple = every > 0 && row->step % every == 0;
    c->line_samples += row->samples;
    c->line_seconds += row->seconds;
    c->run_seconds += row->seconds;
    c->run_steps++;
    c->skipped += row->skipped;
    c->interval.samples += row->samples;
    c->interval.seconds += row->seconds;
    c->interval.steps++;
    zt_deepspeed_count(&c->throughput, row);
    if (may_talk(c))
        say(c, row, batch, multiple);
    if (multiple)
        c->interval = (struct zt_deepspeed_interval){ 0 };
}

struct zt_console *zt_console_create(const struct zt_console_options *options, struct zt_err *err) {
    struct zt_console *c = zt_calloc(1, sizeof *c);
    const char *terminal = getenv("TERM");
    c->o = *options;
    c->bar = may_talk(c) && !options->log->json && (options->columns || isatty(STDERR_FILENO)) && terminal &&
             strcmp(terminal, "dumb") != 0;
    c->colour = c->bar && !set_in_environment("NO_COLOR");
    if (!options->folder)
        return c;
    c->skipped = options->skipped;
    if (zt_metrics_file_open(&c->metrics, options->folder, options->resumed, err))
        return c;
    zt_console_finish(c, err);
    return NULL;
}

void zt_console_begin(struct zt_console *c) {
    if (!c || !may_talk(c) || c->bar || c->o.config->steps_per_print <= 0)
        return;
    struct zt_arena *arena = zt_arena_create();
    const struct zt_lr_state state = zt_lr_state_of(c->o.config, arena);
    const struct zt_metrics_row row = { .next = zt_rate_at(c->o.config, &state, 0, 0), .lr_state = &state };
    zt_deepspeed_say_step(c->o.log, c->o.config, &row, 0, fresh(c));
    zt_arena_destroy(arena);
}

bool zt_console_step(struct zt_console *c, const struct zt_metrics_row *row, int64_t batch, struct zt_err *err) {
    bool ok = zt_metrics_file_step(&c->metrics, row, err);
    talk(c, row, batch);
    return ok;
}

bool zt_console_eval(struct zt_console *c, int64_t step, int64_t epoch, double loss, double accuracy,
                     struct zt_err *err) {
    bool ok = zt_metrics_file_eval(&c->metrics, step, epoch, loss, accuracy, err);
    zt_console_clear(c);
    if (may_talk(c) && c->o.log->json) {
        struct zt_text *row = fresh(c);
        zt_metrics_add_eval(row, step, epoch, loss, accuracy);
        fputs(row->at, stderr);
    } else if (may_talk(c) && isnan(accuracy))
        zt_say(c->o.log, ZT_LOG_INFO, "Evaluation: step %lld | Loss: %.4f", (long long)step, loss);
    else if (may_talk(c))
        zt_say(c->o.log, ZT_LOG_INFO, "Evaluation: step %lld | Loss: %.4f | accuracy %.4f", (long long)step, loss,
               accuracy);
    return ok;
}

void zt_console_checkpoint(struct zt_console *c, int64_t step, const char *path, int64_t bytes) {
    char size[32];
    zt_console_clear(c);
    if (!c || !may_talk(c))
        return;
    if (c->o.log->json)
        fprintf(stderr, "{\"event\": \"checkpoint\", \"step\": %lld, \"bytes\": %lld}\n", (long long)step,
                (long long)bytes);
    else
        zt_say(c->o.log, ZT_LOG_INFO, "Checkpoint: step %lld | %s | %s", (long long)step, path,
               zt_format_bytes(size, (double)bytes));
}

void zt_console_stopped(struct zt_console *c, int number) {
    zt_console_clear(c);
    if (c)
        zt_say(c->o.log, ZT_LOG_INFO, "Stopped by SIG%s after saving a checkpoint; --resume continues",
               sigabbrev_np(number));
}

bool zt_console_sync(struct zt_console *c, struct zt_err *err) {
    return !c || zt_append_file_flush(&c->metrics, true, err);
}

bool zt_console_finish(struct zt_console *c, struct zt_err *err) {
    if (!c)
        return true;
    if (c->bar_shown)
        fputc('\n', stderr);
    bool ok = zt_append_file_close(&c->metrics, err);
    zt_text_finish(&c->text);
    free(c);
    return ok;
}
