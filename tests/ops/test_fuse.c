/* Fusion patterns of the forward graph: what they find, what they must leave alone, and that outputs and gradients stay
 * what they were. */
#include "tests/ops/term_graph.h"

#include "graph/eval.h"
#include "graph/grad.h"
#include "graph/passes.h"
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
        for (int i = 0; i < m->g->nodes[n].in_count; i++)
            if (m->g->nodes[n].in[i] >= 0)
                used[m->g->nodes[n].in[i]] = true;
    for (int v = 0; v < m->g->value_count; v++)
        if (m->g->values[v].trainable && used[v])
            m->param[m->params++] = v;
    free(used);
    ck_assert_int_le(m->params, PARAMS);
}

static struct zt_tensor tensor_of(const struct zt_graph *g, int value) {
    return (struct zt_tensor){ g->values[value].dtype, g->values[value].shape, g->values[value].data };
}

static void take_inputs(struct zt_graph *g, struct zt_tensor *to) {
    for (int i = 0; i < g->input_count; i++) {
        to[i] = tensor_of(g, g->inputs[i]);
        g->values[g->inputs[i]].data = NULL;
    }
}

static void fuse(struct made *m, const char *names) {
    const struct zt_fusion fusion = { zt_patterns, &names, 1 };
    struct zt_train_options train = { 0 };
    OK(zt_pass_fuse(m->g, &zt_ops, &fusion, ZT_FUSE_FORWARD, &train, m->counts, &err));
}

static struct made make(const char *text, const char *names) {
    struct made m = { .g = term_graph(text) };
    struct zt_graph *g = m.g;
    struct zt_train_options train = { 0 };
    struct zt_tensor inputs[8];
    int y = g->outputs[0];
    take_inputs(g, inputs);
    OK(zt_graph_index(g, &err) && zt_pass_resolve(g, &zt_ops, &y, 1, &err));
    OK(zt_pass_infer(g, 1 << 20, &err) && zt_pass_train(g, &train, &err));
    fuse(&m, names);
    list_params(&m);
    if (zt_dtype_in(g->values[y].dtype, ZT_ANY_FLOAT)) {
        struct zt_shape shape = g->values[y].shape;
        struct zt_graph *dy = term_graph("Identity(dy![4096])");
        ck_assert_int_le(zt_shape_count(&shape), 4096);
        struct zt_cotangent from = { y, zt_graph_add_constant(g, "dy", ZT_FLOAT, &shape, dy->values[0].data) };
        zt_graph_destroy(dy);
        OK(zt_grad_build(g, &zt_ops, &from, 1, m.param, m.params, m.grad, &err));
    }
    m.eval = zt_eval_create(g, NULL, 1);
    for (int i = 0; i < g->input_count; i++)
        zt_eval_feed(m.eval, g->inputs[i], &inputs[i]);
    OK(zt_eval_run(m.eval, 0, g->node_count, &err));
    return m;
}

static void finish(struct made *m) {
    zt_eval_destroy(m->eval);
    zt_graph_destroy(m->g);
}

static void expect_close(const char *text, const char *what, struct zt_tensor a, struct zt_tensor b) {
    double largest = 0, worst = 0;
    ck_assert_msg(a.dtype == b.dtype && zt_shape_equal(&a.shape, &b.shape), "%s: %s has another shape", text, what);
    for (int64_t i = 0; i < zt_shape_count(&b.shape); i++) {
        double x = zt_load_double(a.dtype, a.data, i), y = zt_load_double(b.dtype, b.data, i);
        largest = fmax(largest, fabs(y));
        worst = isnan(x) || isnan(y) ? fmax(worst, isnan(x) != isnan(y)) : fmax(worst, fabs(x - y));
    }
    ck_assert_msg(worst <= 2e-6 * largest + 1e-7, "%s: %s differs by %g of %g", text, what, worst, largest);
}

static int pattern_index(const char *name) {
    for (int i = 0; zt_patterns[i]; i++)
        if (strcmp(zt_patterns[i]->name, name) == 0)
            return i;
    ck_abort_msg("no pattern %s", name);
    return -1;
}

/* The pattern stands `count` times in the graph, and fused or not the numbers are the same. */
static void expect(const char *text, const char *name, int count) {
    struct made fused = make(text, name), plain = make(text, "none");
    int found = fused.counts[pattern_index(name)];
    ck_assert_msg(found == count, "%s: %s found %d times, wanted %d", text, name, found, count);
    expect_close(text, "the result", tensor_of(fused.g, fused.g->outputs[0]), tensor_of(plain.g, plain.g->outputs[0]));
    ck_assert_int_eq(fused.params, plain.params);
    for (int i = 0; i < fused.params; i++) {
        ck_assert_msg((fused.grad[i] < 0) == (plain.grad[i] < 0), "%s: gradient %d", text, i);
        if (fused.grad[i] >= 0)
            expect_close(text, fused.g->values[fused.param[i]].name, tensor_of(fused.g, fused.grad[i]),
                         tensor_of(plain.g, plain.grad[i]));
    }
    finish(&fused);
    finish(&plain);
}

/* ---- gelu ---- */

static const char *const gelus[] = {
    "Mul(Mul(x[3,5], Add(Erf(Div(x, 1.4142135)), 1)), 0.5)",          /* PyTorch, TorchScript */
    "Mul(x[3,5], Mul(0.5, Add(Erf(Div(x, 1.4142135)), 1)))",          /* PyTorch, dynamo */
    "Mul(Mul(0.5, x[3,5]), Add(1, Erf(Mul(x, 0.70710678))))",         /* Keras */
    "Div(Mul(x[3,5], Add(1, Erf(Identity(Mul(0.70710678, x))))), 2)", /* with a node that does nothing */
    "Mul(Div(x[3,5], 2), Add(1, Erf(Div(x, 1.4142135))))",
    "Mul(Mul(x[3,5], 0.5), Add(1, Tanh(Mul(0.7978845608, Add(x, Mul(0.044715, Pow(x, 3)))))))", /* GPT-2 */
    "Mul(Mul(0.5, x[3,5]), Add(Tanh(Mul(0.7978845608, Add(x, Mul(Mul(x, x), Mul(x, 0.044715))))), 1))",
    "Mul(x[3,5], Mul(0.5, Add(Tanh(Mul(Mul(x, 0.7978845608), Add(1, Mul(0.044715, Mul(x, x))))), 1)))",
};

START_TEST(gelu_is_found_in_every_form) {
    expect(gelus[_i], "gelu", 1);
}
END_TEST

static const char *const no_gelus[] = {
    "Mul(Mul(x[3,5], Add(Erf(Div(x, 1.5)), 1)), 0.5)", /* another constant */
    "Mul(Mul(x[3,5], Add(Erf(Div(x, 1.4142135)), 1)), 0.4)",
    "Mul(Mul(x[3,5], Add(Erf(Div(z[3,5], 1.4142135)), 1)), 0.5)",           /* two inputs */
    "Mul(Mul(x[3,5], Add(Erf(Div(x, c[1])), 1)), 0.5)",                     /* a parameter as constant */
    "Mul(Mul(x[3,5], Add(Erf(Div(x, c![5])), 1)), 0.5)",                    /* a vector as constant */
    "e = Erf(Div(x[3,5], 1.4142135)); Add(Mul(Mul(x, Add(e, 1)), 0.5), e)", /* erf is read elsewhere */
    "Mul(Mul(x[5], Add(Erf(Div(x, c![1,1])), 1)), 0.5)",                    /* another rank comes out */
    "Mul(Mul(x[3,5], Add(Tanh(Mul(0.7978845608, Add(x, Mul(0.05, Pow(x, 3))))), 1)), 0.5)",
    "Mul(Mul(x[3,5], Add(Tanh(Mul(0.7978845608, Add(x, Mul(0.044715, Pow(x, 2))))), 1)), 0.5)",
};

START_TEST(what_is_no_gelu_is_left_alone) {
    expect(no_gelus[_i], "gelu", 0);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("fuse");
#define LOOP(test, rows) tcase_add_loop_test(cases, test, 0, (int)(sizeof(rows) / sizeof *(rows)))
    LOOP(gelu_is_found_in_every_form, gelus);
    LOOP(what_is_no_gelu_is_left_alone, no_gelus);
    return run_suite("fuse", cases, CK_NOFORK);
}
