/* Formatting of the progress bar. */
#ifndef ZT_REPORT_PROGRESS_BAR_H
#define ZT_REPORT_PROGRESS_BAR_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_bar {
    int64_t step, steps_total, epoch;
    double loss, lr, rate; /* rate: samples/s */
    double seconds_left;   /* negative: unknown */
    int width;             /* columns of the terminal */
    bool colour;
};

/* Appends "epoch 3 [=====>    ]  50% | loss 0.6931 | lr 1.0e-03 | 8123 samples/s | 0:01:40 left", at most width - 1
 * columns without colour codes. */
void zt_bar_text(const struct zt_bar *bar, struct zt_text *to);

#endif
