#include "plan/rank/steps.h"

struct zt_step_shape zt_step_shape(int64_t samples, int64_t micro_batch, int data_ranks) {
    struct zt_step_shape s = { .samples = samples };
    if (samples <= 0)
        return s;
    int64_t together = micro_batch * data_ranks;
    s.micro_batches = (int)((samples + together - 1) / together);
    int64_t rest = samples - (s.micro_batches - 1) * together;
    s.rows = micro_batch;
    s.last_rows = (rest + data_ranks - 1) / data_ranks;
    s.padded = rest % data_ranks != 0;
    return s;
}

static bool is_last(const struct zt_step_shape *shape, int micro_batch) {
    return micro_batch == shape->micro_batches - 1;
}

int64_t zt_rank_loss_rows(const struct zt_rank_steps *s, const struct zt_step_shape *shape, int micro_batch) {
    int64_t together = shape->rows * s->data_ranks;
    if (shape->stream)
        return zt_epochs_piece(&s->epochs, shape->step, micro_batch).samples;
    return is_last(shape, micro_batch) ? shape->samples - (shape->micro_batches - 1) * together : together;
}

int64_t zt_rank_rows(const struct zt_rank_steps *s, const struct zt_step_shape *shape, int micro_batch) {
    if (shape->stream)
        return zt_rank_loss_rows(s, shape, micro_batch) / s->data_ranks;
    return is_last(shape, micro_batch) ? shape->last_rows : shape->rows;
}

int64_t zt_rank_rows_before(const struct zt_rank_steps *s, const struct zt_step_shape *shape, int micro_batch) {
    return shape->stream ? zt_epochs_piece(&s->epochs, shape->step, micro_batch).first
                         : micro_batch * shape->rows * s->data_ranks;
}

struct zt_step_shape zt_rank_shape(const struct zt_rank_steps *s, int64_t step) {
    const bool tail = s->tail.samples && zt_epochs_at(&s->epochs, step).batch == zt_epochs_batches(&s->epochs) - 1;
    struct zt_step_shape shape = tail ? s->tail : s->full;
    if (shape.stream) {
        shape.samples = zt_epochs_samples(&s->epochs, step);
        shape.step = step;
    }
    return shape;
}
