#include "report/monitor.h"

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

struct zt_monitor {
    struct zt_monitor_options o;
    struct zt_append_file metrics; /* closed: none */
    bool bar, colour, bar_shown;   /* bar: the terminal can redraw a line */
    double drawn;                  /* time of the last drawing, from zt_now() */
    double line_seconds;           /* seconds since the last console line */
    double run_seconds;
    int64_t line_samples, run_steps, skipped;
    struct zt_text text; /* the current row or line; reused, so that a step allocates nothing */
};

static bool set_in_environment(const char *name) {
    const char *value = getenv(name);
    return value && value[0];
}

/* Returns the monitor's text, emptied. */
static struct zt_text *fresh(struct zt_monitor *m) {
    m->text.length = 0;
    return &m->text;
}

/* ---- console ---- */

static bool may_talk(const struct zt_monitor *m) {
    return !m->o.quiet && m->o.log && m->o.log->level <= ZT_LOG_INFO;
}

void zt_monitor_clear(struct zt_monitor *m) {
    if (m && m->bar_shown)
        fputs("\r\033[K", stderr);
    if (m)
        m->bar_shown = false;
}

static void draw_bar(struct zt_monitor *m, const struct zt_metrics_row *row) {
    double time = zt_now(), mean = m->run_seconds / (double)m->run_steps;
    if (row->step < m->o.steps_total && m->bar_shown && time - m->drawn < 0.1)
        return;
    struct winsize size = { 0 };
    struct zt_bar bar = { .step = row->step,
                          .steps_total = m->o.steps_total,
                          .epoch = row->epoch,
                          .loss = row->loss,
                          .lr = row->lr,
                          .rate = m->line_seconds > 0 ? (double)m->line_samples / m->line_seconds : 0,
                          .seconds_left = m->run_steps > 1 ? mean * (double)(m->o.steps_total - row->step) : -1,
                          .width = m->o.columns                                                  ? m->o.columns
                                   : ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
                                                                                                 : 80,
                          .colour = m->colour };
    struct zt_text *text = fresh(m);
    zt_bar_text(&bar, text);
    fprintf(stderr, "\r%s\033[K", text->at ? text->at : "");
    m->bar_shown = true;
    m->drawn = time;
    m->line_samples = 0;
    m->line_seconds = 0;
}

static void say_line(struct zt_monitor *m, const struct zt_metrics_row *row, int64_t batch) {
    double rate = m->line_seconds > 0 ? (double)m->line_samples / m->line_seconds : 0;
    if (m->o.log->json) {
        struct zt_text *text = fresh(m);
        zt_text_add(text, "{\"event\": \"step\", \"step\": %lld, \"epoch\": %lld, \"batch\": %lld, \"batches\": %lld, ",
                    (long long)row->step, (long long)row->epoch, (long long)batch, (long long)m->o.batches_per_epoch);
        zt_metrics_add_number(text, "loss", row->loss);
        zt_text_add(text, ", ");
        zt_metrics_add_number(text, "lr", row->lr);
        zt_text_add(text, ", ");
        zt_metrics_add_number(text, "samples_per_second", rate);
        fprintf(stderr, "%s}\n", text->at);
    } else {
        zt_say(m->o.log, ZT_LOG_INFO, "Epoch: %lld | Batch: %lld/%lld | Loss: %.4f | lr %.1e | %.0f samples/s",
               (long long)row->epoch, (long long)batch, (long long)m->o.batches_per_epoch, row->loss, row->lr, rate);
    }
    m->line_samples = 0;
    m->line_seconds = 0;
}

static void talk(struct zt_monitor *m, const struct zt_metrics_row *row, int64_t batch) {
    int64_t every = m->o.config->steps_per_print;
    bool multiple = every > 0 && row->step % every == 0;
    m->line_samples += row->samples;
    m->line_seconds += row->seconds;
    m->run_seconds += row->seconds;
    m->run_steps++;
    m->skipped += row->skipped;
    if (!may_talk(m))
        return;
    if (row->skipped)
        zt_monitor_clear(m);
    zt_deepspeed_say_scaling(m->o.log, row);
    if (m->bar) {
        draw_bar(m, row);
        return;
    }
    if (multiple || row->step == 1)
        say_line(m, row, batch);
    if (multiple)
        zt_deepspeed_say_step(m->o.log, m->o.config, row, m->skipped, fresh(m));
}

/* ---- interface ---- */

struct zt_monitor *zt_monitor_create(const struct zt_monitor_options *options, struct zt_err *err) {
    struct zt_monitor *m = zt_calloc(1, sizeof *m);
    const char *terminal = getenv("TERM");
    m->o = *options;
    m->bar = may_talk(m) && !options->log->json && (options->columns || isatty(STDERR_FILENO)) && terminal &&
             strcmp(terminal, "dumb") != 0;
    m->colour = m->bar && !set_in_environment("NO_COLOR");
    if (!options->folder)
        return m;
    m->skipped = options->skipped;
    if (zt_metrics_file_open(&m->metrics, options->folder, options->resumed, err))
        return m;
    zt_monitor_finish(m, err);
    return NULL;
}

bool zt_monitor_step(struct zt_monitor *m, const struct zt_metrics_row *row, int64_t batch, struct zt_err *err) {
    bool ok = zt_metrics_file_step(&m->metrics, row, err);
    talk(m, row, batch);
    return ok;
}

bool zt_monitor_eval(struct zt_monitor *m, int64_t step, int64_t epoch, double loss, double accuracy,
                     struct zt_err *err) {
    bool ok = zt_metrics_file_eval(&m->metrics, step, epoch, loss, accuracy, err);
    zt_monitor_clear(m);
    if (may_talk(m) && m->o.log->json) {
        struct zt_text *row = fresh(m);
        zt_metrics_add_eval(row, step, epoch, loss, accuracy);
        fputs(row->at, stderr);
    } else if (may_talk(m) && isnan(accuracy))
        zt_say(m->o.log, ZT_LOG_INFO, "Evaluation: step %lld | Loss: %.4f", (long long)step, loss);
    else if (may_talk(m))
        zt_say(m->o.log, ZT_LOG_INFO, "Evaluation: step %lld | Loss: %.4f | accuracy %.4f", (long long)step, loss,
               accuracy);
    return ok;
}

void zt_monitor_checkpoint(struct zt_monitor *m, int64_t step, const char *path, int64_t bytes) {
    char size[32];
    zt_monitor_clear(m);
    if (!m || !may_talk(m))
        return;
    if (m->o.log->json)
        fprintf(stderr, "{\"event\": \"checkpoint\", \"step\": %lld, \"bytes\": %lld}\n", (long long)step,
                (long long)bytes);
    else
        zt_say(m->o.log, ZT_LOG_INFO, "Checkpoint: step %lld | %s | %s", (long long)step, path,
               zt_format_bytes(size, (double)bytes));
}

bool zt_monitor_sync(struct zt_monitor *m, struct zt_err *err) {
    return !m || zt_append_file_flush(&m->metrics, true, err);
}

bool zt_monitor_finish(struct zt_monitor *m, struct zt_err *err) {
    if (!m)
        return true;
    if (m->bar_shown)
        fputc('\n', stderr);
    bool ok = zt_append_file_close(&m->metrics, err);
    zt_text_finish(&m->text);
    free(m);
    return ok;
}
