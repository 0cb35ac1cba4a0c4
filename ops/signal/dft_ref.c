/* The reference kernel of DFT and STFT: the sums of dft_plan.h, in double. Long transforms, whose sums would take N^2
 * operations a slice, are those of the plan. */
#include "ops/signal/dft.h"
#include "ops/signal/kernels.h"

#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 1 << 12 }; /* lengths above it are planned */

struct state {
    struct zt_dft d;
    double *numbers; /* cos and sin of 2 pi j / N at [j][2]; of long transforms the tables of the plan */
    struct zt_dft_plan plan;
};

static bool is_long(const struct zt_dft *d) {
    return d->length > LONG;
}

/* Complex numbers of a thread: an array and room. */
static size_t numbers_of(const struct zt_dft_plan *p) {
    return 2 * (size_t)zt_dft_rows(p);
}

bool zt_dft_ref_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_dft d;
    if (!zt_dft_of(p->graph, p->node, &d, err))
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->d = d;
    p->state = s;
    if (d.slices == 0)
        return true;
    if (is_long(&d)) {
        s->numbers = zt_dft_plan_make(&d, false, &s->plan);
        p->workspace_bytes = (size_t)p->threads * numbers_of(&s->plan) * 2 * sizeof(double);
        return true;
    }
    s->numbers = zt_malloc((size_t)d.length * 2 * sizeof(double));
    for (int64_t j = 0; j < d.length; j++) {
        const double angle = 2 * M_PI * ((double)j / (double)d.length);
        s->numbers[2 * j] = cos(angle);
        s->numbers[2 * j + 1] = sin(angle);
    }
    return true;
}

void zt_dft_ref_release(void *state) {
    struct state *s = state;
    if (s)
        free(s->numbers);
    free(s);
}

/* Elements [at, at + count) of a slice, with what multiplies them: the window, or w[k]. */
struct elements {
    double re[ZT_ELEMENT_BLOCK], im[ZT_ELEMENT_BLOCK];
};
static void load(const struct zt_call *call, const struct zt_dft *d, int64_t start, int64_t at, int64_t count,
                 struct elements *to) {
    const struct zt_view *x = &call->in[0];
    double factor[ZT_ELEMENT_BLOCK];
    const int64_t offset = start + at * d->in.step;
    zt_load_block(x->dtype, x->data, offset, d->in.step, count, to->re);
    if (!d->in.real)
        zt_load_block(x->dtype, x->data, offset + 1, d->in.step, count, to->im);
    if (d->window)
        zt_load_block(x->dtype, call->in[d->window].data, at, 1, count, factor);
    for (int64_t i = 0; i < count; i++) {
        const double weight = d->out.real ? zt_dft_weight(d->length, at + i) : 1;
        const double by = d->window ? factor[i] : weight;
        to->re[i] *= by;
        to->im[i] = d->in.real || (d->out.real && weight == 1) ? 0 : to->im[i] * by;
    }
}

/* Element k of the transform of a slice. */
static void sum_element(const struct zt_call *call, int64_t slice, int64_t k) {
    const struct state *s = call->state;
    const struct zt_dft *d = &s->d;
    const struct zt_view *y = &call->out[0];
    struct elements x;
    double sum[2] = { 0 };
    int64_t turn = 0; /* k n mod N */
    ZT_EACH_BLOCK(d->reads, at, count) {
        load(call, d, zt_dft_start(&d->in, slice), at, count, &x);
        for (int64_t i = 0; i < count; i++) {
            const double c = s->numbers[2 * turn],
                         e = d->inverse ? s->numbers[2 * turn + 1] : -s->numbers[2 * turn + 1];
            sum[0] += x.re[i] * c - x.im[i] * e;
            sum[1] += x.re[i] * e + x.im[i] * c;
            turn = turn + k < d->length ? turn + k : turn + k - d->length;
        }
    }
    for (int i = 0; i < 2; i++)
        sum[i] = d->inverse ? sum[i] / (double)d->length : sum[i];
    zt_store_block(y->dtype, y->data, zt_dft_start(&d->out, slice) + k * d->out.step, 1, d->out.real ? 1 : 2, sum);
}

static void run_element(void *arg, int64_t i) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    sum_element(call, i / s->d.writes, i % s->d.writes);
}

/* A slice by the plan. An inverse transform has real and imaginary parts exchanged, before and after. */
static void run_slice(void *arg, int64_t slice) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    const struct zt_dft *d = &s->d;
    const struct zt_view *y = &call->out[0];
    const size_t room = numbers_of(&s->plan);
    double *x = (double *)call->workspace + 2 * room * (size_t)zt_parallel_thread();
    struct elements e;
    memset(x, 0, room * sizeof *x);
    ZT_EACH_BLOCK(d->reads, at, count) {
        load(call, d, zt_dft_start(&d->in, slice), at, count, &e);
        for (int64_t i = 0; i < count; i++) {
            x[2 * (at + i) + d->inverse] = e.re[i];
            x[2 * (at + i) + !d->inverse] = e.im[i];
        }
    }
    zt_dft_plan_transform(&s->plan, x, x + room);
    const int64_t start = zt_dft_start(&d->out, slice);
    for (int64_t k = 0; k < d->writes; k++) {
        const double scale = d->inverse ? 1 / (double)d->length : 1,
                     number[2] = { scale * x[2 * k + d->inverse], scale * x[2 * k + !d->inverse] };
        zt_store_block(y->dtype, y->data, start + k * d->out.step, 1, d->out.real ? 1 : 2, number);
    }
}

bool zt_dft_ref(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_dft *d = &((const struct state *)call->state)->d;
    const int64_t count = d->slices * d->writes;
    if (is_long(d))
        zt_parallel_for(zt_threads_worth(call->threads, 64.0 * (double)count), d->slices, run_slice, (void *)call);
    else
        zt_parallel_for(zt_threads_worth(call->threads, 8.0 * (double)count * (double)d->reads), count, run_element,
                        (void *)call);
    return true;
}
