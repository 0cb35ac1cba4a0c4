/* The statistics and coefficients of the channels, for both CPU kernels of batch normalisation: on planes of blocked
 * activations (batch_norm_blocked_cpu.c) and on slices of plain ones (batch_norm_cpu.c). Statistics take two steps:
 *
 *     each part      in float, to the workspace: its mean and the sum of squares around the mean, or two gradient sums
 *     each channel   in double, over its parts in the order of the samples:
 *                        mean = sum mean_p / N        M var = sum (squares_p + P (mean_p - mean)^2)
 *
 * with P elements per part, N parts, M = N P. For the batch of all ranks (batch_norm_sync.c) the ranks then add both
 * sums of a channel, and M counts the elements of all ranks.
 *
 * The workspace holds two floats per part and channel, then the coefficients of the map that follows, one number per
 * channel. */
#ifndef ZT_OPS_NORM_CHANNEL_SUMS_CPU_H
#define ZT_OPS_NORM_CHANNEL_SUMS_CPU_H

#include "ops/norm/norm.h"

/* Forwards y = (x - mean) FIRST + SECOND; backwards dx = FIRST dy + SECOND + THIRD (x - mean). */
enum { ZT_MEAN, ZT_FIRST, ZT_SECOND, ZT_THIRD, ZT_COEFFICIENTS };

struct zt_channel_sums {
    const struct zt_call *call;
    struct zt_batch_norm norm;
    bool fixed;          /* statistics are the running ones */
    bool sync;           /* they are those of all ranks */
    int64_t parts, wide; /* parts of a channel, and numbers from one part to the next: channels, padding included */
    double elements;     /* of a part */
    float *part[2], *coefficient[ZT_COEFFICIENTS];
};

/* Floats of workspace, and their places in it. */
int64_t zt_channel_sums_room(int64_t parts, int64_t wide);
void zt_channel_sums_place(struct zt_channel_sums *s, void *workspace);
/* Outputs but the first, and coefficients, from the parts' moments (which fixed statistics do without); false with an
 * error where a rank failed. Of this rank's own statistics also channels from..end-1 alone, end at most `wide`. */
bool zt_channel_statistics(struct zt_channel_sums *s, struct zt_err *err);
void zt_channel_own_statistics(struct zt_channel_sums *s, int64_t from, int64_t end);
/* The means, which the gradient sums are taken around; then in the same ways dscale, db and the coefficients from the
 * sums. */
void zt_channel_means(struct zt_channel_sums *s, int64_t from, int64_t end);
bool zt_channel_gradients(struct zt_channel_sums *s, struct zt_err *err);
void zt_channel_own_gradients(struct zt_channel_sums *s, int64_t from, int64_t end);

#endif
