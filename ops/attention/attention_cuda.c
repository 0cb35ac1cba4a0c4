/* Attention and its gradient on CUDA, without past keys (formulas: ops/attention/attention.c): by cuDNN where it
 * accepts the node (attention_flash_cuda.h), else by cuBLASLt's products and, between them, a kernel over rows of
 * scores.
 *
 *     s = q k^T    p = softmax(s)    y = p v
 *     s = q k^T    dp = dy v^T    p, ds of both    dv = p^T dy    dq = ds k    dk = ds^T q
 *
 * After AttentionTrain the gradient computes p from the saved statistics, not from new maxima and sums.
 *
 * Query heads that share a key head are computed one after the other: "member" m of every group. A product is a batch
 * of key heads, as many as keep the scores within most_scores bytes. The scores stay in the workspace, in fp32; p and
 * ds overwrite them, or have room of their own in a half dtype. */
#include "ops/attention/attention_flash_cuda.h"
#include "ops/attention/launch_attention.h"
#include "ops/cuda/blas_cuda.h"
#include "ops/cuda/describe.h"
#include "ops/cuda/launch.h"

#include <stdlib.h>

static const size_t most_scores = (size_t)256 << 20;

enum product { SCORES, MIX, DP, DV, DQ, DK, PRODUCTS };

struct attention {
    struct zt_flash_plan *flash; /* NULL: the members below are used */
    struct zt_attention a;
    enum zt_dtype dtype;
    int64_t group, heads;                  /* query heads of a key head; key heads of a product */
    struct zt_blas *product[PRODUCTS];     /* NULL: not needed */
    size_t dp_at, p_at, ds_at, scratch_at; /* workspace [ s | dp | p | ds | cuBLASLt's ] */
};

static void release(void *state) {
    struct attention *s = state;
    for (int i = 0; s && i < PRODUCTS; i++)
        zt_blas_destroy(s->product[i]);
    if (s)
        free(s->flash);
    free(s);
}

/* ---- preparing ---- */

/* The largest divisor of the key heads whose scores fit most_scores. */
static int64_t heads_together(const struct zt_attention *a) {
    int64_t heads = a->kv_heads;
    while (heads > 1 &&
           (a->kv_heads % heads || (size_t)(heads * a->queries) * (size_t)a->keys * sizeof(float) > most_scores))
        heads--;
    return heads;
}

/* `rows` rows of every `every`-th head. */
static struct zt_blas_matrix heads_matrix(const struct attention *s, const struct zt_heads *step, int64_t rows,
                                          int64_t columns, int64_t every) {
    return (struct zt_blas_matrix){
        .dtype = s->dtype, .rows = rows, .columns = columns, .row_step = step->row, .batch_step = step->head * every
    };
}

static struct zt_blas_matrix score_matrix(const struct attention *s, enum zt_dtype dtype) {
    return (struct zt_blas_matrix){ .dtype = dtype,
                                    .rows = s->a.queries,
                                    .columns = s->a.keys,
                                    .row_step = s->a.keys,
                                    .batch_step = s->a.queries * s->a.keys };
}

static struct zt_blas_matrix transposed(struct zt_blas_matrix m) {
    m.transposed = true;
    return m;
}

static bool make(struct zt_prepare *p, struct attention *s, enum product which, struct zt_blas_spec spec,
                 struct zt_err *err) {
    spec.batch = (int)s->heads;
    spec.tf32 = p->device->tf32;
    s->product[which] = zt_blas_create(p->device, &spec, err);
    if (!s->product[which])
        return zt_err_within(err, 0, "%s (%s)", p->graph->nodes[p->node]->name, p->graph->nodes[p->node]->op_type);
    size_t bytes = s->scratch_at + zt_blas_workspace_bytes(s->product[which]);
    p->workspace_bytes = bytes > p->workspace_bytes ? bytes : p->workspace_bytes;
    return true;
}

static bool make_products(struct zt_prepare *p, struct attention *s, bool grad, struct zt_err *err) {
    const struct zt_attention *a = &s->a;
    struct zt_blas_matrix q = heads_matrix(s, &a->q, a->queries, a->size, s->group);
    struct zt_blas_matrix k = heads_matrix(s, &a->k, a->keys, a->size, 1);
    struct zt_blas_matrix v = heads_matrix(s, &a->v, a->keys, a->v_size, 1);
    struct zt_blas_matrix y = heads_matrix(s, &a->y, a->queries, a->v_size, s->group);
    struct zt_blas_matrix score = score_matrix(s, ZT_FLOAT), weight = score_matrix(s, s->dtype);
    if (!make(p, s, SCORES, (struct zt_blas_spec){ .a = q, .b = transposed(k), .y = score }, err))
        return false;
    if (!grad)
        return make(p, s, MIX, (struct zt_blas_spec){ .a = weight, .b = v, .y = y }, err);
    return make(p, s, DP, (struct zt_blas_spec){ .a = y, .b = transposed(v), .y = score }, err) &&
           make(p, s, DV, (struct zt_blas_spec){ .a = transposed(weight), .b = y, .y = v }, err) &&
           make(p, s, DQ, (struct zt_blas_spec){ .a = weight, .b = k, .y = q }, err) &&
           make(p, s, DK, (struct zt_blas_spec){ .a = transposed(weight), .b = q, .y = k }, err);
}

static void place(struct attention *s, bool grad) {
    size_t scores = (size_t)(s->heads * s->a.queries) * (size_t)s->a.keys * sizeof(float);
    size_t room = zt_room_cuda(scores);
    bool apart = s->dtype != ZT_FLOAT;
    s->dp_at = grad ? room : 0;
    s->scratch_at = s->dp_at + room;
    s->p_at = apart ? s->scratch_at : 0;
    s->scratch_at += apart ? room : 0;
    s->ds_at = apart ? s->scratch_at : s->dp_at;
    s->scratch_at += apart && grad ? room : 0;
}

static bool prepare(struct zt_prepare *p, bool grad, struct zt_err *err) {
    struct attention *s = zt_calloc(1, sizeof *s);
    bool made = zt_attention_read(p->graph, p->node, &s->a, err);
    s->flash = made ? zt_flash_create(p, &s->a, grad) : NULL;
    if (made && !s->flash) {
        s->dtype = zt_in(p->graph, p->node, ZT_Q)->dtype;
        s->group = s->a.heads / s->a.kv_heads;
        s->heads = heads_together(&s->a);
        place(s, grad);
        made = make_products(p, s, grad, err);
    }
    if (made)
        p->state = s;
    else
        release(s);
    return made;
}

static bool forward_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}
static bool grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

/* ---- running ---- */

/* The part of a call that one product computes: `heads` key heads from `first` on, one query head of each group, of one
 * batch entry. */
struct part {
    const struct zt_call *call;
    const struct attention *s;
    int64_t batch, first, member;
};

static const struct zt_view *input(const struct zt_call *call, int i) {
    return i < call->in_count && call->in[i].data ? &call->in[i] : NULL;
}

/* The first element of the part in a tensor of query heads, or of key heads. */
static void *queries_at(const struct part *p, const struct zt_view *of, const struct zt_heads *step) {
    int64_t head = p->first * p->s->group + p->member;
    size_t at = (size_t)(step->first + p->batch * step->batch + head * step->head) * zt_dtype_bytes(p->s->dtype);
    return (char *)of->data + at;
}
static void *keys_at(const struct part *p, const struct zt_view *of, const struct zt_heads *step) {
    size_t at = (size_t)(step->first + p->batch * step->batch + p->first * step->head) * zt_dtype_bytes(p->s->dtype);
    return (char *)of->data + at;
}

static struct zt_launch_attention job(const struct part *p) {
    const struct zt_attention *a = &p->s->a;
    const struct zt_view *mask = input(p->call, ZT_MASK), *nonpad = input(p->call, ZT_NONPAD);
    struct zt_launch_attention job = { .dtype = p->s->dtype,
                                       .mask_dtype = mask ? mask->dtype : ZT_FLOAT,
                                       .batch = p->batch,
                                       .first = p->first,
                                       .member = p->member,
                                       .group = p->s->group,
                                       .heads = p->s->heads,
                                       .all_heads = a->heads,
                                       .queries = a->queries,
                                       .keys = a->keys,
                                       .mask_length = a->mask_length,
                                       .left = a->left,
                                       .right = a->right,
                                       .causal = a->causal,
                                       .scale = (float)a->scale,
                                       .softcap = (float)a->softcap,
                                       .mask = mask ? mask->data : NULL,
                                       .nonpad = nonpad ? nonpad->data : NULL };
    for (int k = 0; k < 4; k++)
        job.mask_step[k] = a->mask_step[k];
    return job;
}

/* y = a b, or y += a b where beta is 1. */
static bool multiply(const struct part *p, enum product which, const struct zt_blas_data *data, struct zt_err *err) {
    struct zt_blas_data scaled = *data;
    scaled.alpha = 1;
    return zt_blas_run(p->s->product[which], &scaled, (char *)p->call->workspace + p->s->scratch_at,
                       p->call->node->name, err);
}

static bool scores(const struct part *p, struct zt_err *err) {
    const struct zt_view *in = p->call->in;
    return multiply(p, SCORES,
                    &(struct zt_blas_data){ .a = queries_at(p, &in[ZT_Q], &p->s->a.q),
                                            .b = keys_at(p, &in[p->s->a.k.tensor], &p->s->a.k),
                                            .y = p->call->workspace },
                    err);
}

static bool forward_part(const struct part *p, struct zt_err *err) {
    const struct zt_call *call = p->call;
    const struct zt_attention *a = &p->s->a;
    void *weights = (char *)call->workspace + p->s->p_at;
    struct zt_launch_attention l = job(p);
    l.statistics = call->out_count > 1 ? call->out[1].data : NULL; /* AttentionTrain's: Attention has one output here */
    return scores(p, err) &&
           zt_launched(call, zt_launch_attention(zt_stream_of(call), &l, call->workspace, weights), err) &&
           multiply(p, MIX,
                    &(struct zt_blas_data){ .a = weights,
                                            .b = keys_at(p, &call->in[a->v.tensor], &a->v),
                                            .y = queries_at(p, &call->out[ZT_Y], &a->y) },
                    err);
}

/* An output of the gradient; NULL where it is not wanted. */
static const struct zt_view *gradient(const struct zt_call *call, int i) {
    return i < call->out_count && call->out[i].data ? &call->out[i] : NULL;
}

/* Gradients of keys and values are sums over the members of a group. */
static bool grad_products(const struct part *p, const void *weights, const void *ds, struct zt_err *err) {
    const struct zt_call *call = p->call;
    const struct zt_attention *a = &p->s->a;
    const struct zt_view *dq = gradient(call, a->q.tensor), *dk = gradient(call, a->k.tensor),
                         *dv = gradient(call, a->v.tensor);
    const struct zt_view *dy = &call->in[ZT_ATTENTION_INS + ZT_Y];
    const bool add = p->member > 0;
    return (!dv ||
            multiply(p, DV,
                     &(struct zt_blas_data){
                         .a = weights, .b = queries_at(p, dy, &a->y), .y = keys_at(p, dv, &a->v), .beta = add ? 1 : 0 },
                     err)) &&
           (!dq ||
            multiply(p, DQ,
                     &(struct zt_blas_data){
                         .a = ds, .b = keys_at(p, &call->in[a->k.tensor], &a->k), .y = queries_at(p, dq, &a->q) },
                     err)) &&
           (!dk || multiply(p, DK,
                            &(struct zt_blas_data){ .a = ds,
                                                    .b = queries_at(p, &call->in[ZT_Q], &a->q),
                                                    .y = keys_at(p, dk, &a->k),
                                                    .beta = add ? 1 : 0 },
                            err));
}

static bool grad_part(const struct part *p, struct zt_err *err) {
    const struct zt_call *call = p->call;
    const struct zt_attention *a = &p->s->a;
    const struct zt_view *dy = &call->in[ZT_ATTENTION_INS + ZT_Y], *dmask = gradient(call, ZT_DMASK);
    const bool trained = call->in_count > ZT_SAVED_STATISTICS;
    char *room = call->workspace;
    float *dp = (float *)(room + p->s->dp_at);
    void *weights = room + p->s->p_at, *ds = room + p->s->ds_at;
    struct zt_launch_attention l = job(p);
    l.statistics = trained ? call->in[ZT_SAVED_STATISTICS].data : NULL;
    if (!scores(p, err) ||
        !multiply(p, DP,
                  &(struct zt_blas_data){
                      .a = queries_at(p, dy, &a->y), .b = keys_at(p, &call->in[a->v.tensor], &a->v), .y = dp },
                  err))
        return false;
    const struct zt_launch_attention_grad g = { call->workspace, dp, weights, ds, dmask ? dmask->data : NULL };
    int code = zt_launch_attention_grad(zt_stream_of(call), &l, &g);
    return zt_launched(call, code, err) && grad_products(p, weights, ds, err);
}

static bool run(const struct zt_call *call, bool (*part)(const struct part *p, struct zt_err *err),
                struct zt_err *err) {
    const struct attention *s = call->state;
    struct part p = { .call = call, .s = s };
    if (s->flash)
        return zt_flash_run(s->flash, call, err);
    for (p.batch = 0; p.batch < s->a.batch; p.batch++)
        for (p.first = 0; p.first < s->a.kv_heads; p.first += s->heads)
            for (p.member = 0; p.member < s->group; p.member++)
                if (!part(&p, err))
                    return false;
    return true;
}

static bool forward_run(const struct zt_call *call, struct zt_err *err) {
    return run(call, forward_part, err);
}
static bool grad_run(const struct zt_call *call, struct zt_err *err) {
    return run(call, grad_part, err);
}

const struct zt_kernel zt_kernel_attention_cuda = { .prepare = forward_prepare,
                                                    .run = forward_run,
                                                    .release = release };
const struct zt_kernel zt_kernel_attention_grad_cuda = { .prepare = grad_prepare, .run = grad_run, .release = release };
