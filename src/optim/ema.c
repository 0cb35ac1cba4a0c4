/* The exponential moving average of the weights (ztrain.ema). */
#include "optim/row.h"

ZT_CLONES static void average_run(float keep, float take, const float *restrict p, float *restrict average,
                                  int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_step_average(keep, take, p[i], &average[i]);
}

void zt_average(double decay, const float *p, float *average, int64_t count) {
    average_run((float)decay, (float)(1 - decay), p, average, count);
}
