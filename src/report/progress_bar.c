#include "report/progress_bar.h"

#include <stdio.h>
#include <string.h>

enum { NARROWEST = 5, WIDEST = 40 }; /* columns between the brackets */

static void add_time(struct zt_text *to, double seconds) {
    int64_t s = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;
    zt_text_add(to, " | %lld:%02d:%02d left", (long long)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
}

static void add_bar(const struct zt_bar *bar, int columns, double done, struct zt_text *to) {
    int filled = (int)(done * columns);
    zt_text_add(to, "[%s", bar->colour ? "\033[32m" : "");
    for (int i = 0; i < columns; i++)
        zt_text_add(to, "%c", i < filled ? '=' : i == filled ? '>' : ' ');
    zt_text_add(to, "%s]", bar->colour ? "\033[0m" : "");
}

void zt_bar_text(const struct zt_bar *bar, struct zt_text *to) {
    struct zt_text numbers = { 0 };
    char epoch[32];
    double done = bar->steps_total > 0 ? (double)bar->step / (double)bar->steps_total : 0;
    done = done > 1 ? 1 : done;
    snprintf(epoch, sizeof epoch, "epoch %lld ", (long long)bar->epoch);
    zt_text_add(&numbers, " %3d%% | loss %.4f | lr %.1e | %.0f samples/s", (int)(done * 100), bar->loss, bar->lr,
                bar->rate);
    if (bar->seconds_left >= 0)
        add_time(&numbers, bar->seconds_left);
    int columns = bar->width - 1 - (int)strlen(epoch) - (int)numbers.length - 2;
    if (columns >= NARROWEST) {
        zt_text_add(to, "%s", epoch);
        add_bar(bar, columns < WIDEST ? columns : WIDEST, done, to);
    }
    int room = bar->width - 1; /* a narrow terminal shows only the numbers, truncated */
    int length = columns >= NARROWEST || (int)numbers.length < room ? (int)numbers.length : room;
    if (length > 0)
        zt_text_add(to, "%.*s", length, numbers.at);
    zt_text_finish(&numbers);
}
