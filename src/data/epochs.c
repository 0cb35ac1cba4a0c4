#include "data/epochs.h"

static int64_t up(int64_t n, int64_t unit) {
    return n / unit + (n % unit != 0);
}

struct zt_epochs zt_epochs_of(const struct zt_config *c, int64_t samples) {
    struct zt_epochs e = { .samples = samples, .batch = c->train_batch, .carries = c->data.carries };
    int64_t unit = e.carries ? c->micro_batch * c->data_parallel : e.batch;
    if (c->data.drop_last)
        e.samples -= samples % unit;
    else if (e.carries)
        e.samples = up(samples, c->data_parallel) * c->data_parallel;
    return e;
}

int64_t zt_epochs_batches(const struct zt_epochs *e) {
    return up(e->samples, e->batch);
}

struct zt_epoch_place zt_epochs_at(const struct zt_epochs *e, int64_t step) {
    if (!e->carries) {
        int64_t batches = zt_epochs_batches(e), batch = step % batches;
        return (struct zt_epoch_place){ step / batches, batch, batch * e->batch };
    }
    int64_t at = step * e->batch, epoch = at / e->samples;
    return (struct zt_epoch_place){ epoch, step - up(epoch * e->samples, e->batch), at % e->samples };
}

int64_t zt_epochs_ended(const struct zt_epochs *e, int64_t steps) {
    return e->carries ? steps * e->batch / e->samples : steps / zt_epochs_batches(e);
}

int64_t zt_epochs_steps(const struct zt_epochs *e, int64_t epochs) {
    return e->carries ? epochs * e->samples / e->batch : epochs * zt_epochs_batches(e);
}
