/* CausalConvWithState and its gradient on the CPU, in float (formulas in causal_conv.c). Forward a block of work is a
 * channel of a sample; backward it is a channel of all samples, over which dw and dbias are sums. The gradient of z is
 * a convolution too: of da, between kernel - 1 zeros on either side, with w from its last number to its first. */
#include "ops/linear_attention/causal_conv.h"
#include "ops/linear_attention/float_rows.h"
#include "ops/linear_attention/kernels.h"
#include "ops/linear_attention/simd_causal_conv.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

struct state {
    struct zt_launch_causal_conv c;
    int64_t floats, grain; /* of a thread; rows of a block */
};

/* A thread's buffers. Backward alone: from `turned` on. */
struct row {
    const struct zt_call *call;
    const struct zt_launch_causal_conv *c;
    const struct zt_simd_causal *simd;
    int64_t at;              /* (sample, channel) */
    float *w, *z, *a;        /* [kernel], [kernel - 1 + length], [length] */
    float *turned, *da, *dz; /* w from its last number on; da after kernel - 1 zeros and before as many */
    float *dw;
};

bool zt_causal_conv_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_value *x = zt_in(g, node, ZT_CAUSAL_X);
    return zt_float_rows_only(g, node) && zt_shape_count(&x->shape) > 0;
}

bool zt_causal_conv_grad_cpu_supports(const struct zt_graph *g, int node) {
    return zt_causal_conv_cpu_supports(g, node);
}

static int64_t lay_out(struct row *r, float *base, bool backward) {
    const struct zt_launch_causal_conv *c = r->c;
    const int64_t past = c->kernel - 1 + ZT_CAUSAL_SLACK;
    int64_t used = 0;
    r->w = zt_float_row_take(base, &used, c->kernel);
    r->z = zt_float_row_take(base, &used, c->length + past);
    r->a = zt_float_row_take(base, &used, c->length + ZT_CAUSAL_SLACK);
    if (!backward)
        return used;
    r->turned = zt_float_row_take(base, &used, c->kernel);
    r->da = zt_float_row_take(base, &used, c->length + 2 * past);
    r->dz = zt_float_row_take(base, &used, c->length + past);
    r->dw = zt_float_row_take(base, &used, c->kernel);
    return used;
}

static bool prepare(struct zt_prepare *p, bool backward, struct zt_err *err) {
    enum { BLOCK = 1 << 13 }; /* products of a block, some microseconds of work */
    struct zt_launch_causal_conv c;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    if (!zt_causal_conv_read(p->graph, p->node, &c, err))
        return false;
    struct row whole = { .c = &c };
    struct state *s = zt_calloc(1, sizeof *s);
    *s = (struct state){ c, lay_out(&whole, NULL, backward), zt_max_int(1, BLOCK / (c.length * c.kernel)) };
    p->workspace_bytes = (size_t)s->floats * sizeof(float) * (size_t)zt_max_int(p->threads, 1);
    p->state = s;
    return true;
}

bool zt_causal_conv_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}
bool zt_causal_conv_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

void zt_causal_conv_cpu_release(void *state) {
    free(state);
}
void zt_causal_conv_grad_cpu_release(void *state) {
    free(state);
}

static struct row open_row(const struct zt_call *call, bool backward) {
    const struct state *s = call->state;
    struct row r = { .call = call, .c = &s->c, .simd = zt_simd_causal() };
    lay_out(&r, (float *)call->workspace + zt_parallel_thread() * s->floats, backward);
    return r;
}

static void load(const struct row *r, int in, int64_t offset, int64_t count, float *to) {
    zt_float_row_load(zt_float_row_in(r->call, in), offset, count, to);
}

static void store(const struct row *r, int out, int64_t offset, int64_t count, const float *from) {
    zt_float_row_store(zt_float_row_out(r->call, out), offset, count, from);
}

static void clear(float *to, int64_t count) {
    memset(to, 0, (size_t)count * sizeof *to);
}

/* w, z and a of row r->at. */
static void convolve(struct row *r) {
    const struct zt_launch_causal_conv *c = r->c;
    const int64_t channel = r->at % c->channels, past = c->kernel - 1;
    float bias = 0;
    load(r, ZT_CAUSAL_W, channel * c->kernel, c->kernel, r->w);
    load(r, ZT_CAUSAL_BIAS, channel, 1, &bias);
    load(r, ZT_CAUSAL_PAST, r->at * past, past, r->z);
    load(r, ZT_CAUSAL_X, r->at * c->length, c->length, r->z + past);
    clear(r->z + past + c->length, ZT_CAUSAL_SLACK);
    r->simd->convolve(c->length, c->kernel, r->w, r->z, bias, r->a);
}

static void forward_block(void *arg, int64_t block) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    struct row r = open_row(call, false);
    const struct zt_launch_causal_conv *c = r.c;
    const int64_t end = zt_min_int((block + 1) * s->grain, c->batch * c->channels), past = c->kernel - 1;
    for (r.at = block * s->grain; r.at < end; r.at++) {
        convolve(&r);
        if (c->silu)
            r.simd->silu(c->length, r.a);
        store(&r, 0, r.at * c->length, c->length, r.a);
        store(&r, 1, r.at * past, past, r.z + c->length);
    }
}

/* One sample: adds to dw and *dbias, and sets dz. */
static void backward_row(struct row *r, float *dbias) {
    const struct zt_launch_causal_conv *c = r->c;
    const int64_t past = c->kernel - 1;
    float *da = r->da + past, *end = r->z + c->length; /* the place of dpresent in z, which is not read any more then */
    convolve(r);
    clear(r->da, past);
    load(r, ZT_CAUSAL_DY, r->at * c->length, c->length, da);
    if (c->silu)
        r->simd->silu_slope(c->length, r->a, da);
    clear(da + c->length, past + ZT_CAUSAL_SLACK);
    *dbias += r->simd->sum(c->length, da);
    for (int64_t j = 0; j < c->kernel; j++) {
        r->dw[j] += r->simd->dot(c->length, da, r->z + j);
        r->turned[j] = r->w[past - j];
    }
    r->simd->convolve(past + c->length, c->kernel, r->turned, r->da, 0, r->dz);
    load(r, ZT_CAUSAL_DPRESENT, r->at * past, past, end);
    for (int64_t j = 0; j < past; j++)
        r->dz[c->length + j] += end[j];
}

static void backward_block(void *arg, int64_t channel) {
    const struct zt_call *call = arg;
    struct row r = open_row(call, true);
    const struct zt_launch_causal_conv *c = r.c;
    const int64_t past = c->kernel - 1;
    float dbias = 0;
    clear(r.dw, c->kernel);
    for (int64_t b = 0; b < c->batch; b++) {
        r.at = b * c->channels + channel;
        backward_row(&r, &dbias);
        store(&r, ZT_CAUSAL_PAST, r.at * past, past, r.dz);
        store(&r, ZT_CAUSAL_X, r.at * c->length, c->length, r.dz + past);
    }
    store(&r, ZT_CAUSAL_W, channel * c->kernel, c->kernel, r.dw);
    store(&r, ZT_CAUSAL_BIAS, channel, 1, &dbias);
}

bool zt_causal_conv_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct state *s = call->state;
    (void)err;
    const int64_t rows = s->c.batch * s->c.channels;
    const int threads = zt_threads_worth(call->threads, 4.0 * (double)(rows * s->c.length) * (double)s->c.kernel);
    zt_parallel_for(threads, zt_ceil_div(rows, s->grain), forward_block, (void *)call);
    return true;
}

bool zt_causal_conv_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct state *s = call->state;
    (void)err;
    zt_parallel_for(call->threads, s->c.channels, backward_block, (void *)call);
    return true;
}
