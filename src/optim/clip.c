/* Clipping of gradients by their norm: the sum of squares, and the factor. */
#include "optim/row.h"

enum { VECTOR = 16 }; /* partial sums of a block */

/* One block. Element i is added to partial sum i mod 16, whatever the vector width, and the partial sums are added in a
 * fixed tree: this order defines the sum. */
ZT_CLONES static double block_squares(const float *x, int64_t count) {
    double part[VECTOR] = { 0 };
    int64_t whole = count - count % VECTOR;
    for (int64_t i = 0; i < whole; i += VECTOR)
        for (int k = 0; k < VECTOR; k++)
            part[k] += (double)x[i + k] * (double)x[i + k];
    for (int64_t i = whole; i < count; i++)
        part[i - whole] += (double)x[i] * (double)x[i];
    for (int half = VECTOR / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            part[k] += part[k + half];
    return part[0];
}

double zt_sum_squares(const float *x, int64_t count) {
    double sum = 0;
    for (int64_t at = 0; at < count; at += ZT_NORM_BLOCK)
        sum += block_squares(x + at, count - at < ZT_NORM_BLOCK ? count - at : ZT_NORM_BLOCK);
    return sum;
}

/* min(1, c / (norm + 1e-6)); the small number is that of torch.nn.utils.clip_grad_norm_. */
double zt_clip_factor(double norm, double clip) {
    double factor = clip / (norm + 1e-6);
    return clip > 0 && factor < 1 ? factor : 1;
}
