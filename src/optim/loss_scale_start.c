/* The first state of the loss scaler. Its rule, zt_scaling_step(), is in loss_scale.h, because the CUDA kernel of the
 * step has it too. */
#include "optim/loss_scale.h"

#include "config/config.h"

#include <float.h>
#include <math.h>

struct zt_scaling zt_scaling_of(const struct zt_config *config) {
    const struct zt_fp16_config *c = &config->fp16;
    const int dynamic = c->enabled && c->loss_scale == 0;
    return (struct zt_scaling){ .scale = dynamic      ? ldexp(1, c->initial_scale_power)
                                         : c->enabled ? c->loss_scale
                                                      : 1,
                                .since = 1,
                                .hysteresis = c->hysteresis,
                                .window = c->loss_scale_window,
                                .tolerated = c->hysteresis,
                                .least = fmax(c->min_loss_scale, (double)FLT_MIN),
                                .dynamic = dynamic,
                                .consecutive = c->consecutive_hysteresis };
}
