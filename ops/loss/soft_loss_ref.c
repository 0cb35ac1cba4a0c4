#include "ops/loss/soft_loss_ref.h"

#include "ops/loss/class_loss.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include <math.h>

static double weight_at(const struct zt_view *weights, int64_t i) {
    return weights ? zt_load_double(weights->dtype, weights->data, i) : 1;
}

bool zt_soft_loss_read(const struct zt_call *call, int first, struct zt_soft_loss *j, struct zt_err *err) {
    int axis;
    *j = (struct zt_soft_loss){ .call = call, .x = &call->in[first], .target = &call->in[first + 1] };
    j->row_weight = zt_class_loss_in(call, first + 2);
    j->class_weight = zt_class_loss_in(call, first + 3);
    j->smoothing = (double)zt_attr_float(call->node, "label_smoothing", 0);
    if (!zt_axis(call->graph, zt_call_node(call), zt_attr_int(call->node, "axis", 1), j->x->shape.rank, &axis, err))
        return false;
    j->rows = zt_axis_slices_along(&j->x->shape, axis);
    j->uniform = j->smoothing / (double)zt_max_int(j->rows.length, 1);
    j->count = j->rows.outer * j->rows.inner;
    const int64_t weights = j->row_weight ? zt_shape_count(&j->row_weight->shape) : 0;
    j->each = weights ? zt_max_int(j->count / weights, 1) : 1;
    for (int64_t i = 0; i < j->count; i++)
        j->total += zt_soft_loss_weight(j, i);
    return true;
}

double zt_soft_loss_weight(const struct zt_soft_loss *j, int64_t row) {
    return weight_at(j->row_weight, row / j->each);
}

double zt_soft_loss_factor(const struct zt_soft_loss *j, int64_t row) {
    const double weight = zt_soft_loss_weight(j, row), d = zt_load_double(j->call->in[0].dtype, j->call->in[0].data, 0);
    return weight != 0 && j->total != 0 ? d * weight / j->total : 0;
}

double zt_soft_loss_target(const struct zt_soft_loss *j, int64_t c, double t) {
    return weight_at(j->class_weight, c) * ((1 - j->smoothing) * t + j->uniform);
}

static struct zt_axis_slice row_of(const struct zt_soft_loss *j, const struct zt_view *of, int64_t row) {
    return (struct zt_axis_slice){ of, zt_axis_slices_start(&j->rows, row), j->rows.inner, j->rows.length };
}

/* q of class c, in a row of probabilities. */
static double target_at(const struct zt_soft_loss *j, const struct zt_axis_slice *row, int64_t c) {
    return zt_soft_loss_target(j, c, zt_load_double(j->target->dtype, j->target->data, row->start + c * row->stride));
}

static double log_sum_exp(const struct zt_axis_slice *row) {
    int64_t place;
    double max = zt_row_max(row, &place);
    return max + log(zt_row_sum_exp(row, max));
}

static double row_loss(const struct zt_soft_loss *j, int64_t row, double lse) {
    struct zt_axis_slice x = row_of(j, j->x, row);
    double loss = 0;
    for (int64_t c = 0; c < x.length; c++)
        loss += target_at(j, &x, c) * (lse - zt_load_double(j->x->dtype, j->x->data, x.start + c * x.stride));
    return loss;
}

/* A padding row may hold anything. */
static double plain_row(const void *with, int64_t block, int64_t row, double *lse) {
    const struct zt_soft_loss *j = with;
    const struct zt_axis_slice x = row_of(j, j->x, row);
    (void)block;
    *lse = log_sum_exp(&x);
    return zt_soft_loss_weight(j, row) != 0 ? row_loss(j, row, *lse) : 0;
}

struct losses {
    const struct zt_soft_loss *j;
    zt_soft_loss_row *row;
    const void *with;
    double part[ZT_SOFT_LOSS_BLOCKS];
};

static void run_block(void *arg, int64_t b) {
    struct losses *l = arg;
    const struct zt_soft_loss *j = l->j;
    const struct zt_call *call = j->call;
    for (int64_t i = j->count * b / ZT_SOFT_LOSS_BLOCKS; i < j->count * (b + 1) / ZT_SOFT_LOSS_BLOCKS; i++) {
        double lse, loss = l->row(l->with, b, i, &lse), weight = zt_soft_loss_weight(j, i);
        l->part[b] += weight != 0 ? weight * loss : 0;
        if (call->out_count > 1 && call->out[1].data)
            zt_store_double(call->out[1].dtype, call->out[1].data, i, lse);
    }
}

int zt_soft_loss_threads(const struct zt_soft_loss *j) {
    return zt_threads_worth(j->call->threads, 16.0 * (double)j->count * (double)j->rows.length);
}

void zt_soft_loss_sum(const struct zt_soft_loss *j, zt_soft_loss_row *row, const void *with) {
    struct losses l = { .j = j, .row = row, .with = with };
    const struct zt_view *out = &j->call->out[0];
    double sum = 0;
    zt_parallel_for(zt_soft_loss_threads(j), ZT_SOFT_LOSS_BLOCKS, run_block, &l);
    for (int b = 0; b < ZT_SOFT_LOSS_BLOCKS; b++)
        sum += l.part[b];
    zt_store_double(out->dtype, out->data, 0, j->total != 0 ? sum / j->total : 0);
}

bool zt_soft_loss_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_soft_loss j;
    if (!zt_soft_loss_read(call, 0, &j, err))
        return false;
    zt_soft_loss_sum(&j, plain_row, &j);
    return true;
}

static void run_grad(void *arg, int64_t row) {
    const struct zt_soft_loss *j = arg;
    const struct zt_view *lse = &j->call->in[5], *dx = &j->call->out[0];
    const struct zt_axis_slice x = row_of(j, j->x, row);
    const double factor = zt_soft_loss_factor(j, row), shift = zt_load_double(lse->dtype, lse->data, row);
    double sum = 0;
    for (int64_t c = 0; c < x.length; c++)
        sum += target_at(j, &x, c);
    for (int64_t c = 0; c < x.length; c++) {
        const int64_t at = x.start + c * x.stride;
        const double p = factor != 0 ? exp(zt_load_double(j->x->dtype, j->x->data, at) - shift) : 0;
        zt_store_double(dx->dtype, dx->data, at, factor != 0 ? factor * (p * sum - target_at(j, &x, c)) : 0);
    }
}

bool zt_soft_loss_grad_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_soft_loss j;
    if (!zt_soft_loss_read(call, 1, &j, err))
        return false;
    zt_parallel_for(zt_soft_loss_threads(&j), j.count, run_grad, &j);
    return true;
}
