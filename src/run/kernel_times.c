#include "run/kernel_times.h"

#include "run/rank/times.h"

#include <math.h>

enum { FEWEST_STEPS = 3 }; /* fewest steps of a run with timed kernels */

void zt_kernel_times_warn(const struct zt_kernel_times *t) {
    if (t->session->options->profile && t->steps < FEWEST_STEPS)
        zt_say(&t->session->options->log, ZT_LOG_WARNING, "--profile needs a run of at least %d steps", FEWEST_STEPS);
}

/* Sets the number of timed steps on all ranks, given that a step takes `seconds`: more for short steps, because a few
 * short steps may not be representative, but at most a tenth of the run. On a device it is one, because timing slows a
 * device down. */
static bool choose_timed(struct zt_kernel_times *t, double seconds, struct zt_err *err) {
    enum { FEWEST = 9, MOST = 256 };
    static const double together = 0.5;
    if (t->device->module) {
        t->timed = 1;
        return true;
    }
    const int64_t steps = t->steps - 2, tenth = steps / 10;
    if (!t->world->api->sum(t->world, &seconds, 1, err))
        return false;
    double wanted = fmin(fmin(together * t->world->size / seconds, MOST), (double)tenth);
    wanted = fmin(fmax(wanted, FEWEST), (double)steps);
    t->timed = (int)wanted;
    return true;
}

bool zt_kernel_times_step(struct zt_kernel_times *t, int64_t done, double seconds, struct zt_err *err) {
    const bool asked = t->session->options->profile || !t->session->config->cluster[0];
    if (!zt_rank_can_time(t->device) || !asked || t->steps < FEWEST_STEPS)
        return true;
    if (done == 0) {
        if (!choose_timed(t, seconds, err))
            return false;
        zt_rank_time(t->rank, t->timed);
    }
    if (done != t->timed)
        return true;
    bool ok = zt_forecast_times(t->forecast, t->rank, t->timed, t->world, err);
    zt_rank_time_end(t->rank);
    return ok;
}
