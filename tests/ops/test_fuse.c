/* Fusion patterns of the forward graph: what they find, what they must leave alone, and that outputs and gradients stay
 * what they were. */
#include "tests/ops/term_graph.h"

#include "base/rng.h"
#include "graph/passes/eval.h"
#include "graph/passes/grad.h"
#include "graph/passes/infer.h"
#include "graph/passes/fusion/apply_patterns.h"
#include "ops/table.h"
#include "tests/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct zt_err err;

#define OK(what) ck_assert_msg((what), "%s: %s", #what, err.text[0])

enum { PARAMS = 12, PATTERNS = 64 };

/* A graph, what it gives, and the gradient of every parameter where the cotangent is random. */
struct made {
    struct zt_graph *g;
    struct zt_eval *eval;
    int param[PARAMS], grad[PARAMS], params;
    int counts[PATTERNS];
};

static void list_params(struct made *m) {
    bool *used = zt_calloc((size_t)m->g->value_count + 1, sizeof *used);
    for (int n = 0; n < m->g->node_count; n++)
        for (int i = 0; i < m->g->nodes[n]->in_count; i++)
            if (m->g->nodes[n]->in[i] >= 0)
                used[m->g->nodes[n]->in[i]] = true;
    for (int v = 0; v < m->g->value_count; v++)
        if (m->g->values[v]->trainable && used[v])
            m->param[m->params++] = v;
    free(used);
    ck_assert_int_le(m->params, PARAMS);
}

static struct zt_tensor tensor_of(const struct zt_graph *g, int value) {
    return (struct zt_tensor){ g->values[value]->dtype, g->values[value]->shape, g->values[value]->data };
}

static void take_inputs(struct zt_graph *g, struct zt_tensor *to) {
    for (int i = 0; i < g->input_count; i++) {
        to[i] = tensor_of(g, g->inputs[i]);
        g->values[g->inputs[i]]->data = NULL;
    }
}

static void fuse(struct made *m, const char *names) {
    const struct zt_fusion fusion = { zt_patterns, &names, 1 };
    struct zt_train_options train = { 0 };
    OK(zt_pass_fuse(m->g, &zt_ops, &(struct zt_fuse_options){ &fusion, ZT_FUSE_FORWARD, &train, m->counts }, &err));
    OK(zt_pass_fuse(m->g, &zt_ops, &(struct zt_fuse_options){ &fusion, ZT_FUSE_FORWARD_CPU, &train, m->counts }, &err));
}

/* One input of one node becomes another value that is made before, as `seed` has it; 0: nothing is changed. */
static void rewire(struct zt_graph *g, uint64_t seed) {
    struct zt_rng rng = zt_rng_start(seed, 0);
    struct zt_node *n = g->nodes[zt_rng_below(&rng, (uint64_t)g->node_count)];
    int *in = &n->in[zt_rng_below(&rng, (uint64_t)n->in_count)];
    int other = (int)zt_rng_below(&rng, (uint64_t)g->value_count);
    if (seed && g->values[other]->producer < n->index)
        *in = other;
}

/* False where the graph is none: after a change, shapes may not fit. */
static bool start(struct made *m, const char *text, uint64_t seed, struct zt_tensor *inputs) {
    struct zt_train_options train = { 0 };
    *m = (struct made){ .g = term_graph(text) };
    err = (struct zt_err){ 0 };
    int y = m->g->outputs[0];
    take_inputs(m->g, inputs);
    OK(zt_graph_index(m->g, &err));
    rewire(m->g, seed);
    return zt_graph_index(m->g, &err) && zt_pass_resolve(m->g, &zt_ops, &y, 1, &err) &&
           zt_pass_infer(m->g, 1 << 20, &err) && zt_pass_train(m->g, &train, &err);
}

static bool build(struct made *m, const char *text, const char *names, uint64_t seed) {
    struct zt_tensor inputs[8];
    if (!start(m, text, seed, inputs)) {
        ck_assert_msg(seed, "%s: %s", text, err.text[0]);
        return false;
    }
    struct zt_graph *g = m->g;
    int y = g->outputs[0];
    fuse(m, names);
    list_params(m);
    if (zt_dtype_in(g->values[y]->dtype, ZT_ANY_FLOAT)) {
        struct zt_shape shape = g->values[y]->shape;
        struct zt_graph *dy = term_graph("Identity(dy![4096])");
        ck_assert_int_le(zt_shape_count(&shape), 4096);
        struct zt_cotangent from = { y, zt_graph_add_constant(g, "dy", ZT_FLOAT, &shape, dy->values[0]->data) };
        zt_graph_destroy(dy);
        if (!zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ &from, 1, m->param, m->params }, m->grad, &err))
            return !seed;
    }
    m->eval = zt_eval_create(g, NULL, 1);
    for (int i = 0; i < g->input_count; i++)
        zt_eval_feed(m->eval, g->inputs[i], &inputs[i]);
    return zt_eval_run(m->eval, 0, g->node_count, &err);
}

static struct made make(const char *text, const char *names) {
    struct made m;
    OK(build(&m, text, names, 0));
    return m;
}

static void finish(struct made *m) {
    if (m->eval)
        zt_eval_destroy(m->eval);
    zt_graph_destroy(m->g);
}

/* a may be finite where b is not: in a fully masked row, for the logarithm of a softmax of 0. */
static void expect_close(const char *text, const char *what, struct zt_tensor a, struct zt_tensor b, double limit,
                         double least) {
    double largest = 0, worst = 0;
    ck_assert_msg(a.dtype == b.dtype && zt_shape_equal(&a.shape, &b.shape), "%s: %s has another shape", text, what);
    for (int64_t i = 0; i < zt_shape_count(&b.shape); i++) {
        double x = zt_load_double(a.dtype, a.data, i), y = zt_load_double(b.dtype, b.data, i);
        if (!isfinite(y))
            continue;
        largest = fmax(largest, fabs(y));
        worst = isfinite(x) ? fmax(worst, fabs(x - y)) : INFINITY;
    }
    ck_assert_msg(worst <= limit * largest + least, "%s: %s differs by %g of %g", text, what, worst, largest);
}

static int pattern_index(const char *name) {
    for (int i = 0; zt_patterns[i]; i++)
        if (strcmp(zt_patterns[i]->name, name) == 0)
            return i;
    ck_abort_msg("no pattern %s", name);
    return -1;
}

static void expect_same(const char *text, const struct made *fused, const struct made *plain, double limit,
                        double least) {
    int y = plain->g->outputs[0];
    expect_close(text, "the result", tensor_of(fused->g, y), tensor_of(plain->g, y), limit, least);
    ck_assert_int_eq(fused->params, plain->params);
    for (int i = 0; i < fused->params; i++) {
        const char *name = fused->g->values[fused->param[i]]->name;
        ck_assert_msg((fused->grad[i] < 0) == (plain->grad[i] < 0), "%s: gradient of %s", text, name);
        if (fused->grad[i] >= 0)
            expect_close(text, name, tensor_of(fused->g, fused->grad[i]), tensor_of(plain->g, plain->grad[i]), limit,
                         least);
    }
}

/* With the patterns that fit the glob fused the numbers are the same, and the one called `name` stands `count` times in
 * the graph (-1: whatever). */
static void expect(const char *text, const char *glob, const char *name, int count) {
    struct made fused = make(text, glob), plain = make(text, "none");
    int found = fused.counts[pattern_index(name)];
    ck_assert_msg(found == count || count < 0, "%s: %s found %d times, wanted %d", text, name, found, count);
    expect_same(text, &fused, &plain, 2e-6, 1e-7);
    finish(&fused);
    finish(&plain);
}

/* ---- where each pattern stands, and where it does not ---- */

struct row {
    const char *pattern;
    int count;
    const char *text;
};

#define VAR(d)   "Add(ReduceMean(Pow(" d ", 2), {-1}), 0.00001)"
#define SWAP(x)  "Transpose<perm=0 2 1 3>(" x ")"
#define SPLIT(x) SWAP("Reshape(" x ", {0,0,3,-1})")
#define JOINED(attrs, q, k, v, more)                                                                                   \
    "Reshape(" SWAP("Attention" attrs "(" SPLIT(q) ", " SPLIT(k) ", " SPLIT(v) more ")") ", {0,0,-1})"
#define THREE(x)   "p = Split:3<axis=2,num_outputs=3>(" x ");"
#define HEADS_2    "Attention<q_num_heads=2,kv_num_heads=2>"
#define SOFTMAX(s) "MatMul(Softmax(" s "), v[2,3,6,7])"
#define SQUARE(s)  "MatMul(Softmax(" s "), v[2,3,4,7])"
#define QK         "MatMul(q[2,3,4,5], Transpose<perm=0 1 3 2>(k[2,3,6,5]))"
#define SELF       "MatMul(q[2,3,4,5], Transpose<perm=0 1 3 2>(k[2,3,4,5]))"
#define GROUPED    "InstanceNormalization<epsilon=0.01>(Reshape(x[2,6,3,3], {0,2,-1}), "

static const struct row rows[] = {
    /* PyTorch's TorchScript and dynamo exporters, Keras, GPT-2 and others */
    { "gelu", 1, "Mul(Mul(x[3,5], Add(Erf(Div(x, 1.4142135)), 1)), 0.5)" },
    { "gelu", 1, "Mul(x[3,5], Mul(0.5, Add(Erf(Div(x, 1.4142135)), 1)))" },
    { "gelu", 1, "Mul(Mul(0.5, x[3,5]), Add(1, Erf(Mul(x, 0.70710678))))" },
    { "gelu", 1, "Div(Mul(x[3,5], Add(1, Erf(Identity(Mul(0.70710678, x))))), 2)" },
    { "gelu", 1, "Mul(Div(x[3,5], 2), Add(1, Erf(Div(x, 1.4142135))))" },
    { "gelu", 1, "Mul(Mul(x[3,5], 0.5), Sub(1, Erf(Mul(Neg(x), 0.70710678))))" },
    { "gelu", 0, "Mul(Mul(x[3,5], 0.5), Sub(1, Erf(Mul(x, 0.70710678))))" }, /* Gelu(-x) */
    { "gelu", 1, "Mul(Mul(x[3,5], 0.5), Add(1, Tanh(Mul(0.7978845608, Add(x, Mul(0.044715, Pow(x, 3)))))))" },
    { "gelu", 1, "Mul(0.5, Mul(x[3,5], Add(1, Tanh(Mul(0.7978845608, Add(x, Mul(0.044715, Mul(x, Mul(x, x)))))))))" },
    { "gelu", 1, "Mul(Mul(0.5, x[3,5]), Add(Tanh(Mul(0.7978845608, Add(x, Mul(Mul(x, x), Mul(x, 0.044715))))), 1))" },
    { "gelu", 1, "Mul(x[3,5], Mul(0.5, Add(Tanh(Mul(Mul(x, 0.7978845608), Add(1, Mul(0.044715, Mul(x, x))))), 1)))" },
    { "gelu", 2,
      "y = Mul(x[3,5], Mul(0.5, Add(Erf(Div(x, 1.4142135)), 1))); Mul(y, Mul(0.5, Add(Erf(Div(y, 1.4142135)), 1)))" },
    { "gelu", 0, "Mul(Mul(x[3,5], Add(Erf(Div(x, 1.5)), 1)), 0.5)" }, /* other constants */
    { "gelu", 0, "Mul(Mul(x[3,5], Add(Erf(Div(x, 1.4142135)), 1)), 0.4)" },
    { "gelu", 0, "Mul(Mul(x[3,5], Add(Tanh(Mul(0.7978845608, Add(x, Mul(0.05, Pow(x, 3))))), 1)), 0.5)" },
    { "gelu", 0, "Mul(Mul(x[3,5], Add(Tanh(Mul(0.7978845608, Add(x, Mul(0.044715, Pow(x, 2))))), 1)), 0.5)" },
    { "gelu", 0, "Mul(Mul(x[3,5], Add(Erf(Div(z[3,5], 1.4142135)), 1)), 0.5)" }, /* two inputs */
    { "gelu", 0, "Mul(Mul(x[3,5], Add(Erf(Div(x, c[1])), 1)), 0.5)" },           /* what trains is no constant */
    { "gelu", 0, "Mul(Mul(x[3,5], Add(Erf(Div(x, c![5])), 1)), 0.5)" },          /* nor is a vector */
    { "gelu", 0, "Mul(Mul(x[3,5], Add(Erf(Div(x, c~[1])), 1)), 0.5)" },          /* nor what is fed */
    { "gelu", 0, "e = Erf(Div(x[3,5], 1.4142135)); Add(Mul(Mul(x, Add(e, 1)), 0.5), e)" }, /* read elsewhere */

    { "swish", 1, "Mul(x[3,5], Sigmoid(x))" },
    { "swish", 1, "Mul(Sigmoid(Mul(1.702, x[3,5])), x)" },
    { "swish", 1, "Div(x[3,5], Add(1, Exp(Neg(x))))" },
    { "swish", 0, "Mul(x[3,5], Sigmoid(z[3,5]))" },
    { "swish", 0, "Mul(x[3,5], Sigmoid(Mul(x, b[5])))" },
    { "swish", 0, "s = Sigmoid(x[3,5]); Add(Mul(x, s), s)" },
    { "hard_swish", 1, "Mul(x[3,5], HardSigmoid<alpha=0.16666667,beta=0.5>(x))" },
    { "hard_swish", 1, "Div(Mul(x[3,5], Clip(Add(x, 3), 0, 6)), 6)" },
    { "hard_swish", 1, "Mul(x[3,5], Div(Clip(Add(x, 3), 0, 6), 6))" },
    { "hard_swish", 1, "Mul(x[3,5], Mul(0.16666667, Clip(Add(x, 3), 0, 6)))" },
    { "hard_swish", 0, "Mul(x[3,5], HardSigmoid(x))" },
    { "hard_swish", 0, "Div(Mul(x[3,5], Clip(Add(x, 3), 0, 5)), 6)" },
    { "mish", 1, "Mul(x[3,5], Tanh(Softplus(x)))" },
    { "mish", 0, "Mul(x[3,5], Tanh(Softplus(Neg(x))))" },
    { "softplus", 1, "Where(Greater(x[3,5], 20), x, Softplus(x))" },
    { "softplus", 1, "Log(Add(1, Exp(x[3,5])))" },
    { "softplus", 0, "Where(Greater(x[3,5], 0.5), x, Softplus(x))" },
    { "softplus", 0, "Log(Add(2, Exp(x[3,5])))" },

    { "layer_norm", 1, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Add(Mul(Div(d, Sqrt(" VAR("d") ")), w[8]), b[8])" },
    { "layer_norm", 1,
      "d = Sub(x[2,3,8], ReduceMean(x, {2})); Add(b[8], Mul(w[8], Mul(d, Reciprocal(Sqrt(" VAR("d") ")))))" },
    { "layer_norm", 1, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Mul(Div(d, Sqrt(" VAR("d") ")), w[1,1,8])" },
    { "layer_norm", 1, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Add(Div(d, Sqrt(" VAR("d") ")), b[8])" },
    { "layer_norm", 1, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Div(d, Sqrt(Add(0.1, ReduceMean(Mul(d, d), {-1}))))" },
    { "layer_norm", 1,
      "d = Sub(x[2,3,8], ReduceMean@13<axes=-1 -2>(x));"
      "Add(Mul(Div(d, Sqrt(Add(ReduceMean@13<axes=1 2>(Mul(d, d)), 0.1))), w[3,8]), b![3,8])" },
    { "layer_norm", 1,
      "m = ReduceMean(x[2,3,8], {-1}); v = Add(ReduceMean(Pow(Sub(x, m), 2), {-1}), 0.001);"
      "k = Mul(Reciprocal(Sqrt(v)), w[8]); Add(Mul(x, k), Sub(b[8], Mul(m, k)))" },
    { "layer_norm", 1,
      "m = ReduceMean(x[2,3,8], {-1}); d = Sub(x, m);" /* the mean taken off twice */
      "Mul(Mul(Sub(x, m), Pow(Add(ReduceMean(Mul(d, d), {-1}), 0.001), -0.5)), w[8])" },
    { "layer_norm", 1,
      "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Add(Mul(Div(d, Sqrt(" VAR("d") ")), w[8]), x)" }, /* residual */
    { "layer_norm", 1, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Mul(Div(d, Sqrt(" VAR("d") ")), w[2,1,8])" },
    { "layer_norm", 1, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Mul(Div(d, Sqrt(" VAR("d") ")), w[3,8])" },
    { "layer_norm", 2,
      "d = Sub(x[2,8], ReduceMean(x, {-1})); y = Div(d, Sqrt(" VAR(
          "d") "));"
               "e = Sub(y, ReduceMean(y, {-1})); Mul(Div(e, Sqrt(Add(ReduceMean(Pow(e, 2), {-1}), 0.5))), w[8])" },
    { "layer_norm", 1,
      "m = ReduceMean(x[2,3,8], {-1}); v = Max(Sub(ReduceMean(Mul(x, x), {-1}), Mul(m, m)), 0);"
      "Add(Mul(Div(Sub(x, m), Sqrt(Add(v, 0.001))), w[8]), b[8])" },
    { "layer_norm", 0,
      "m = ReduceMean(x[2,3,8], {-1}); v = Max(Sub(ReduceMean(Mul(x, x), {-1}), Mul(m, m)), 0.5);"
      "Div(Sub(x, m), Sqrt(Add(v, 0.001)))" },
    { "layer_norm", 0, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Div(d, Sqrt(Add(ReduceMean(Pow(d, 2), {1}), 0.1)))" },
    { "layer_norm", 0, "d = Sub(x[2,3,8], ReduceMean(x, {1})); Div(d, Sqrt(Add(ReduceMean(Pow(d, 2), {1}), 0.1)))" },
    { "layer_norm", 0, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Div(d, Sqrt(Add(ReduceMean(Pow(d, 3), {-1}), 9)))" },
    { "layer_norm", 0, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Div(d, Sqrt(Add(ReduceMean(Pow(d, 2), {-1}), e[8])))" },
    { "layer_norm", 0, "d = Sub(x[2,3,8], ReduceMean(z[2,3,8], {-1})); Div(d, Sqrt(" VAR("d") "))" },
    { "layer_norm", 0, "d = Sub(x[2,3,8], ReduceMean(x, {-1})); Add(Div(d, Sqrt(" VAR("d") ")), d)" },
    { "layer_norm", 0, "d = Sub(x[8,8], ReduceMean<keepdims=0>(x, {-1})); Div(d, Sqrt(" VAR("d") "))" },

    { "layer_norm", 1,
      "m = GlobalAveragePool(x[2,3,8]); d = Sub(x, m); k = Mul(Reciprocal(Sqrt(Add(GlobalAveragePool(Mul(d, d)), "
      "0.001))), "
      "w[1,1,8]); Add(Mul(x, k), Add(Mul(Neg(m), k), b[1,1,8]))" },
    { "layer_norm", 0, /* the mean of a plane, the variance of a row */
      "d = Sub(x[2,3,4,8], GlobalAveragePool(x)); Div(d, Sqrt(Add(ReduceMean(Mul(d, d), {-1}), 0.001)))" },
    { "rms_norm", 1, "Mul(w[8], Mul(x[2,3,8], Reciprocal(Sqrt(Add(ReduceMean(Pow(x, 2), {-1}), 0.001)))))" },
    { "rms_norm", 1,
      "Mul(Cast<to=1>(Mul(x[2,3,8], Div(1, Sqrt(Add(ReduceMean@13<axes=[-1]>(Pow(x, 2)), 0.001))))), w[8])" },
    { "rms_norm", 1, "Div(x[2,3,8], Sqrt(Add(ReduceMean(Mul(x, x), {1,2}), 0.001)))" },
    { "rms_norm", 1, "Mul(x[2,3,8], Mul(Reciprocal(Sqrt(Add(0.1, ReduceMean(Mul(x, x), {-1})))), w[8]))" },
    { "rms_norm", 1,
      "Mul(Mul(x[2,3,8], Pow(Add(ReduceMean(Pow(x, 2), {-1}), 0.001), -0.5)), Add(w[8], 1))" }, /* Gemma */
    { "rms_norm", 0, "Mul(w[8], Mul(x[2,3,8], Reciprocal(Sqrt(Add(ReduceMean(Pow(z[2,3,8], 2), {-1}), 0.001)))))" },
    { "rms_norm", 0, "Mul(w[8], Mul(x[2,3,8], Reciprocal(Sqrt(Add(ReduceSum(Pow(x, 2), {-1}), 0.001)))))" },
    { "rms_norm", 0, "Div(x[2,3,8], Sqrt(Add(ReduceMean(Mul(x, x), {0}), 0.001)))" },

    { "group_norm", 1, "Add(Mul(Reshape(" GROUPED "o!1[2], z!0[2]), Shape(x)), w[6,1,1]), b[6,1,1])" },
    { "group_norm", 1, "Add(Mul(Reshape(" GROUPED "o!1[2], z!0[2]), Shape(x)), Unsqueeze(w[6], {1,2})), b[1,6,1,1])" },
    { "group_norm", 1, "Mul(Reshape(" GROUPED "o!1[2], z!0[2]), Shape(x)), w[3])" },
    { "group_norm", 0, "Add(Mul(Reshape(" GROUPED "o!1[2], z!1[2]), Shape(x)), w[6,1,1]), b[6,1,1])" },
    { "group_norm", 0, "Reshape(" GROUPED "o!1[2], z!0[2]), {6,2,3,3})" },
    { "group_norm", 0, "Add(Mul(Reshape(" GROUPED "o[2], z[2]), Shape(x)), w[6,1,1]), b[6,1,1])" },

    { "conv_bias", 1, "Add(Conv<pads=1 1 1 1,strides=2 2>(x[2,3,5,5], w[4,3,3,3]), b[4,1,1])" },
    { "conv_bias", 1, "Add(b[1,4,1], Conv(x[2,3,7], w[4,3,3]))" },
    { "conv_bias", 1, "Add(ConvTranspose<strides=2 2>(x[2,3,4,4], w[3,4,2,2]), Reshape(b[4], {1,4,1,1}))" },
    { "conv_bias", 0, "Add(Conv(x[2,3,5,5], w[4,3,3,3]), b[3])" }, /* along the columns */
    { "conv_bias", 1, "Add(Conv(x[2,3,5,5], w[4,3,3,3], c[4]), b[4,1,1])" },
    { "conv_bias", 0, "Add(Conv(x[2,3,5,5], w[4,3,3,3], c[4]), z~[4,1,1])" }, /* of the data */
    { "conv_bias", 0, "Add(Conv(x[2,3,5,5], w[4,3,3,3]), b[2,4,1,1])" },
    { "conv_bias", 0, "c = Conv(x[2,3,5,5], w[4,3,3,3]); Mul(Add(c, b[4,1,1]), c)" },

    { "conv_pad", 1, "Conv<strides=2 2>(Pad(x[2,3,5,6], {0,0,0,1,0,0,2,1}), w[4,3,3,3])" },
    { "conv_pad", 1, "Conv<pads=1 0 0 1>(Pad(x[2,3,5,6], {0,0,1,0,0,0,1,1}, 0), w[4,3,3,3], b[4])" },
    { "conv_pad", 1, "Conv<pads=1 0,dilations=[2]>(Pad(x[2,3,7], {0,0,0,0,0,0}, 0), w[4,3,2])" },
    { "conv_pad", 1, "Conv<auto_pad=SAME_UPPER,strides=2 2>(Pad(x[2,3,5,6], {1,0,0,1}, 0, {-1,2}), w[4,3,3,4])" },
    { "conv_pad", 0, "Conv(Pad(x[2,3,5,6], {0,0,0,1,0,0,2,1}, 1), w[4,3,3,3])" }, /* ones */
    { "conv_pad", 0, "Conv(Pad<mode=edge>(x[2,3,5,6], {0,0,0,1,0,0,2,1}), w[4,3,3,3])" },
    { "conv_pad", 0, "Conv(Pad(x[2,3,5,6], {0,1,0,1,0,0,2,1}), w[4,4,3,3])" },  /* a channel */
    { "conv_pad", 0, "Conv(Pad(x[2,3,5,6], {0,0,0,-1,0,0,2,1}), w[4,3,3,3])" }, /* takes a column */
    { "conv_pad", 0, "Conv(Pad(x[2,3,5,6], {0,0,3,1,0,0,2,1}), w[4,3,3,3])" },  /* a window of padding */
    { "conv_pad", 0, "p = Pad(x[2,3,5,6], {0,0,0,1,0,0,2,1}); Add(Conv<pads=1 1 1 1>(p, w[3,3,3,3]), p)" },

    { "conv_scale", 1, "Mul(Conv<pads=1 1 1 1>(x[2,3,9,9], w[4,3,3,3]), s[1,4,1,1])" },
    { "conv_scale", 1, "Mul(Exp(s[4,1]), Conv(x[2,3,30], w[4,3,3], b[4]))" },
    { "conv_scale", 1, "Mul(Conv<group=4>(x[2,4,9,9], w[8,1,3,3]), s[8,1,1])" },
    { "conv_scale", 0, "Mul(Conv(x[2,3,9,9], w[4,3,3,3]), z~[1,4,1,1])" }, /* of the data */
    { "conv_scale", 0, "Mul(Conv(x[2,3,9,9], w[4,3,3,3]), s[7])" },        /* along the columns */
    { "conv_scale", 0, "Mul(Conv(x[1,30,3,3], w[4,30,3,3]), s[4,1,1])" },  /* many weights for few results */
    { "conv_scale", 0, "c = Conv(x[2,3,9,9], w[4,3,3,3]); Add(Mul(c, s[4,1,1]), c)" },

    { "gemm", 1, "Add(MatMul(x[2,3,5], Transpose(w[4,5])), b[4])" },
    { "gemm", 1, "Add(b[4], MatMul(x[3,5], Transpose<perm=1 0>(w[4,5])))" },
    { "gemm", 1, "MatMul(x[2,3,5], Transpose<perm=1 0>(w[4,5]))" },
    { "gemm", 1, "Add(MatMul(x[2,3,5], w[5,4]), b[4])" },
    { "gemm", 0, "MatMul(x[2,3,5], w[5,4])" },
    { "gemm", 0, "MatMul(x[3,5], Transpose<perm=0 1>(w[5,5]))" },
    { "gemm", 0, "Add(MatMul(x[2,3,5], w[5,4]), b[3,1])" }, /* along the rows */
    { "gemm", 0, "MatMul(x[2,3,5], Transpose<perm=0 2 1>(w[2,4,5]))" },
    { "gemm", 0, "MatMul(x[5], Transpose(w[4,5]))" },
    { "gemm", 0, "t = Transpose(w[5,5]); Add(MatMul(x[3,5], t), MatMul(z[3,5], Neg(t)))" }, /* others read it */

    { "einsum", 1, "Einsum<equation='nd,edo,ne->no'>(x[3,5], w[4,5,6], g[3,4])" },
    { "einsum", 1, "Einsum<equation='nijk,iap,pjbq,qkc->nabc'>(x[2,3,4,2], a[3,2,5], b[5,4,3,2], c[2,2,3])" },
    { "einsum", 1, "Einsum<equation='...i,ij,...j'>(x[2,1,3], w[3,4], z[1,5,4])" }, /* no arrow, and broadcast */
    { "einsum", 1, "Einsum<equation='ii,ij,k->kj'>(x[4,4], w[4,5], v[3])" },        /* a diagonal, and a sum alone */
    { "einsum", 0, "Einsum<equation='nd,do->no'>(x[3,5], w[5,6])" },
    { "einsum", 0, "Einsum<equation='nd->n'>(x[3,5])" },
    { "einsum_axes", 1, "Einsum<equation='bikc,bjkc->bijc'>(x[2,3,4,5], w[2,6,4,5])" },
    { "einsum_axes", 1, "Einsum<equation='bijh,bjhd->bihd'>(x[2,3,4,5], w[2,4,5,6])" }, /* the first operand alone */
    { "einsum_axes", 1, "Einsum<equation='...jh,jhd->...hd'>(x[2,5,4,3], w[4,3,6])" },
    { "einsum_axes", 0, "Einsum<equation='bhij,bhjd->bhid'>(x[2,3,4,5], w[2,3,5,6])" },
    { "einsum_axes", 0, "Einsum<equation='bic,bjc->bij'>(x[2,3,4], w[2,5,4])" }, /* the last axis is summed */
    { "einsum_axes", 0, "Einsum<equation='bic,bc->bic'>(x[2,3,4], w[2,4])" },    /* no columns */
    { "einsum_axes", 0, "Einsum<equation='iij,kj->ikj'>(x[3,3,4], w[5,4])" },    /* a diagonal */
    { "sinc", 1, "p = Mul(x[3,5], 3.14159); Where(Equal(x, 0.0), 1.0, Div(Sin(p), p))" },
    { "sinc", 0, "p = Mul(x[3,5], 3.14159); Where(Equal(x, 0.0), 2.0, Div(Sin(p), p))" },
    { "sinc", 0, "p = Mul(x[3,5], 3.14159); Where(Equal(x, 0.0), 1.0, Div(Cos(p), p))" },

    { "softmax", 1, "e = Exp(Sub(x[3,5], ReduceMax(x, {-1}))); Div(e, ReduceSum(e, {-1}))" },
    { "softmax", 1, "e = Exp(Sub(x[3,5,2], ReduceMax(x, {1}))); Div(e, ReduceSum(e, {1}))" },
    { "softmax", 0, "e = Exp(Sub(x[3,5], ReduceMax(x, {0}))); Div(e, ReduceSum(e, {1}))" },
    { "softmax", 0, "e = Exp(Sub(x[3,5], ReduceMax(x, {0,1}))); Div(e, ReduceSum(e, {0,1}))" },
    { "log_softmax", 1, "Log(Softmax(x[3,5]))" },
    { "log_softmax", 1, "Log(Softmax@11<axis=2>(x[3,2,5]))" },
    { "log_softmax", 0, "Log(Softmax@11<axis=1>(x[3,2,5]))" }, /* over two axes */
    { "log_softmax", 1, "s = Sub(x[3,5], ReduceMax(x, {-1})); Sub(s, Log(ReduceSum(Exp(s), {-1})))" },
    { "log_softmax", 1, "Sub(x[3,5], ReduceLogSumExp(x, {1}))" },
    { "log_softmax", 0, "p = Softmax(x[3,5]); Add(Log(p), p)" },
    { "softmax_loss", 1, "NegativeLogLikelihoodLoss(LogSoftmax(x[3,5]), {1,4,0})" },
    { "softmax_loss", 1,
      "NegativeLogLikelihoodLoss<ignore_index=4,reduction=sum>(LogSoftmax(x[3,5]), {1,4,0}, w![5])" },
    { "softmax_loss", 0, "NegativeLogLikelihoodLoss(LogSoftmax<axis=0>(x[3,5]), {1,4,0})" },

    { "attention", 1, SOFTMAX(QK) },
    { "attention", 1, SOFTMAX("Mul(" QK ", 0.3)") },
    { "attention", 1, SOFTMAX("Div(MatMul(Mul(q[2,3,4,5], 0.5), Mul(Transpose<perm=0 1 3 2>(k[2,3,6,5]), 0.6)), 2)") },
    { "attention", 1, SOFTMAX("MatMul(Div(q[2,3,4,5], 2), Div(kt[2,3,5,6], 3))") }, /* no Transpose: one is made */
    { "attention", 1, SOFTMAX("MatMul(q[2,3,4,5], Transpose<perm=0 2 3 1>(k[2,6,3,5]))") },
    { "attention", 1,
      SOFTMAX("MatMul(q[2,3,4,5], Reshape(Transpose<perm=0 2 1>(Reshape(k[2,3,6,5], {-1,6,5})), {2,3,5,6}))") },
    { "attention", 1, SOFTMAX("MatMul(q[2,3,4,5], Reshape(Transpose<perm=0 2 1>(k[6,6,5]), {2,3,5,6}))") },
    { "attention", 1, "MatMul(Softmax(MatMul(q[6,4,5], Transpose<perm=0 2 1>(k[6,6,5]))), v[6,6,7])" },
    { "attention", 1, "MatMul(Softmax(Add(MatMul(q[6,4,5], Transpose<perm=0 2 1>(k[6,6,5])), m~[6,4,6])), v[6,6,7])" },
    { "attention", 1, "MatMul(Softmax(Add(MatMul(q[6,4,5], Transpose<perm=0 2 1>(k[6,6,5])), m~[4,6])), v[6,6,7])" },
    { "attention", 1, SOFTMAX("Add(Mul(" QK ", 0.3), m~[4,6])") },
    { "attention", 1, SOFTMAX("Add(m~[2,1,1,6], Mul(" QK ", 0.3))") },
    { "attention", 1, SOFTMAX("Add(" QK ", m![1,3,4,6])") },
    { "attention", 1, SOFTMAX("Where(m~bool[4,6], " QK ", -inf)") },
    { "attention", 1, SOFTMAX("Where(Not(m~bool[2,1,4,6]), -inf, " QK ")") },
    { "attention", 0, SOFTMAX("Where(m~bool[4,6], " QK ", -10000.0)") }, /* a row that sees nothing sees all */
    { "attention", 1, SOFTMAX("Where(m!bool[4,6], " QK ", -10000.0)") }, /* there is none */
    { "attention", 1, SQUARE("Where(m!bool[4,4], Mul(" SELF ", 0.5), -10000.0)") },
    { "attention", 1, SQUARE("Add(Mul(" SELF ", 0.5), Where(m!bool[1,1,4,4], 0, -inf))") },
    { "attention", 1, SOFTMAX("Where(m~bool[4,6], " QK ", -3.4028235e38)") },
    { "attention", 0, SOFTMAX("Where(m~bool[4,6], " QK ", -1.5)") },
    { "attention", 1, "p = Softmax(Where(m~bool[4,6], " QK ", -inf)); MatMul(Where(IsNaN(p), 0, p), v[2,3,6,7])" },
    { "attention", 1,
      "k = Reshape(Expand(Unsqueeze(k0[2,3,6,5], {2}), {2,3,2,6,5}), {2,6,6,5});"
      "v = Reshape(Expand(Unsqueeze(v0[2,3,6,7], {2}), {2,3,2,6,7}), {2,6,6,7});"
      "MatMul(Softmax(MatMul(q[2,6,4,5], Transpose<perm=0 1 3 2>(k))), v)" },
    { "attention", 1, "MatMul(Dropout<seed=1>(Softmax(" QK "), 0.0), v[2,3,6,7])" },
    { "attention", 0, SOFTMAX("Add(" QK ", m[4,6])") }, /* the mask trains */
    { "attention", 0, SOFTMAX("Add(" QK ", Mul(m[4,6], 2))") },
    { "attention", 0, SOFTMAX("Add(" QK ", m~[4,1])") },
    { "attention", 0, "MatMul(Softmax<axis=2>(" QK "), v[2,3,6,7])" },
    { "attention", 0, "MatMul(Softmax@11<axis=2>(" QK "), v[2,3,6,7])" },
    { "attention", 1, "MatMul(Softmax@11<axis=3>(" QK "), v[2,3,6,7])" },
    { "attention", 0, "MatMul(v[2,3,7,4], Softmax(" QK "))" },
    { "attention", 0, "p = Softmax(" QK "); Add(MatMul(p, v[2,3,6,6]), p)" }, /* the weights are read */
    { "attention", 0, "MatMul(Softmax(" QK "), v[1,3,6,7])" },
    { "attention", 0, "p = Softmax(" SELF "); MatMul(p, p)" },
    { "attention", 0, SOFTMAX("Mul(" QK ", s[1])") },
    { "attention", 0, "MatMul(Softmax(MatMul(q[4,5], Transpose(k[6,5]))), v[6,7])" },

    { "attention_heads", 1, SWAP("Attention(" SWAP("q[2,4,3,5]") ", " SWAP("k[2,6,3,5]") ", " SWAP("v[2,6,3,7]") ")") },
    { "attention_heads", 1, JOINED("", "q[2,4,15]", "k[2,6,15]", "v[2,6,21]", "") },
    { "attention_heads", 1, JOINED("<is_causal=1,scale=0.3>", "q[2,4,15]", "k[2,6,15]", "v[2,6,21]", ", m~[4,6]") },
    { "attention_heads", 1, /* heads of keys are shared */
      SWAP("Attention(" SWAP("q[2,4,4,5]") ", " SWAP("k[2,6,2,5]") ", " SWAP("v[2,6,2,7]") ")") },
    { "attention_heads", 1, /* keys are read elsewhere too */
      "k = " SWAP("k0[2,6,3,5]") "; a = Attention(" SWAP("q[2,6,3,5]") ", k, " SWAP(
          "v[2,6,3,5]") ");"
                        "Add(" SWAP("a") ", Transpose<perm=0 2 1 3>(k))" },
    { "attention_heads", 0, SWAP("Attention(" SWAP("q[2,4,3,5]") ", " SWAP("k[2,6,3,5]") ", v[2,3,6,7])") },
    { "attention_heads", 0, "Attention(" SWAP("q[2,4,3,5]") ", " SWAP("k[2,6,3,5]") ", " SWAP("v[2,6,3,7]") ")" },
    { "attention_heads", 0, /* another perm: of keys, of what comes out */
      SWAP("Attention(" SWAP("q[2,4,3,5]") ", Transpose<perm=0 3 1 2>(k[2,6,5,3]), " SWAP("v[2,6,3,7]") ")") },
    { "attention_heads", 0,
      "Transpose<perm=2 0 1 3>(Attention(" SWAP("q[2,4,3,5]") ", " SWAP("k[2,6,3,5]") ", " SWAP("v[2,6,3,7]") "))" },
    { "attention_heads", 0, /* y is read twice */
      "y = Attention(" SWAP("q[2,4,4,5]") ", " SWAP("k[2,6,4,5]") ", " SWAP("v[2,6,4,7]") "); Add(" SWAP("y") ", y)" },

    { "attention_packed", 1, THREE("x[2,4,30]") HEADS_2 "(p, p', p'')" },
    { "attention_packed", 1,
      THREE("x[2,4,30]") "Attention<q_num_heads=1,kv_num_heads=1,is_causal=1>(p, p', p'', m~[4,4])" },
    { "attention_packed", 1, /* heads of keys are shared */
      "p = Split:3<axis=2>(x[2,4,40], {20,10,10}); Attention<q_num_heads=4,kv_num_heads=2>(p, p', p'')" },
    { "attention_packed", 1,
      HEADS_2 "(Slice(x[2,4,30], {0}, {10}, {2}), Slice(x, {10}, {-10}, {-1}), Slice(x, {-10}, {99}, {2}))" },
    { "attention_packed", 1, /* views of parts of rows */
      "p = Split:3<axis=-1,num_outputs=3>(x[8,30]); " HEADS_2
      "(Reshape(p, {2,4,10}), Reshape(p', {2,4,10}), Reshape(p'', {2,4,10}))" },
    { "attention_packed", 0, /* the same rows, of other columns */
      "p = Split:3<axis=-1,num_outputs=3>(x[2,8,15]); " HEADS_2
      "(Reshape(p, {2,4,10}), Reshape(p', {2,4,10}), Reshape(p'', {2,4,10}))" },
    { "attention_packed", 0, THREE("x[2,4,30]") HEADS_2 "(p', p, p'')" },
    { "attention_packed", 0, THREE("x[2,4,30]") HEADS_2 "(p, p', p)" },
    { "attention_packed", 0, THREE("x[2,4,30]") "Add(" HEADS_2 "(p, p', p''), p')" },
    { "attention_packed", 0,
      THREE("x[2,4,30]") "r = Split:3<axis=2,num_outputs=3>(z[2,4,30]);" HEADS_2 "(p, r', r'')" },
    { "attention_packed", 0, /* columns are left over */
      "p = Split:4<axis=2,num_outputs=4>(x[2,4,40]); Add(" HEADS_2 "(p, p', p''), p''')" },
    { "attention_packed", 0, "p = Split:3<axis=1,num_outputs=3>(x[2,12,10]); " HEADS_2 "(p, p', p'')" },
    { "attention_packed", 0, /* values of another size */
      "p = Split:3<axis=2>(x[2,4,40], {10,10,20}); " HEADS_2 "(p, p', p'')" },
    { "attention_packed", 0, /* every other column; columns that are read twice; not all rows */
      HEADS_2 "(Slice(x[2,4,30], {0}, {20}, {2}, {2}), Slice(x, {10}, {20}, {2}), Slice(x, {20}, {30}, {2}))" },
    { "attention_packed", 0,
      HEADS_2 "(Slice(x[2,4,30], {0}, {10}, {2}), Slice(x, {0}, {10}, {2}), Slice(x, {20}, {30}, {2}))" },
    { "attention_packed", 0,
      HEADS_2
      "(Slice(x[2,4,30], {0,0}, {3,10}, {1,2}), Slice(x, {0,10}, {3,20}, {1,2}), Slice(x, {0,20}, {3,30}, {1,2}))" },
};

/* The pattern alone and all patterns together. */
START_TEST(patterns_stand_where_they_should_and_change_nothing) {
    expect(rows[_i].text, rows[_i].pattern, rows[_i].pattern, rows[_i].count);
    expect(rows[_i].text, "*", rows[_i].pattern, -1);
}
END_TEST

/* Each graph with one input of one node changed: where it still is a graph, fusion changes nothing. */
START_TEST(nothing_is_fused_that_only_looks_alike) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct made fused, plain;
        bool ok = build(&plain, rows[_i].text, "none", seed);
        if (build(&fused, rows[_i].text, "*", seed) && ok)
            expect_same(rows[_i].text, &fused, &plain, 1e-4, 1e-6);
        else
            ck_assert_msg(!ok, "%s, change %llu: %s", rows[_i].text, (unsigned long long)seed, err.text[0]);
        finish(&fused);
        finish(&plain);
    }
}
END_TEST

/* The only Attention of what a term becomes, or its training form. */
static const struct zt_node *fused_attention(const struct made *m) {
    const struct zt_node *found = NULL;
    for (int n = 0; n < m->g->node_count; n++)
        if (m->g->nodes[n]->phase == ZT_FORWARD && strstr(m->g->nodes[n]->op_type, "Attention"))
            found = m->g->nodes[n];
    ck_assert_ptr_nonnull(found);
    return found;
}

START_TEST(a_constant_mask_below_the_diagonal_is_causal) {
    struct made m = make(SQUARE("Where(Not(m!bool[4,4]), -inf, " SELF ")"), "attention");
    ck_assert_int_eq(fused_attention(&m)->in_count, 3);
    ck_assert_int_eq(zt_attr_int(fused_attention(&m), "is_causal", 0), 1);
    finish(&m);
    m = make(SQUARE("Where(m~bool[4,4], " SELF ", -inf)"), "attention"); /* the same, but who knows */
    ck_assert_int_eq(fused_attention(&m)->in_count, 4);
    finish(&m);
}
END_TEST

START_TEST(transposed_and_repeated_keys_are_read_as_they_were) {
    struct made m = make(
        "k = Reshape(Expand(Unsqueeze(k0[2,3,6,5], {2}), {2,3,2,6,5}), {2,6,6,5});"
        "v = Reshape(Expand(Unsqueeze(v0[2,3,6,7], {2}), {2,3,2,6,7}), {2,6,6,7});"
        "MatMul(Softmax(MatMul(q[2,6,4,5], Transpose<perm=0 1 3 2>(k))), v)",
        "attention");
    ck_assert_int_eq(fused_attention(&m)->in[1], zt_graph_find(m.g, "k0"));
    ck_assert_int_eq(fused_attention(&m)->in[2], zt_graph_find(m.g, "v0"));
    finish(&m);
}
END_TEST

static int count_ops(const struct made *m, const char *op_type) {
    int count = 0;
    for (int n = 0; n < m->g->node_count; n++)
        count += !m->g->nodes[n]->dead && strcmp(m->g->nodes[n]->op_type, op_type) == 0;
    return count;
}

START_TEST(heads_that_were_split_are_read_where_they_were_one) {
    struct made m = make(JOINED("", "q[2,4,15]", "k[2,6,15]", "v[2,6,21]", ""), "attention_heads");
    const struct zt_node *n = fused_attention(&m);
    ck_assert_int_eq(n->in[0], zt_graph_find(m.g, "q"));
    ck_assert_int_eq(n->in[1], zt_graph_find(m.g, "k"));
    ck_assert_int_eq(n->in[2], zt_graph_find(m.g, "v"));
    ck_assert_int_eq(count_ops(&m, "Transpose"), 0); /* forward and backward */
    finish(&m);
}
END_TEST

START_TEST(parts_of_one_tensor_are_read_and_their_gradients_written_in_it) {
    struct made m = make(THREE("x[2,4,45]") JOINED("<is_causal=1>", "p", "p'", "p''", ""), "attention_*");
    const struct zt_node *n = fused_attention(&m);
    ck_assert_str_eq(n->op_type, "PackedAttentionTrain");
    ck_assert_int_eq(n->in[0], zt_graph_find(m.g, "x"));
    ck_assert_int_eq(count_ops(&m, "PackedAttentionGrad"), 1);
    ck_assert_int_eq(count_ops(&m, "Transpose") + count_ops(&m, "Split") + count_ops(&m, "Concat"), 0);
    finish(&m);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("fuse");
    tcase_add_loop_test(cases, patterns_stand_where_they_should_and_change_nothing, 0,
                        (int)(sizeof rows / sizeof *rows));
    tcase_add_loop_test(cases, nothing_is_fused_that_only_looks_alike, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(cases, a_constant_mask_below_the_diagonal_is_causal);
    tcase_add_test(cases, transposed_and_repeated_keys_are_read_as_they_were);
    tcase_add_test(cases, heads_that_were_split_are_read_where_they_were_one);
    tcase_add_test(cases, parts_of_one_tensor_are_read_and_their_gradients_written_in_it);
    return run_suite("fuse", cases, CK_NOFORK);
}
