#include "report/tags.h"

#include <math.h>

#define TAG(name) "Train/Samples/" name

struct tag {
    const char *name;
    double value;
};

static bool add_all(struct zt_monitors *m, const struct tag *tags, int count, int64_t samples, struct zt_err *err) {
    for (int i = 0; i < count; i++)
        if (!zt_monitors_add(m, tags[i].name, samples, tags[i].value, err))
            return false;
    return true;
}

bool zt_tags_step(struct zt_monitors *m, const struct zt_metrics_row *row, const struct zt_wall_clock *times,
                  int64_t samples, struct zt_err *err) {
    const double rate = row->seconds > 0 ? (double)row->samples / row->seconds : 0;
    const struct tag always[] = { { TAG("train_loss"), row->loss },
                                  { TAG("lr"), row->lr },
                                  { TAG("grad_norm"), row->grad_norm },
                                  { TAG("samples_per_second"), rate } };
    const struct tag scale = { TAG("loss_scale"), row->loss_scale };
    if (!zt_monitors_on(m))
        return true;
    if (!add_all(m, always, sizeof always / sizeof *always, samples, err) ||
        (row->scaling.dynamic && !add_all(m, &scale, 1, samples, err)))
        return false;
    if (!times)
        return true;
    const struct tag elapsed[] = { { TAG("elapsed_time_ms_forward"), 1e3 * times->forward },
                                   { TAG("elapsed_time_ms_backward"), 1e3 * times->backward },
                                   { TAG("elapsed_time_ms_backward_inner"), 1e3 * times->backward_inner },
                                   { TAG("elapsed_time_ms_backward_allreduce"), 1e3 * times->backward_reduce },
                                   { TAG("elapsed_time_ms_step"), 1e3 * times->step } };
    return add_all(m, elapsed, sizeof elapsed / sizeof *elapsed, samples, err);
}

bool zt_tags_eval(struct zt_monitors *m, double loss, double accuracy, int64_t samples, struct zt_err *err) {
    const struct tag tags[] = { { TAG("eval_loss"), loss }, { TAG("eval_accuracy"), accuracy } };
    return !zt_monitors_on(m) || add_all(m, tags, isnan(accuracy) ? 1 : 2, samples, err);
}
