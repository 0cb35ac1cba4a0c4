/* The reference kernel of DFT and STFT: the sums of dft_plan.h, in double. */
#include "ops/signal/dft.h"
#include "ops/signal/kernels.h"

#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>

struct state {
    struct zt_dft d;
    double *unit; /* cos and sin of 2 pi j / N at [j][2] */
};

bool zt_dft_ref_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_dft d;
    if (!zt_dft_of(p->graph, p->node, &d, err))
        return false;
    const int64_t length = d.slices ? d.length : 0;
    struct state *s = zt_malloc(sizeof *s + (size_t)length * 2 * sizeof(double));
    *s = (struct state){ d, (double *)(s + 1) };
    for (int64_t j = 0; j < length; j++) {
        const double angle = 2 * M_PI * ((double)j / (double)length);
        s->unit[2 * j] = cos(angle);
        s->unit[2 * j + 1] = sin(angle);
    }
    p->state = s;
    return true;
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
            const double c = s->unit[2 * turn], e = d->inverse ? s->unit[2 * turn + 1] : -s->unit[2 * turn + 1];
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

bool zt_dft_ref(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_dft *d = &((const struct state *)call->state)->d;
    const int64_t count = d->slices * d->writes;
    zt_parallel_for(zt_threads_worth(call->threads, 8.0 * (double)count * (double)d->reads), count, run_element,
                    (void *)call);
    return true;
}
