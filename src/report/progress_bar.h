/* The progress bar as text: a function of what it shows. */
#ifndef ZT_REPORT_PROGRESS_BAR_H
#define ZT_REPORT_PROGRESS_BAR_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_bar {
    int64_t step, steps_total, epoch;
    double loss, lr, rate; /* rate: samples a second */
    double seconds_left;   /* negative: not known yet */
    int width;             /* columns of the terminal */
    bool colour;
};

/* "epoch 3 [=====>    ]  50% | loss 0.6931 | lr 1.0e-03 | 8123 samples/s | 0:01:40 left", one column short of the width
 * at most (colour codes not counted). */
void zt_bar_text(const struct zt_bar *bar, struct zt_text *to);

#endif
