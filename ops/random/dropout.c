/* y = x mask / (1 - ratio), mask true with probability 1 - ratio; in inference y = x         ONNX Dropout, opset 7 on
 * dx = dy mask / (1 - ratio)
 *
 * Opset 12 on reads ratio and training_mode as inputs; before, ratio is an attribute and the node is always inference.
 * Training drops, whatever the node was exported as: ztrain.DropoutTrain, whose mask is drawn as ops/random/random.h
 * says. A standard node that trains by itself and has a `seed` gives the numbers of ONNX's reference evaluator, which
 * are numpy's: MT19937 (Matsumoto and Nishimura, 1998), two words a double of 53 bits. */
#include "ops/elementwise/loops.h"
#include "ops/movement/kernels.h"
#include "ops/elementwise/pointwise.h"
#include "device/threads.h"
#include "ops/random/dropout_cpu.h"
#include "ops/random/kernels.h"
#include "ops/random/launch_random.h"
#include "ops/kernel/strided_copies.h"
#include "ops/random/random.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"
#include "ops/kernel/training_form.h"

static const struct zt_attr_spec old_attrs[] = { { "ratio", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec new_attrs[] = { { "seed", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec own_attrs[] = {
    { "ratio", ZT_ATTR_FLOAT }, { "seed", ZT_ATTR_INT }, { "key", ZT_ATTR_STRING }, { 0 }
};

static bool dropout_infer(struct zt_graph *g, int node, struct zt_err *err) {
    for (int i = 1; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (v && zt_shape_count(&v->shape) != 1)
            return zt_node_fail(g, node, err, "input \"%s\" has %lld elements, wants one", v->name,
                                (long long)zt_shape_count(&v->shape));
    }
    zt_set_out(g, node, 1, ZT_BOOL, &zt_in(g, node, 0)->shape);
    return zt_infer_first(g, node, err);
}

/* ---- random numbers ---- */

enum { MT_WORDS = 624, MT_MIDDLE = 397 };
struct mersenne {
    uint32_t word[MT_WORDS];
    int at;
};

static void mersenne_start(struct mersenne *m, uint32_t seed) {
    for (uint32_t i = 0; i < MT_WORDS; i++) {
        m->word[i] = seed;
        seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
    }
    m->at = MT_WORDS;
}

static uint32_t mersenne_next(struct mersenne *m) {
    if (m->at == MT_WORDS) {
        for (int i = 0; i < MT_WORDS; i++) {
            uint32_t y = (m->word[i] & 0x80000000u) | (m->word[(i + 1) % MT_WORDS] & 0x7fffffffu);
            m->word[i] = m->word[(i + MT_MIDDLE) % MT_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        m->at = 0;
    }
    uint32_t y = m->word[m->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static double mersenne_uniform(struct mersenne *m) {
    double high = mersenne_next(m) >> 5;
    return (high * 67108864 + (mersenne_next(m) >> 6)) / 9007199254740992.0;
}

/* ---- kernels ---- */

/* y and mask of elements [from, from + count). */
static void apply(const struct zt_call *call, int64_t from, int64_t count, const bool *mask, double scale) {
    double x[ZT_ELEMENT_BLOCK];
    zt_load_block(call->in[0].dtype, call->in[0].data, from, 1, count, x);
    for (int64_t i = 0; i < count; i++)
        x[i] = mask[i] ? x[i] * scale : 0;
    zt_store_block(call->out[0].dtype, call->out[0].data, from, 1, count, x);
    for (int64_t i = 0; call->out_count > 1 && call->out[1].data && i < count; i++)
        ((bool *)call->out[1].data)[from + i] = mask[i];
}

struct dropping {
    const struct zt_call *call;
    struct zt_draws draws;
    int64_t width; /* elements of a row */
    double ratio;
};

static void drop_row(void *arg, int64_t row) {
    const struct dropping *d = arg;
    bool mask[ZT_ELEMENT_BLOCK];
    double u[ZT_ELEMENT_BLOCK];
    for (int64_t at = 0; at < d->width; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, d->width - at);
        zt_draws_uniform(&d->draws, row, at, count, u);
        for (int64_t i = 0; i < count; i++)
            mask[i] = u[i] >= d->ratio;
        apply(d->call, row * d->width + at, count, mask, zt_dropout_scale(d->ratio));
    }
}

static bool train_ref(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_shape *x = &call->in[0].shape;
    struct dropping d = { .call = call, .ratio = zt_dropout_ratio_of(call, 1) };
    int64_t rows = x->rank > 0 ? x->dim[0] : 1;
    d.draws = zt_draws_of(call, zt_attr_text(call->node, "key", call->node->name));
    d.width = rows ? zt_shape_count(x) / rows : 0;
    zt_parallel_for(zt_threads_worth(call->threads, 4.0 * (double)(rows * d.width)), rows, drop_row, &d);
    return true;
}

/* All elements: kept (no generator) or drawn from `m` in order. */
static void drop_in_order(const struct zt_call *call, struct mersenne *m, double ratio) {
    int64_t total = zt_shape_count(&call->in[0].shape);
    for (int64_t at = 0; at < total; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, total - at);
        bool mask[ZT_ELEMENT_BLOCK];
        for (int64_t i = 0; i < count; i++)
            mask[i] = !m || mersenne_uniform(m) >= ratio;
        apply(call, at, count, mask, m ? zt_dropout_scale(ratio) : 1);
    }
}

static bool dropout_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *mode = call->in_count > 2 && call->in[2].data ? &call->in[2] : NULL;
    const struct zt_attr *seed = zt_node_attr(call->node, "seed");
    double ratio = zt_dropout_ratio_of(call, 1);
    bool drops = mode && zt_load_int(mode->dtype, mode->data, 0) && ratio != 0;
    struct mersenne m;
    if (drops && !seed)
        return train_ref(call, err);
    if (drops)
        mersenne_start(&m, (uint32_t)seed->i);
    drop_in_order(call, drops ? &m : NULL, ratio);
    return true;
}

struct backward {
    const struct zt_call *call;
    double scale;
};

static void grad_block(void *arg, int64_t block) {
    const struct backward *b = arg;
    const struct zt_view *from = &b->call->in[0], *to = &b->call->out[0];
    const int64_t at = block * ZT_ELEMENT_BLOCK,
                  count = zt_min_int(ZT_ELEMENT_BLOCK, zt_shape_count(&from->shape) - at);
    const uint8_t *mask = (const uint8_t *)b->call->in[1].data + at;
    double dy[ZT_ELEMENT_BLOCK];
    zt_load_block(from->dtype, from->data, at, 1, count, dy);
    for (int64_t i = 0; i < count; i++)
        dy[i] = mask[i] ? dy[i] * b->scale : 0;
    zt_store_block(to->dtype, to->data, at, 1, count, dy);
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct backward b = { call, zt_dropout_scale(zt_dropout_ratio_of(call, 2)) };
    const int64_t total = zt_shape_count(&call->in[0].shape);
    zt_parallel_for(zt_threads_worth(call->threads, (double)total), (total + ZT_ELEMENT_BLOCK - 1) / ZT_ELEMENT_BLOCK,
                    grad_block, &b);
    return true;
}

/* Without dropping and without a mask the node is a copy on CUDA. */
#define dropout_moves zt_strided_copies_whole
ZT_MOVES_DESCRIBE(dropout, false)

static bool only_copies(const struct zt_graph *g, int node) {
    const struct zt_value *mode = zt_in(g, node, 2);
    return !zt_out(g, node, 1) && (!mode || (mode->data && !zt_load_int(mode->dtype, mode->data, 0)));
}

/* A struct zt_launch_dropout for other back ends, with everything but the draws. */
static bool train_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    const int64_t rows = x->rank > 0 ? x->dim[0] : 1;
    double ratio;
    if (!zt_dropout_ratio(g, node, 1, &ratio))
        return zt_node_fail(g, node, err, "ratio \"%s\" is not known before it runs", zt_in(g, node, 1)->name);
    *(struct zt_launch_dropout *)to =
        (struct zt_launch_dropout){ .rows = rows, .width = rows ? zt_shape_count(x) / rows : 0, .ratio = ratio };
    return true;
}

static bool train_supports(const struct zt_graph *g, int node) {
    struct zt_launch_dropout d;
    struct zt_err err = { 0 };
    return zt_cuda_float_data(g, node) && train_describe(g, node, &d, &err);
}

/* ---- gradient rules ---- */

static void emit_grad(struct zt_grad *b, int node, int mask) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_attr *ratio = zt_node_attr(n, "ratio");
    int in[3] = { zt_grad_out(b, node, 0), mask, n->in_count > 1 ? n->in[1] : -1 }, out;
    zt_emit_node(b, &(struct zt_emission){ "DropoutGrad", "ztrain", in, 3, NULL, ratio, ratio ? 1 : 0 }, &out, 1);
    zt_grad_give(b, node, 0, out);
}

static bool train_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    emit_grad(b, node, zt_grad_graph(b)->nodes[node]->out[1]);
    return true;
}

/* A node that may train by itself and kept no mask is run again: with its seed, or as ztrain.DropoutTrain under its
 * name. */
static int emit_mask(struct zt_grad *b, int node) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    struct zt_attr key = { .name = "key", .type = ZT_ATTR_STRING, .s = n->name };
    bool seeded = zt_node_attr(n, "seed");
    int out[2];
    zt_emit_node(b,
                 &(struct zt_emission){ seeded ? "Dropout" : "DropoutTrain", seeded ? "" : "ztrain", n->in,
                                        seeded ? n->in_count : 2, n, &key, seeded ? 0 : 1 },
                 out, 2);
    return out[1];
}

static bool dropout_grad(struct zt_grad *b, int node, struct zt_err *err) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_value *mode = zt_in(zt_grad_graph(b), node, 2);
    if (mode && !mode->data)
        return zt_node_fail(zt_grad_graph(b), node, err, "training_mode \"%s\" is not constant: no gradient",
                            mode->name);
    if (!mode || !zt_load_int(mode->dtype, mode->data, 0))
        zt_grad_give(b, node, 0, zt_grad_out(b, node, 0));
    else
        emit_grad(b, node, n->out_count > 1 && n->out[1] >= 0 ? n->out[1] : emit_mask(b, node));
    return true;
}

/* ---- training form ---- */

extern const struct zt_op zt_op_dropout_train, zt_op_identity;

static bool wants_mask(const struct zt_graph *g, const struct zt_node *n) {
    const int mask = n->out_count > 1 ? n->out[1] : -1;
    return mask >= 0 && (zt_graph_users(g, mask, NULL) > 0 || zt_graph_is_output(g, mask));
}

/* Inference, and training with a ratio of 0, are views of x unless something reads the mask. */
static bool dropout_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    struct zt_node *n = g->nodes[node];
    double ratio;
    if (n->in_count > 2)
        n->in_count = 2; /* no training_mode: inference, or decided here */
    if (!wants_mask(g, n) && (options->evaluation || (zt_dropout_ratio(g, node, 1, &ratio) && ratio == 0))) {
        n->in_count = 1;
        n->attr_count = 0;
        return zt_train_rewrite(g, node, &zt_op_identity, 1, err);
    }
    return options->evaluation || zt_train_rewrite(g, node, &zt_op_dropout_train, 2, err);
}

/* ---- rows ---- */

#define STANDARD_ROW                                                                                                   \
    .name = "Dropout", .domain = "", .min_in = 1, .min_out = 1, .max_out = 2, .infer = dropout_infer,                  \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, 1 << ZT_BOOL }, .no_grad_in = 6, .grad = dropout_grad,                   \
    .train = dropout_train,                                                                                            \
    .kernel = {                                                                                                        \
        [ZT_REF] = { .run = dropout_ref }, [ZT_CUDA] = ZT_CUDA_AS(strided_copies, only_copies, dropout_describe)       \
    }

const struct zt_op zt_op_dropout_7 = {
    STANDARD_ROW,
    .since = 7,
    .until = 11,
    .max_in = 1,
    .attrs = old_attrs,
    .body = zt_dropout_old_function_body,
    .flags = ZT_OP_TRAINS_OTHERWISE,
};
const struct zt_op zt_op_dropout = {
    STANDARD_ROW,      .since = 12, .max_in = 3, .training_in = 1 << 2, .flags = ZT_OP_RANDOM | ZT_OP_TRAINS_OTHERWISE,
    .attrs = new_attrs
};
const struct zt_op zt_op_dropout_train = {
    .name = "DropoutTrain",
    .domain = "ztrain",
    .since = 1,
    .min_in = 1,
    .max_in = 2,
    .min_out = 2,
    .max_out = 2,
    .full_in = ~1U,
    .full_out = ~1U,
    .flags = ZT_OP_RANDOM,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .no_grad_in = 2,
    .attrs = own_attrs,
    .infer = dropout_infer,
    .grad = train_grad,
    .kernel = { [ZT_REF] = { .run = train_ref },
                [ZT_CPU] = ZT_DROPOUT_TRAIN_CPU,
                [ZT_CUDA] = ZT_CUDA_AS(dropout, train_supports, train_describe) },
};
/* dx = dy / (1 - ratio) where the mask is true, with a ratio that is known. */
static bool grad_expression(const struct zt_graph *g, int node, struct zt_pointwise *to) {
    double ratio;
    if (!zt_dropout_ratio(g, node, 2, &ratio) || !zt_pointwise_floats(g, node, 2))
        return false;
    *to = (struct zt_pointwise){ .value = "F(drop)(b == 0, a * u)",
                                 .dtype = ZT_FLOAT,
                                 .inputs = 2,
                                 .number = { (float)zt_dropout_scale(ratio), 0 },
                                 .scale = 1 };
    return true;
}

/* (dy, mask[, ratio]) -> dx */
const struct zt_op zt_op_dropout_grad = {
    .name = "DropoutGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 3),
    .in_types = { ZT_ANY_FLOAT, 1 << ZT_BOOL, ZT_ANY_FLOAT },
    .attrs = own_attrs,
    .infer = zt_infer_first,
    .body = zt_dropout_grad_function_body,
    .detail = &(const struct zt_elementwise){ .expression = grad_expression },
    .kernel = { [ZT_REF] = { .run = grad_ref }, [ZT_CPU] = ZT_DROPOUT_GRAD_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};
