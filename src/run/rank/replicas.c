/* Mode dp, as torch.nn.DataParallel: the transfers of every micro-batch between device 0, which is rank 0, and the
 * replicas, of which rank 0 is one. Rank 0 loads all rows; replica k gets rows [k n, k n + n), where n is the number of
 * rows of its program:
 *
 *     8 samples on 3 replicas, n = 3       | 0 1 2 | 3 4 5 | 6 7 . |       the third row of the last one repeats sample
 * 0
 *
 * Repeated rows are not gathered: the loss does not read them, and their gradient is zero. */
#include "run/rank/replicas.h"

#include "base/align.h"

enum { MODEL = 0, LOSS = 1 }; /* slot numbers */

/* Returns the number of samples of replica k. */
static int64_t share_of(const struct zt_share *s, int k) {
    int64_t rows = s->model->training_graph.rows, left = s->piece - k * rows;
    return left < 0 ? 0 : left < rows ? left : rows;
}

static size_t sample_bytes(const struct zt_rank *r, const struct zt_share *s, int column) {
    const struct zt_source *source = s->training ? r->plan->source : r->plan->eval_source;
    return source->column[column].sample_bytes;
}

static bool send_rows(struct zt_rank *r, const struct zt_share *s, int column, struct zt_err *err) {
    const char *from = r->slots[LOSS].fed[column];
    size_t each = sample_bytes(r, s, column);
    int64_t rows = s->model->training_graph.rows;
    for (int k = 1; k < r->world->size; k++) {
        int64_t samples = share_of(s, k);
        if ((samples > 0 && !r->bulk_world->api->send(r->bulk_world, from + (size_t)(k * rows) * each,
                                                      (size_t)samples * each, k, err)) ||
            (samples < rows && !r->bulk_world->api->send(r->bulk_world, from, each, k, err)))
            return false;
    }
    return true;
}

static bool receive_rows(struct zt_rank *r, const struct zt_share *s, int column, char *to, struct zt_err *err) {
    size_t each = sample_bytes(r, s, column);
    int64_t samples = share_of(s, r->world->rank), rows = s->model->training_graph.rows;
    if (samples > 0 && !r->bulk_world->api->recv(r->bulk_world, to, (size_t)samples * each, 0, err))
        return false;
    if (samples < rows && !r->bulk_world->api->recv(r->bulk_world, to + (size_t)samples * each, each, 0, err))
        return false;
    for (int64_t i = samples + 1; i < rows; i++)
        if (!r->device->api->copy(r->device, to + (size_t)i * each, to + (size_t)samples * each, each, err))
            return false;
    return true;
}

bool zt_rank_scatter(struct zt_rank *r, const struct zt_share *s, struct zt_err *err) {
    const struct zt_training_graph *j = &s->model->training_graph;
    struct zt_slot *slot = &r->slots[MODEL];
    char *feed = slot->feed;
    slot->samples = share_of(s, r->world->rank);
    for (int i = 0; i < j->column_count; i++) {
        if (j->columns[i] < 0)
            continue;
        if (r->world->rank == 0) {
            slot->fed[i] = r->slots[LOSS].fed[i]; /* its rows come first */
            if (!send_rows(r, s, i, err))
                return false;
            continue;
        }
        slot->fed[i] = feed;
        if (!receive_rows(r, s, i, feed, err))
            return false;
        feed += zt_align_64((int64_t)sample_bytes(r, s, i) * j->rows);
    }
    return true;
}

static char *at(struct zt_rank *r, const struct zt_program *p, int slot, int value) {
    return zt_rank_at(r, &r->slots[slot], &p->place[0][value], NULL);
}

static size_t row_bytes(const struct zt_share *s, const struct zt_boundary_tensor *c) {
    return c->bytes / (size_t)s->model->training_graph.rows;
}

bool zt_rank_gather_act(struct zt_rank *r, const struct zt_share *s, struct zt_err *err) {
    const struct zt_boundary_tensors *from = &s->model->send_act;
    for (int i = 0; i < from->count; i++) {
        size_t each = row_bytes(s, &from->at[i]), own = (size_t)share_of(s, r->world->rank) * each;
        char *here = at(r, s->model, MODEL, from->at[i].value);
        if (r->world->rank != 0) {
            if (own > 0 && !r->bulk_world->api->send(r->bulk_world, here, own, 0, err))
                return false;
            continue;
        }
        char *to = at(r, s->loss, LOSS, s->loss->recv_act.at[i].value);
        if (!r->device->api->copy(r->device, to, here, own, err))
            return false;
        for (int k = 1; k < r->world->size; k++) {
            size_t bytes = (size_t)share_of(s, k) * each, start = (size_t)(k * s->model->training_graph.rows) * each;
            if (bytes > 0 && !r->bulk_world->api->recv(r->bulk_world, to + start, bytes, k, err))
                return false;
        }
    }
    return true;
}

bool zt_rank_scatter_grad(struct zt_rank *r, const struct zt_share *s, struct zt_err *err) {
    const struct zt_boundary_tensors *to = &s->model->recv_grad;
    for (int i = 0; i < to->count; i++) {
        size_t each = row_bytes(s, &to->at[i]), own = (size_t)share_of(s, r->world->rank) * each;
        char *here = at(r, s->model, MODEL, to->at[i].value);
        if (!r->device->api->zero(r->device, here + own, to->at[i].bytes - own, err))
            return false;
        if (r->world->rank != 0) {
            if (own > 0 && !r->bulk_world->api->recv(r->bulk_world, here, own, 0, err))
                return false;
            continue;
        }
        const char *from = at(r, s->loss, LOSS, s->loss->send_grad.at[i].value);
        if (!r->device->api->copy(r->device, here, from, own, err))
            return false;
        for (int k = 1; k < r->world->size; k++) {
            size_t bytes = (size_t)share_of(s, k) * each, start = (size_t)(k * s->model->training_graph.rows) * each;
            if (bytes > 0 && !r->bulk_world->api->send(r->bulk_world, from + start, bytes, k, err))
                return false;
        }
    }
    return true;
}
