#include "data/epochs.h"

static int64_t up(int64_t n, int64_t unit) {
    return n / unit + (n % unit != 0);
}

struct zt_epochs zt_epochs_of(const struct zt_config *c, int64_t samples) {
    struct zt_epochs e = { .samples = samples, .batch = c->train_batch, .carries = c->data.carries };
    const int64_t micro_batch = c->micro_batch * c->data_parallel, unit = e.carries ? micro_batch : e.batch;
    if (c->data.drop_last)
        e.samples -= samples % unit;
    else if (e.carries)
        e.samples = up(samples, c->data_parallel) * c->data_parallel;
    if (e.carries) { /* no micro-batch has more than an epoch */
        e.unit = e.samples && e.samples < unit ? e.samples : unit;
        e.batch = e.batch / micro_batch * e.unit;
    }
    return e;
}

/* Micro-batches of an epoch of a stream, and of a step. */
static int64_t epoch_pieces(const struct zt_epochs *e) {
    return up(e->samples, e->unit);
}

static int64_t step_pieces(const struct zt_epochs *e) {
    return e->batch / e->unit;
}

/* Samples of the stream before micro-batch `k`: the last one of each epoch lacks some. */
static int64_t before(const struct zt_epochs *e, int64_t k) {
    const int64_t pieces = epoch_pieces(e), lack = pieces * e->unit - e->samples;
    return k * e->unit - k / pieces * lack;
}

struct zt_epoch_piece zt_epochs_piece(const struct zt_epochs *e, int64_t step, int64_t micro_batch) {
    const int64_t first = step * step_pieces(e), at = before(e, first + micro_batch);
    return (struct zt_epoch_piece){ at - before(e, first), before(e, first + micro_batch + 1) - at };
}

int64_t zt_epochs_samples(const struct zt_epochs *e, int64_t step) {
    if (e->carries)
        return zt_epochs_piece(e, step, step_pieces(e)).first;
    const int64_t left = e->samples - zt_epochs_at(e, step).first;
    return left < e->batch ? left : e->batch;
}

int64_t zt_epochs_batches(const struct zt_epochs *e) {
    return e->carries ? up(epoch_pieces(e), step_pieces(e)) : up(e->samples, e->batch);
}

struct zt_epoch_place zt_epochs_at(const struct zt_epochs *e, int64_t step) {
    if (!e->carries) {
        int64_t batches = zt_epochs_batches(e), batch = step % batches;
        return (struct zt_epoch_place){ step / batches, batch, batch * e->batch };
    }
    const int64_t pieces = epoch_pieces(e), at = step * step_pieces(e), epoch = at / pieces;
    return (struct zt_epoch_place){ epoch, step - up(epoch * pieces, step_pieces(e)), at % pieces * e->unit };
}

int64_t zt_epochs_ended(const struct zt_epochs *e, int64_t steps) {
    return e->carries ? steps * step_pieces(e) / epoch_pieces(e) : steps / zt_epochs_batches(e);
}

int64_t zt_epochs_steps(const struct zt_epochs *e, int64_t epochs) {
    return e->carries ? epochs * epoch_pieces(e) / step_pieces(e) : epochs * zt_epochs_batches(e);
}
