#include "optim/row.h"

enum { LANES = 16 };

/* One block. Element i goes to lane i mod 16 whatever the vector width, and the lanes are added in a fixed tree; that
 * order is the definition of the sum. */
ZT_CLONES static double block_squares(const float *x, int64_t count) {
    double lane[LANES] = { 0 };
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
    for (int64_t i = whole; i < count; i++)
        lane[i - whole] += (double)x[i] * (double)x[i];
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            lane[k] += lane[k + half];
    return lane[0];
}

double zt_sum_squares(const float *x, int64_t count) {
    double sum = 0;
    for (int64_t at = 0; at < count; at += ZT_NORM_BLOCK)
        sum += block_squares(x + at, count - at < ZT_NORM_BLOCK ? count - at : ZT_NORM_BLOCK);
    return sum;
}

/* min(1, c / (norm + 1e-6)); the small number is torch.nn.utils.clip_grad_norm_'s. */
double zt_clip_factor(double norm, double clip) {
    double factor = clip / (norm + 1e-6);
    return clip > 0 && factor < 1 ? factor : 1;
}
