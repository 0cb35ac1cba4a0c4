/* The reference kernels of the losses over class indices (formulas in class_loss.c). */
#include "ops/loss/class_loss.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>

static struct zt_axis_slice row_of(const struct zt_class_loss *j, const struct zt_view *of, int64_t row) {
    const int64_t start = row / j->rows.inner * j->room * j->rows.inner + row % j->rows.inner;
    return (struct zt_axis_slice){ of, start, j->rows.inner, j->rows.length };
}

static double log_sum_exp(const struct zt_axis_slice *l) {
    int64_t place;
    double max = zt_row_max(l, &place);
    return max + log(zt_row_sum_exp(l, max));
}

/* loss_i without s; lse is 0 where x is log p already. */
static double row_loss(const struct zt_class_loss *j, int64_t row, double lse) {
    struct zt_axis_slice l = row_of(j, j->x, row);
    int64_t t = zt_class_loss_target(j, row);
    double loss = (1 - j->smoothing) * zt_class_loss_weight(j, t) *
                  (lse - zt_load_double(j->x->dtype, j->x->data, l.start + t * l.stride));
    if (j->smoothing == 0)
        return loss;
    double block[ZT_ELEMENT_BLOCK], spread = 0;
    ZT_EACH_BLOCK(l.length, at, count) {
        zt_row_load(&l, at, count, block);
        for (int64_t i = 0; i < count; i++)
            spread += zt_class_loss_weight(j, at + i) * (lse - block[i]);
    }
    return loss + j->smoothing / (double)l.length * spread;
}

/* Stores a row of the second output: log sum exp (domain ztrain) or log p (the standard's operators). */
static void store_row(const struct zt_class_loss *j, const struct zt_view *to, int64_t row, double lse) {
    double block[ZT_ELEMENT_BLOCK];
    if (j->own) {
        zt_store_double(to->dtype, to->data, row, lse);
        return;
    }
    struct zt_axis_slice from = row_of(j, j->x, row), out = row_of(j, to, row);
    ZT_EACH_BLOCK(from.length, at, count) {
        zt_row_load(&from, at, count, block);
        for (int64_t i = 0; i < count; i++)
            block[i] -= lse;
        zt_row_store(&out, at, count, block);
    }
}

enum { BLOCKS = 64 }; /* of samples, each summed alone and then in order: the bits do not depend on threads */

static double block_loss(const struct zt_call *call, const struct zt_class_loss *j, int64_t from, int64_t end) {
    const struct zt_view *saved = call->out_count > 1 && call->out[1].data ? &call->out[1] : NULL;
    double sum = 0;
    for (int64_t i = from; i < end; i++) {
        struct zt_axis_slice l = row_of(j, j->x, i);
        double lse = j->logs ? 0 : log_sum_exp(&l), sample = zt_class_loss_sample(j, i);
        double loss = sample != 0 ? sample * row_loss(j, i, lse) : 0;
        if (saved)
            store_row(j, saved, i, lse);
        if (j->reduction == ZT_LOSS_NONE)
            zt_store_double(call->out[0].dtype, call->out[0].data, i, loss);
        sum += loss;
    }
    return sum;
}

static double work_of(const struct zt_class_loss *j) {
    return 16.0 * (double)j->count * (double)j->rows.length;
}

struct losses {
    const struct zt_call *call;
    const struct zt_class_loss *j;
    double part[BLOCKS];
};

static void run_block(void *arg, int64_t b) {
    struct losses *l = arg;
    l->part[b] = block_loss(l->call, l->j, l->j->count * b / BLOCKS, l->j->count * (b + 1) / BLOCKS);
}

static void all_losses(const struct zt_call *call, const struct zt_class_loss *j) {
    struct losses l = { .call = call, .j = j };
    double sum = 0;
    zt_parallel_for(zt_threads_worth(call->threads, work_of(j)), BLOCKS, run_block, &l);
    for (int b = 0; b < BLOCKS; b++)
        sum += l.part[b];
    zt_class_loss_store(call, j, sum);
}

bool zt_class_loss_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_class_loss j;
    if (!zt_class_loss_read(call, 0, &j, err))
        return false;
    all_losses(call, &j);
    return true;
}

static void grad_row(const struct zt_class_loss *j, const struct zt_view *out, int64_t row,
                     const struct zt_class_slope *slope, const double *lse) {
    struct zt_axis_slice from = row_of(j, j->x, row), to = row_of(j, out, row);
    int64_t t = zt_class_loss_target(j, row);
    double block[ZT_ELEMENT_BLOCK], sum = slope->hit + slope->spread * j->weight_sum; /* what p_c is multiplied with */
    ZT_EACH_BLOCK(from.length, at, count) {
        if (lse && sum != 0)
            zt_row_load(&from, at, count, block);
        for (int64_t i = 0; i < count; i++) {
            block[i] = lse && sum != 0 ? sum * exp(block[i] - *lse) : 0;
            block[i] -= slope->spread != 0 ? slope->spread * zt_class_loss_weight(j, at + i) : 0;
            block[i] -= at + i == t ? slope->hit : 0;
        }
        zt_row_store(&to, at, count, block);
    }
}

static void clear_rest(const struct zt_class_loss *j, const struct zt_view *out, int64_t row) {
    const struct zt_axis_slice to = row_of(j, out, row);
    for (int64_t c = to.length; c < j->room; c++)
        zt_store_double(out->dtype, out->data, to.start + c * to.stride, 0);
}

struct gradients {
    const struct zt_call *call;
    const struct zt_class_loss *j;
    const struct zt_view *saved;
    double total;
};

static void run_grad(void *arg, int64_t i) {
    const struct gradients *g = arg;
    const struct zt_view *saved = g->saved, *dx = &g->call->out[0];
    double lse = saved ? zt_load_double(saved->dtype, saved->data, i) : 0;
    struct zt_class_slope slope = zt_class_loss_slope(g->call, g->j, i, g->total);
    grad_row(g->j, dx, i, &slope, saved ? &lse : NULL);
    clear_rest(g->j, dx, i);
}

/* With the log sum exp (saved) the gradient of cross-entropy, without that of NLL. */
static void all_grads(const struct zt_call *call, const struct zt_class_loss *j, const struct zt_view *saved) {
    struct gradients g = { call, j, saved, zt_class_loss_total(j) };
    zt_parallel_for(zt_threads_worth(call->threads, work_of(j)), j->count, run_grad, &g);
}

bool zt_class_loss_grad_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_class_loss j;
    if (!zt_class_loss_read(call, 1, &j, err))
        return false;
    all_grads(call, &j, zt_class_loss_in(call, 5));
    return true;
}

bool zt_class_loss_train_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_class_loss j;
    if (!zt_class_loss_read(call, 1, &j, err))
        return false;
    struct zt_view saved = { .dtype = call->out[1].dtype, .shape = j.target->shape }, out[2] = { call->out[1], saved };
    saved.data = out[1].data = zt_malloc((size_t)(j.count + 1) * zt_dtype_bytes(saved.dtype));
    struct zt_call loss = *call;
    loss.out = out;
    all_losses(&loss, &j);
    all_grads(call, &j, &saved);
    free(saved.data);
    return true;
}
