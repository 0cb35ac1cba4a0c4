/* The fast CPU kernels together: the training graph of a small ConvNet, whose channels do not fill a block and whose
 * batch does not fill the chunks, against the reference kernels and against itself at other thread counts. */
#include "base/rng.h"
#include "device/threads.h"
#include "graph/passes/grad.h"
#include "graph/passes/infer.h"
#include "graph/passes/assign/assign.h"
#include "ops/conv/kernels.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/table.h"
#include "tests/normal.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS = 16, ROOTS = PARAMS + 1, SIDE = 14, SLOTS = 16 };

/* A prepared graph, a buffer a value. root[0] is the loss, root[i + 1] the gradient of parameter i. */
struct net {
    struct zt_graph *g;
    int image, label, param[PARAMS], root[ROOTS];
    struct zt_prepared *prepared;
    void **buffer, *workspace;
    size_t *bytes;
    int threads;
};

static struct zt_err err;
#define OK(expression) ck_assert_msg((expression), "%s: %s", #expression, err.text[0])

static int add_leaf(struct net *n, const char *name, enum zt_dtype dtype, struct zt_shape shape,
                    enum zt_origin origin) {
    int v = zt_graph_add_value(n->g, name, dtype, &shape);
    n->g->values[v]->origin = origin;
    n->g->values[v]->producer = -1;
    return v;
}

static int add_param(struct net *n, const char *name, struct zt_shape shape) {
    int v = add_leaf(n, name, ZT_FLOAT, shape, ZT_FROM_INITIALIZER);
    int64_t count = zt_shape_count(&shape), fan = count / shape.dim[0];
    float *data = zt_arena_alloc(n->g->arena, (size_t)count * sizeof *data);
    struct normal normal = normal_start((uint64_t)v, 1);
    for (int64_t i = 0; i < count; i++)
        data[i] = normal_next(&normal) / sqrtf((float)fan);
    n->g->values[v]->data = data;
    n->g->values[v]->trainable = true;
    return v;
}

static int add_node(struct net *n, const char *op, const char *domain, int a, int b, int c) {
    int in[3] = { a, b, c }, out = zt_graph_add_value(n->g, NULL, ZT_UNDEFINED, NULL);
    int opset = domain[0] ? 1 : ZT_OPSET;
    int node = zt_graph_add_node(n->g, &(struct zt_node_spec){ NULL, op, domain, opset, in,
                                                               c >= 0   ? 3
                                                               : b >= 0 ? 2
                                                                        : 1,
                                                               &out, 1 });
    n->g->nodes[node]->name = op;
    n->g->values[out]->producer = node;
    return out;
}

static int add_layer(struct net *n, int x, int w, int b) {
    static const int64_t two[2] = { 2, 2 };
    int y = add_node(n, "Relu", "", add_node(n, "Conv", "", x, w, b), -1, -1);
    y = add_node(n, "MaxPool", "", y, -1, -1);
    zt_node_set_ints(n->g, n->g->node_count - 1, "kernel_shape", two, 2);
    zt_node_set_ints(n->g, n->g->node_count - 1, "strides", two, 2);
    return y;
}

static int add_linear(struct net *n, int x, int w, int b) {
    int y = add_node(n, "Gemm", "", x, w, b);
    zt_node_set_int(n->g, n->g->node_count - 1, "transB", 1);
    return y;
}

/* Batch normalisation, whose running statistics are leaves. */
static int add_batch_norm(struct net *n, int x, int scale, int bias) {
    const struct zt_shape shape = n->g->values[scale]->shape;
    int in[5] = { x, scale, bias, add_param(n, "mean", shape), add_param(n, "variance", shape) };
    int y = zt_graph_add_value(n->g, NULL, ZT_UNDEFINED, NULL);
    for (int i = 3; i < 5; i++)
        n->g->values[in[i]]->trainable = false;
    int node =
        zt_graph_add_node(n->g, &(struct zt_node_spec){ NULL, "BatchNormalization", "", ZT_OPSET, in, 5, &y, 1 });
    n->g->nodes[node]->name = "BatchNormalization";
    n->g->values[y]->producer = node;
    return y;
}

/* The loss, with the log sum exp that its gradient reads. */
static int add_loss(struct net *n, int logits) {
    const int in[2] = { logits, n->label }, out[2] = { zt_graph_add_value(n->g, NULL, ZT_UNDEFINED, NULL),
                                                       zt_graph_add_value(n->g, NULL, ZT_UNDEFINED, NULL) };
    const int node =
        zt_graph_add_node(n->g, &(struct zt_node_spec){ NULL, "CrossEntropy", "ztrain", 1, in, 2, out, 2 });
    n->g->nodes[node]->name = "CrossEntropy";
    n->g->values[out[0]]->producer = n->g->values[out[1]]->producer = node;
    return out[0];
}

static int add_clip(struct net *n, int x, float low, float high) {
    const int min = zt_graph_add_constant(n->g, NULL, ZT_FLOAT, &(struct zt_shape){ 0 }, &low);
    return add_node(n, "Clip", "", x, min, zt_graph_add_constant(n->g, NULL, ZT_FLOAT, &(struct zt_shape){ 0 }, &high));
}

/* 3 channels of 14 x 14, conv 3x3 to 5, pool, batch normalisation and ReLU plus another one and Clip, conv 1x1 to 6 and
 * SiLU, normalisation in 3 groups and SiLU, conv 3x3 to 20, pool, 80 -> 33 -> 10. */
static void add_forward(struct net *n, int64_t batch) {
    static const struct zt_shape shapes[PARAMS] = {
        { 4, { 5, 3, 3, 3 } }, { 1, { 5 } },  { 4, { 20, 6, 3, 3 } }, { 1, { 20 } }, { 2, { 33, 80 } }, { 1, { 33 } },
        { 2, { 10, 33 } },     { 1, { 10 } }, { 4, { 6, 5, 1, 1 } },  { 1, { 6 } },  { 1, { 6 } },      { 1, { 6 } },
        { 1, { 5 } },          { 1, { 5 } },  { 1, { 5 } },           { 1, { 5 } }
    };
    static const char *const names[PARAMS] = { "w1", "b1", "w2", "b2", "w3", "b3", "w4", "b4",
                                               "w5", "b5", "w6", "b6", "w7", "b7", "w8", "b8" };
    const int64_t flat[2] = { batch, 80 };
    n->image = add_leaf(n, "image", ZT_FLOAT, (struct zt_shape){ 4, { batch, 3, SIDE, SIDE } }, ZT_FROM_INPUT);
    n->label = add_leaf(n, "label", ZT_INT64, (struct zt_shape){ 1, { batch } }, ZT_FROM_INPUT);
    for (int i = 0; i < PARAMS; i++)
        n->param[i] = add_param(n, names[i], shapes[i]);
    const int *p = n->param;
    const int pooled = add_layer(n, n->image, p[0], p[1]);
    int y = add_node(n, "Relu", "", add_batch_norm(n, pooled, p[12], p[13]), -1, -1);
    y = add_node(n, "Add", "", y, add_clip(n, add_batch_norm(n, pooled, p[14], p[15]), -1, 1), -1);
    y = add_node(n, "Conv", "", y, p[8], p[9]);
    y = add_node(n, "GroupNormalization", "", add_node(n, "Swish", "", y, -1, -1), p[10], p[11]);
    zt_node_set_int(n->g, n->g->node_count - 1, "num_groups", 3);
    y = add_layer(n, add_node(n, "Swish", "", y, -1, -1), p[2], p[3]);
    y = add_node(n, "Reshape", "", y, zt_graph_add_ints(n->g, "flat", flat, 2), -1);
    y = add_node(n, "Relu", "", add_linear(n, y, p[4], p[5]), -1, -1);
    n->root[0] = add_loss(n, add_linear(n, y, p[6], p[7]));
}

static void differentiate(struct net *n) {
    static const float one = 1;
    struct zt_train_options options = { 0 };
    int grads[PARAMS];
    OK(zt_graph_index(n->g, &err) && zt_pass_resolve(n->g, &zt_ops, n->root, 1, &err));
    OK(zt_pass_infer(n->g, 1 << 20, &err) && zt_pass_train(n->g, &options, &err));
    int start = zt_graph_add_constant(n->g, "one", ZT_FLOAT, &(struct zt_shape){ 0 }, &one);
    struct zt_cotangent from = { n->root[0], start };
    OK(zt_grad_build(n->g, &zt_ops, &(struct zt_grad_request){ &from, 1, n->param, PARAMS }, grads, &err));
    memcpy(n->root + 1, grads, sizeof grads);
    OK(zt_graph_sort(n->g, &err) && zt_graph_prune(n->g, n->root, ROOTS, &err));
}

static void allocate(struct net *n) {
    struct zt_graph *g = n->g;
    size_t most = 64;
    n->buffer = ZT_NEW_N(g->arena, void *, g->value_count);
    n->bytes = ZT_NEW_N(g->arena, size_t, g->value_count);
    for (int v = 0; v < g->value_count; v++) {
        const struct zt_value *x = g->values[v];
        if (x->shape.rank < 0)
            continue;
        size_t plain = (size_t)zt_shape_count(&x->shape) * zt_dtype_bytes(x->dtype);
        n->bytes[v] = x->layout ? x->layout->bytes : plain;
        n->buffer[v] = zt_arena_alloc(g->arena, n->bytes[v]);
        memset(n->buffer[v], 0xff, n->bytes[v]); /* NaN: what is not written is seen */
        if (x->data)
            memcpy(n->buffer[v], x->data, plain);
    }
    for (int i = 0; i < g->node_count; i++)
        most = n->prepared[i].workspace_bytes > most ? n->prepared[i].workspace_bytes : most;
    n->workspace = zt_arena_alloc(g->arena, most);
    memset(n->workspace, 0xff, most);
}

static void feed(struct net *n, int64_t batch) {
    struct normal normal = normal_start(99, 1);
    for (int64_t i = 0; i < batch * 3 * SIDE * SIDE; i++)
        ((float *)n->buffer[n->image])[i] = normal_next(&normal);
    for (int64_t i = 0; i < batch; i++)
        ((int64_t *)n->buffer[n->label])[i] = (int64_t)zt_rng_below(&normal.rng, 10);
}

static const char *const every[] = { "*" };
static const struct zt_fusion all = { zt_patterns, every, 1 };

static struct net make(int64_t batch, enum zt_backend backend, int threads, bool fuse, int *counts) {
    struct net n = { .g = zt_graph_create("net"), .threads = threads };
    add_forward(&n, batch);
    differentiate(&n);
    if (fuse)
        OK(zt_pass_fuse(n.g, &zt_ops, &(struct zt_fuse_options){ &all, 1u << backend, NULL, counts }, &err) &&
           zt_graph_prune(n.g, n.root, ROOTS, &err));
    OK(zt_pass_assign(n.g, &(struct zt_assign_options){ &zt_ops, backend, threads, NULL }, n.root, ROOTS, &n.prepared,
                      &err));
    allocate(&n);
    feed(&n, batch);
    return n;
}

static struct zt_view view(const struct net *n, int value) {
    if (value < 0)
        return (struct zt_view){ 0 };
    const struct zt_value *v = n->g->values[value];
    return (struct zt_view){ v->dtype, v->shape, n->buffer[value], v->layout };
}

static void run_node(const struct net *n, int node, bool accumulate) {
    static const struct zt_random none = { .seed = 1 };
    const struct zt_node *d = n->g->nodes[node];
    struct zt_view in[SLOTS], out[SLOTS];
    for (int i = 0; i < d->in_count; i++)
        in[i] = view(n, d->in[i]);
    for (int i = 0; i < d->out_count; i++)
        out[i] = view(n, d->out[i]);
    struct zt_call call = { .graph = n->g,
                            .node = d,
                            .in = in,
                            .out = out,
                            .in_count = d->in_count,
                            .out_count = d->out_count,
                            .state = n->prepared[node].state,
                            .workspace = n->workspace,
                            .threads = n->threads,
                            .accumulate = accumulate,
                            .random = &none };
    OK(d->op->kernel[d->backend].run(&call, &err));
}

static void run(const struct net *n) {
    for (int i = 0; i < n->g->node_count; i++)
        run_node(n, i, false);
}

static void finish(struct net *n) {
    zt_assign_release(n->g, n->prepared);
    zt_graph_destroy(n->g);
}

static void expect_same_bits(const struct net *a, const struct net *b) {
    for (int i = 0; i < ROOTS; i++) {
        ck_assert_uint_eq(a->bytes[a->root[i]], b->bytes[b->root[i]]);
        ck_assert_msg(memcmp(a->buffer[a->root[i]], b->buffer[b->root[i]], a->bytes[a->root[i]]) == 0,
                      "result %d differs between %d and %d threads", i, a->threads, b->threads);
    }
}

/* Within `limit` of the mean magnitude of each result. */
static void expect_close(const struct net *a, const struct net *b, double limit) {
    for (int i = 0; i < ROOTS; i++) {
        const float *x = a->buffer[a->root[i]], *y = b->buffer[b->root[i]];
        size_t count = a->bytes[a->root[i]] / sizeof *x;
        double scale = 0;
        for (size_t k = 0; k < count; k++)
            scale += fabs((double)y[k]) / (double)count;
        for (size_t k = 0; k < count; k++)
            ck_assert_msg(fabs((double)x[k] - (double)y[k]) <= limit * scale, "result %d, element %zu: %g, wants %g", i,
                          k, (double)x[k], (double)y[k]);
    }
}

static int count_nodes(const struct net *n, const char *op, enum zt_phase phase) {
    int count = 0;
    for (int i = 0; i < n->g->node_count; i++)
        count += strcmp(n->g->nodes[i]->op_type, op) == 0 && n->g->nodes[i]->phase == phase;
    return count;
}

static const int64_t batches[] = { 1, 3, 16, 20, 50 };

START_TEST(a_step_has_the_same_bits_at_any_thread_count) {
    struct net one = make(batches[_i], ZT_CPU, 1, true, NULL);
    run(&one);
    for (int threads = 2; threads <= 5; threads++) {
        struct net more = make(batches[_i], ZT_CPU, threads, true, NULL);
        run(&more);
        expect_same_bits(&one, &more);
        finish(&more);
    }
    run(&one);
    finish(&one);
}
END_TEST

START_TEST(a_step_agrees_with_the_reference_kernels) {
    struct net fast = make(batches[_i], ZT_CPU, 2, false, NULL), plain = make(batches[_i], ZT_REF, 2, false, NULL);
    run(&fast);
    run(&plain);
    expect_close(&fast, &plain, 1e-4);
    finish(&fast);
    finish(&plain);
}
END_TEST

/* A pattern that the net lacks: x plus a convolution of x. */
static void fuse_sum(int *counts) {
    struct net n = { .g = zt_graph_create("sum") };
    const int x = add_leaf(&n, "image", ZT_FLOAT, (struct zt_shape){ 4, { 2, 3, SIDE, SIDE } }, ZT_FROM_INPUT);
    const int w = add_param(&n, "w", (struct zt_shape){ 4, { 3, 3, 1, 1 } });
    const int y = add_node(&n, "Add", "", x, add_node(&n, "Conv", "", x, w, -1), -1);
    OK(zt_graph_index(n.g, &err) && zt_pass_resolve(n.g, &zt_ops, &y, 1, &err) && zt_pass_infer(n.g, 1 << 20, &err));
    OK(zt_pass_fuse(n.g, &zt_ops, &(struct zt_fuse_options){ &all, 1u << ZT_CPU, NULL, counts }, &err));
    zt_graph_destroy(n.g);
}

/* Patterns of bfloat16: the gradients of a weight, of a bias, and of a convolution's weight; and a product with a
 * weight. */
static void fuse_bfloat(int *counts) {
    struct net n = { .g = zt_graph_create("gradients") };
    const int x = add_leaf(&n, "x", ZT_BFLOAT16, (struct zt_shape){ 2, { 8, 4 } }, ZT_FROM_INPUT),
              dy = add_leaf(&n, "dy", ZT_BFLOAT16, (struct zt_shape){ 2, { 8, 3 } }, ZT_FROM_INPUT);
    const int product = add_node(&n, "Gemm", "", x, dy, -1);
    zt_node_set_int(n.g, n.g->node_count - 1, "transA", 1);
    const int dw = add_node(&n, "Cast", "", product, -1, -1);
    zt_node_set_int(n.g, n.g->node_count - 1, "to", ZT_FLOAT);
    const int wide = add_node(&n, "Cast", "", dy, -1, -1);
    zt_node_set_int(n.g, n.g->node_count - 1, "to", ZT_FLOAT);
    const int db = add_node(&n, "ReduceSum", "", wide, zt_graph_add_ints(n.g, NULL, (int64_t[]){ 0 }, 1), -1);
    zt_node_set_int(n.g, n.g->node_count - 1, "keepdims", 0);
    const struct zt_shape planes = { 4, { 2, 16, 5, 5 } };
    const int image = add_leaf(&n, "image", ZT_BFLOAT16, planes, ZT_FROM_INPUT),
              dimage = add_leaf(&n, "dimage", ZT_BFLOAT16, planes, ZT_FROM_INPUT);
    const int kernel = add_node(&n, "ConvGradWeight", "ztrain", image, dimage, -1);
    zt_node_set_ints(n.g, n.g->node_count - 1, "kernel_shape", (int64_t[]){ 1, 1 }, 2);
    const int dkernel = add_node(&n, "Cast", "", kernel, -1, -1);
    zt_node_set_int(n.g, n.g->node_count - 1, "to", ZT_FLOAT);
    const int half = add_node(&n, "Cast", "", add_param(&n, "w", (struct zt_shape){ 2, { 4, 3 } }), -1, -1);
    zt_node_set_int(n.g, n.g->node_count - 1, "to", ZT_BFLOAT16);
    const int y = add_node(&n, "MatMul", "", x, half, -1);
    OK(zt_graph_index(n.g, &err) && zt_pass_resolve(n.g, &zt_ops, (int[]){ dw, db, dkernel, y }, 4, &err) &&
       zt_pass_infer(n.g, 1 << 20, &err));
    OK(zt_pass_fuse(n.g, &zt_ops, &(struct zt_fuse_options){ &all, 1u << ZT_CPU, NULL, counts }, &err));
    zt_graph_destroy(n.g);
}

/* The gradient of a ReduceMax, a parameter whose halves change places, and shuffled channels. */
static void fuse_passes(int *counts) {
    struct net n = { .g = zt_graph_create("passes") };
    const int x = add_leaf(&n, "x", ZT_FLOAT, (struct zt_shape){ 2, { 4, 6 } }, ZT_FROM_INPUT),
              most = add_leaf(&n, "most", ZT_FLOAT, (struct zt_shape){ 2, { 4, 1 } }, ZT_FROM_INPUT),
              dy = add_leaf(&n, "dy", ZT_FLOAT, (struct zt_shape){ 2, { 4, 1 } }, ZT_FROM_INPUT);
    const int ties = add_node(&n, "Cast", "", add_node(&n, "Equal", "", x, most, -1), -1, -1);
    zt_node_set_int(n.g, n.g->node_count - 1, "to", ZT_FLOAT);
    const int sum = add_node(&n, "ReduceSum", "", ties, zt_graph_add_ints(n.g, NULL, (int64_t[]){ 1 }, 1), -1);
    const int dx = add_node(&n, "Mul", "", ties, add_node(&n, "Div", "", dy, sum, -1), -1);
    const int w = add_param(&n, "w", (struct zt_shape){ 2, { 4, 3 } });
    const int from = zt_graph_add_ints(n.g, NULL, (int64_t[]){ 0 }, 1),
              to = zt_graph_add_ints(n.g, NULL, (int64_t[]){ 2 }, 1),
              end = zt_graph_add_ints(n.g, NULL, (int64_t[]){ 4 }, 1);
    const int head = add_node(&n, "Slice", "", w, from, to), tail = add_node(&n, "Slice", "", w, to, end);
    const int turned = add_node(&n, "Concat", "", tail, head, -1);
    zt_node_set_int(n.g, n.g->node_count - 1, "axis", 0);
    const int image = add_leaf(&n, "image", ZT_FLOAT, (struct zt_shape){ 4, { 2, 6, 3, 3 } }, ZT_FROM_INPUT);
    const int parts = zt_graph_add_ints(n.g, NULL, (int64_t[]){ 2, 2, 3, 3, 3 }, 5);
    const int exchanged = add_node(&n, "Transpose", "", add_node(&n, "Reshape", "", image, parts, -1), -1, -1);
    zt_node_set_ints(n.g, n.g->node_count - 1, "perm", (int64_t[]){ 0, 2, 1, 3, 4 }, 5);
    const int whole = zt_graph_add_ints(n.g, NULL, (int64_t[]){ 2, 6, 3, 3 }, 4);
    const int shuffled = add_node(&n, "Reshape", "", exchanged, whole, -1);
    OK(zt_graph_index(n.g, &err) && zt_pass_resolve(n.g, &zt_ops, (int[]){ dx, turned, shuffled }, 3, &err) &&
       zt_pass_infer(n.g, 1 << 20, &err));
    OK(zt_pass_fuse(n.g, &zt_ops, &(struct zt_fuse_options){ &all, 1u << ZT_CPU, NULL, counts }, &err));
    zt_graph_destroy(n.g);
}

/* Whether this machine can match a pattern. */
static bool can_match(const struct zt_pattern *p) {
    static const char *const of_bfloat[] = { "gemm_float", "gemm_master", "bias_grad", "conv_float" };
    bool bfloat = false;
    for (size_t i = 0; i < sizeof of_bfloat / sizeof *of_bfloat; i++)
        bfloat |= strcmp(p->name, of_bfloat[i]) == 0;
    return p->when >> ZT_CPU & 1 && (!bfloat || zt_simd_gemm_of_bfloat());
}

START_TEST(fusion_changes_nothing_beyond_rounding) {
    int counts[64] = { 0 };
    struct net fused = make(batches[_i], ZT_CPU, 2, true, counts), plain = make(batches[_i], ZT_CPU, 2, false, NULL);
    fuse_sum(counts);
    fuse_bfloat(counts);
    fuse_passes(counts);
    for (int i = 0; zt_patterns[i]; i++)
        ck_assert_msg(counts[i] > 0 || !can_match(zt_patterns[i]), "pattern \"%s\" was not found",
                      zt_patterns[i]->name);
    run(&fused);
    run(&plain);
    expect_close(&fused, &plain, 1e-5);
    finish(&fused);
    finish(&plain);
}
END_TEST

START_TEST(activations_stay_blocked_between_convolutions_and_pools) {
    struct net n = make(20, ZT_CPU, 1, true, NULL);
    int weights = 5, flatten = 1;
    ck_assert_int_le(count_nodes(&n, "Reorder", ZT_FORWARD), weights + flatten);
    ck_assert_int_le(count_nodes(&n, "Reorder", ZT_BACKWARD), weights + flatten);
    finish(&n);
}
END_TEST

/* Whether the convolution of bfloat16 that was added last would rather be of float. */
static bool prefers_float(struct net *n, int y) {
    const int node = n->g->node_count - 1;
    OK(zt_graph_index(n->g, &err) && zt_pass_resolve(n->g, &zt_ops, &y, 1, &err) && zt_pass_infer(n->g, 1 << 20, &err));
    const bool prefers = zt_conv_cpu_prefers_float(n->g, node);
    zt_graph_destroy(n->g);
    return prefers;
}

/* Those of three axes, over time with taps far in the padding, weight gradients of long rows of the kernel, few
 * channels with long kernels, and groups that fill no vectors and have no kernel of their own. */
START_TEST(slow_convolutions_of_bfloat16_prefer_float) {
    struct net n = { .g = zt_graph_create("volumes") };
    int x = add_leaf(&n, "x", ZT_BFLOAT16, (struct zt_shape){ 5, { 2, 32, 3, 4, 5 } }, ZT_FROM_INPUT);
    int w = add_leaf(&n, "w", ZT_BFLOAT16, (struct zt_shape){ 5, { 32, 32, 3, 3, 3 } }, ZT_FROM_INPUT);
    ck_assert(prefers_float(&n, add_node(&n, "Conv", "", x, w, -1)));
    n = (struct net){ .g = zt_graph_create("time") };
    x = add_leaf(&n, "x", ZT_BFLOAT16, (struct zt_shape){ 3, { 2, 32, 80 } }, ZT_FROM_INPUT);
    w = add_leaf(&n, "w", ZT_BFLOAT16, (struct zt_shape){ 3, { 32, 32, 3 } }, ZT_FROM_INPUT);
    int y = add_node(&n, "Conv", "", x, w, -1);
    zt_node_set_ints(n.g, n.g->node_count - 1, "dilations", (int64_t[]){ 16 }, 1);
    zt_node_set_ints(n.g, n.g->node_count - 1, "pads", (int64_t[]){ 32, 0 }, 2);
    ck_assert(prefers_float(&n, y));
    n = (struct net){ .g = zt_graph_create("rows") };
    x = add_leaf(&n, "x", ZT_BFLOAT16, (struct zt_shape){ 3, { 2, 1, 80 } }, ZT_FROM_INPUT);
    w = add_leaf(&n, "dy", ZT_BFLOAT16, (struct zt_shape){ 3, { 2, 32, 49 } }, ZT_FROM_INPUT);
    y = add_node(&n, "ConvGradWeight", "ztrain", x, w, -1);
    zt_node_set_ints(n.g, n.g->node_count - 1, "kernel_shape", (int64_t[]){ 32 }, 1);
    ck_assert(prefers_float(&n, y));
    n = (struct net){ .g = zt_graph_create("long kernels of few channels") };
    x = add_leaf(&n, "x", ZT_BFLOAT16, (struct zt_shape){ 4, { 2, 1, 5, 70 } }, ZT_FROM_INPUT);
    w = add_leaf(&n, "w", ZT_BFLOAT16, (struct zt_shape){ 4, { 8, 1, 1, 40 } }, ZT_FROM_INPUT);
    ck_assert(prefers_float(&n, add_node(&n, "Conv", "", x, w, -1)));
    for (int64_t width = 1; width < 6; width += 4) { /* depthwise; groups of 5 channels */
        n = (struct net){ .g = zt_graph_create("groups") };
        x = add_leaf(&n, "x", ZT_BFLOAT16, (struct zt_shape){ 4, { 2, 40, 9, 9 } }, ZT_FROM_INPUT);
        w = add_leaf(&n, "w", ZT_BFLOAT16, (struct zt_shape){ 4, { 40, width, 3, 3 } }, ZT_FROM_INPUT);
        y = add_node(&n, "Conv", "", x, w, -1);
        zt_node_set_int(n.g, n.g->node_count - 1, "group", 40 / width);
        ck_assert_int_eq(prefers_float(&n, y), width > 1 || !zt_isa_has(ZT_ISA_AVX512_BF16));
    }
}
END_TEST

START_TEST(weight_gradients_add_to_what_is_there_when_asked) {
    struct net n = make(20, ZT_CPU, 2, true, NULL);
    run(&n);
    int asked = 0;
    for (int i = 0; i < n.g->node_count; i++)
        for (int r = 1; r < ROOTS; r++) {
            int value = n.root[r];
            if (n.g->nodes[i]->out[0] != value || !n.prepared[i].can_accumulate)
                continue;
            asked++;
            size_t count = n.bytes[value] / sizeof(float);
            float *now = n.buffer[value], *before = malloc(n.bytes[value]);
            memcpy(before, now, n.bytes[value]);
            run_node(&n, i, true);
            for (size_t k = 0; k < count; k++)
                ck_assert_msg(fabsf(now[k] - 2 * before[k]) <= 1e-5f * fabsf(before[k]) + 1e-7f,
                              "%s, element %zu: %g, wants twice %g", n.g->nodes[i]->name, k, (double)now[k],
                              (double)before[k]);
            free(before);
        }
    ck_assert_int_ge(asked, 4);
    finish(&n);
}
END_TEST

START_TEST(nan_in_the_input_reaches_the_loss) {
    struct net n = make(3, ZT_CPU, 1, true, NULL);
    ((float *)n.buffer[n.image])[SIDE + 2] = NAN;
    run(&n);
    ck_assert(isnan(*(float *)n.buffer[n.root[0]]));
    finish(&n);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    Suite *suite = suite_create("cpu kernels");
    TCase *cases = tcase_create("a small ConvNet");
    int count = sizeof batches / sizeof *batches;
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, a_step_has_the_same_bits_at_any_thread_count, 0, count);
    tcase_add_loop_test(cases, a_step_agrees_with_the_reference_kernels, 0, count);
    tcase_add_loop_test(cases, fusion_changes_nothing_beyond_rounding, 0, count);
    tcase_add_test(cases, activations_stay_blocked_between_convolutions_and_pools);
    tcase_add_test(cases, slow_convolutions_of_bfloat16_prefer_float);
    tcase_add_test(cases, weight_gradients_add_to_what_is_there_when_asked);
    tcase_add_test(cases, nan_in_the_input_reaches_the_loss);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); /* libgomp does not survive a fork */
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
