/* Chains of elementwise nodes: which nodes become steps of one, and that every value a graph hands out keeps its bits.
 * Without arguments the reference kernels run both graphs; with the folder of a CUDA module, its kernels do. */
#include "tests/ops/elementwise/fused_steps.h"
#include "tests/ops/machine.h"
#include "tests/ops/term_graph.h"

#include "device/device.h"
#include "device/module.h"
#include "ops/table.h"
#include "tests/suite.h"
#include "graph/passes/infer.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct zt_device *device;
static struct zt_err err;

#define OK(what) ck_assert_msg((what), "%s: %s", #what, err.text[0])

enum { INPUTS = 8, PATTERNS = 64 };

struct made {
    struct zt_graph *g;
    struct zt_tensor input[INPUTS];
};

static struct made make(const char *text) {
    struct made m = { .g = term_graph(text) };
    struct zt_graph *g = m.g;
    err = (struct zt_err){ 0 };
    for (int i = 0; i < g->input_count; i++) {
        struct zt_value *v = g->values[g->inputs[i]];
        m.input[i] = (struct zt_tensor){ v->dtype, v->shape, v->data };
        v->data = NULL;
    }
    OK(zt_graph_index(g, &err) && zt_pass_resolve(g, &zt_ops, g->outputs, 1, &err) && zt_pass_infer(g, 1 << 20, &err));
    return m;
}

/* Returns how many chains were made. */
static int fuse(struct zt_graph *g, const char *glob) {
    const struct zt_fusion fusion = { zt_patterns, &glob, 1 };
    int counts[PATTERNS] = { 0 }, found = 0;
    OK(zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &fusion, 1u << ZT_CUDA, NULL, counts }, &err));
    for (int p = 0; zt_patterns[p]; p++)
        found += counts[p];
    return found;
}

static char *steps_of(const struct zt_graph *g) {
    struct zt_text text = { 0 };
    fused_steps(g, &text);
    return text.at ? text.at : zt_strdup("");
}

static struct zt_tensor run(struct made *m) {
    const struct options o = { .backend = device->module ? ZT_CUDA : ZT_REF, .threads = 1, .device = device };
    struct machine machine;
    struct zt_tensor y;
    OK(machine_start(&machine, m->g, m->g->outputs, 1, &o, &err));
    ck_assert(machine_runs_here(&machine));
    for (int i = 0; i < m->g->input_count; i++)
        OK(machine_feed(&machine, m->g->inputs[i], &m->input[i], &err));
    for (int n = 0; n < m->g->node_count; n++)
        OK(machine_run_node(&machine, n, &err));
    OK(machine_fetch(&machine, m->g->outputs[0], &y, &err));
    machine_finish(&machine);
    return y;
}

static void expect(const char *text, int count, const char *wanted) {
    struct made chained = make(text), plain = make(text);
    int found = fuse(chained.g, "fused_elementwise");
    ck_assert_int_eq(fuse(plain.g, "gelu"), 0);
    char *steps = steps_of(chained.g);
    ck_assert_msg(strcmp(steps, wanted) == 0, "%s: \"%s\", wanted \"%s\"", text, steps, wanted);
    ck_assert_int_eq(found, count);
    struct zt_tensor a = run(&chained), b = run(&plain);
    ck_assert(a.dtype == b.dtype && zt_shape_equal(&a.shape, &b.shape));
    ck_assert_msg(memcmp(a.data, b.data, (size_t)zt_shape_count(&a.shape) * zt_dtype_bytes(a.dtype)) == 0,
                  "%s: other bits", text);
    free(steps);
    zt_graph_destroy(chained.g);
    zt_graph_destroy(plain.g);
}

static const struct {
    const char *text;
    int count;
    const char *steps;
} rows[] = {
    { "Mul(Tanh(Add(x~[3,5], b[5])), s[3,5])", 1, "Add Tanh Mul" },
    { "Neg(Add(x~[3,1], b[1,5]))", 1, "Add Neg" }, /* both broadcast */
    { "Neg(Mul(2, x~[3,5]))", 1, "Mul Neg" },
    { "Exp(Neg(x~[1]))", 1, "Neg Exp" },
    { "Relu(MatMul(x~[3,5], w[5,4]))", 0, "" }, /* alone */
    { "Relu(MatMul(Neg(x~[3,5]), w[5,4]))", 0, "" },
    { "Abs(ReduceSum<keepdims=1>(Exp(Neg(x~[3,5])), {1}))", 1, "Neg Exp" },
    { "t = Tanh(x~[3,5]); Mul(t, Sigmoid(t))", 1, "Tanh Sigmoid Mul" }, /* all readers are steps */
    { "t = Neg(x~[3,5]); Mul(t, t)", 1, "Neg Mul" },
    { "t = Neg(x~[3,4]); Add(Relu(MatMul(t, w[4,4])), t)", 1, "Relu Add" }, /* one is not */
    { "t = Neg(x~[3,5]); Concat<axis=0>(Exp(t), Abs(t))", 0, "" },          /* none of two ends may have it */
    { "Add(x~[3,5], Neg(b~[5]))", 0, "" },                                  /* of another shape */
    { "Add(x~[3,5], Neg(b~[1,3,5]))", 1, "Neg Add" },
    { "Add(x~[3,5], Neg(w[3,5]))", 0, "" }, /* made of parameters, once after an update */
    { "Add(x~[3,5], Neg(Exp(w[3,5])))", 1, "Exp Neg" },
    { "Add(x~[3,5], Neg(Reshape(w[15], {3,5})))", 0, "" },
    { "Sub(Mul(x~[3,5], y~[3,5]), Div(x, z~[3,5]))", 1, "Mul Div Sub" }, /* a tree */
    { "Clip(Add(x~[3,5], 1), -0.5, 0.5)", 1, "Add Clip" },
    { "Neg(Clip(x~[3,5], , 0.5))", 1, "Clip Neg" },
    { "Neg(Pow(x~[3,5], 2))", 1, "Pow Neg" },
    { "Pow(Abs(x~[3,5]), p~[5])", 1, "Abs Pow" },
    { "Neg(Max(x~[3,5], y~[5], z~[3,1]))", 1, "Max Neg" },
    { "Mean(Neg(x~[3,5]), y~[5], z~[3,1])", 1, "Neg Mean" },
    { "LeakyRelu<alpha=0.3>(Elu<alpha=0.7>(x~[3,5]))", 1, "Elu LeakyRelu" },
    { "Gelu(Add(x~[2,3,4], b[4]))", 1, "Add Gelu" },
    { "Where(Less(Neg(x~[3,5]), y~[5]), x, Exp(y2~[3,5]))", 1, "Neg Less Exp Where" },
    { "Where(Not(m~bool[3,5]), 0, Neg(x~[3,5]))", 1, "Not Neg Where" },
    { "And(Greater(x~[3,5], y~[5]), Not(m~bool[3,5]))", 1, "Greater Not And" },
    /* what lies between two steps is rounded as its node did it */
    { "Mul(Cast<to=1>(Cast<to=16>(x~[3,5])), y~[3,5])", 1, "Cast Cast Mul" },
    { "Cast<to=1>(Add(Cast<to=16>(x~[3,5]), Cast<to=16>(y~[3,5])))", 1, "Cast Cast Add Cast" },
    { "Cast<to=16>(Mul(Cast<to=1>(Neg(Cast<to=16>(x~[3,5]))), y~[5]))", 1, "Cast Neg Cast Mul Cast" },
    { "Cast<to=10>(Exp(Cast<to=10>(x~[3,5])))", 1, "Cast Exp Cast" },
    { "Cast<to=1>(Where(m~bool[3,5], Cast<to=16>(x~[3,5]), Cast<to=16>(y~[3,5])))", 1, "Cast Cast Where Cast" },
    { "Cast<to=11>(Add(Cast<to=6>(Mul(x~[3,5], 10)), Cast<to=6>(y~[3,5])))", 1, "Mul Cast Cast Add Cast" },
    { "CastLike(Neg(x~[3,5]), like~bool[1,2])", 1, "Neg CastLike" },
    { "Add(Cast<to=3>(Mul(x~[3,5], 100)), Cast<to=3>(Mul(y~[3,5], 100)))", 1, "Mul Cast Mul Cast Add" },
    /* y could be written over an input of as many bytes that lies otherwise */
    { "Cast<to=1>(Mul(Cast<to=11>(x~[1,2]), Cast<to=11>(y~[2,1])))", 0, "" },
    { "Cast<to=1>(Mul(Cast<to=11>(x~[1,2]), Cast<to=11>(y~[3,1])))", 1, "Mul Cast" },
    /* at most 8 inputs and 16 steps, the last ones first */
    { "Add(Add(Add(Add(Add(Add(Add(Add(Add(a~[3], b~[3]), c~[3]), d~[3]), e~[3]), f~[3]), g~[3]), h~[3]), n[3]), o[3])",
      2, "Add Add; Add Add Add Add Add Add Add" },
    { "Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Neg(Exp(Exp(x~[3])))))))))))))))))))", 2,
      "Exp Exp Neg; Neg Neg Neg Neg Neg Neg Neg Neg Neg Neg Neg Neg Neg Neg Neg Neg" },
};

START_TEST(chains_are_what_only_they_read_and_keep_the_bits) {
    expect(rows[_i].text, rows[_i].count, rows[_i].steps);
}
END_TEST

/* t = Tanh(Neg(x)) with as many nodes between t and its reader. */
static void expect_far(int between, const char *wanted) {
    struct zt_text text = { 0 };
    zt_text_add(&text, "t = Tanh(Neg(x~[2,2])); r0 = MatMul(w[2,2], w)");
    for (int i = 1; i < between; i++)
        zt_text_add(&text, "; r%d = MatMul(r%d, w)", i, i - 1);
    zt_text_add(&text, "; Sub(t, r%d)", between - 1);
    expect(text.at, 1, wanted);
    zt_text_finish(&text);
}

START_TEST(what_is_read_much_later_is_made_at_once) {
    expect_far(20, "Neg Tanh Sub");
    expect_far(40, "Neg Tanh");
}
END_TEST

static int count_chains(struct zt_graph *g) {
    OK(zt_graph_index(g, &err));
    return fuse(g, "fused_elementwise");
}

/* x -> neg -> tanh -> exp -> y */
static struct zt_graph *three(void) {
    return make("neg = Neg(x~[3,5]); tanh = Tanh(neg); Exp(tanh)").g;
}

static void expect_steps(struct zt_graph *g, const char *wanted) {
    count_chains(g);
    char *steps = steps_of(g);
    ck_assert_str_eq(steps, wanted);
    free(steps);
    zt_graph_destroy(g);
}

START_TEST(what_gives_a_type_alone_is_no_input) {
    struct zt_graph *g = make("CastLike(Neg(x~[3,5]), like~bool[1,2])").g;
    ck_assert_int_eq(count_chains(g), 1);
    ck_assert_int_eq(g->nodes[g->values[g->outputs[0]]->producer]->in_count, 1);
    zt_graph_destroy(g);
}
END_TEST

START_TEST(what_the_graph_hands_out_is_made) {
    struct zt_graph *g = three();
    const int outputs[] = { zt_graph_find(g, "tanh"), g->outputs[0] };
    g->outputs = (int *)outputs;
    g->output_count = 2;
    expect_steps(g, "Neg Tanh");
}
END_TEST

START_TEST(what_is_written_back_is_made) {
    struct zt_graph *g = three();
    int statistic = zt_graph_add_value(g, "statistic", ZT_FLOAT, &(struct zt_shape){ 2, { 3, 5 } });
    g->values[statistic]->origin = ZT_FROM_INITIALIZER;
    zt_graph_add_write_back(g, statistic, zt_graph_find(g, "neg"));
    expect_steps(g, "Tanh Exp");
}
END_TEST

START_TEST(a_chain_ends_where_the_phase_or_the_stage_does) {
    expect_steps(three(), "Neg Tanh Exp");
    struct zt_graph *g = three();
    g->nodes[2]->phase = ZT_BACKWARD;
    expect_steps(g, "Neg Tanh");
    g = three();
    g->nodes[1]->stage = g->nodes[2]->stage = 1;
    expect_steps(g, "Tanh Exp");
}
END_TEST

int main(int argc, char **argv) {
    device = argc > 1 ? zt_module_device(argv[1], 0, 1, &err) : zt_device_host_create(1);
    if (!device) {
        printf("%s\n", err.text[0]);
        return 1;
    }
    TCase *cases = tcase_create("chain");
    tcase_add_loop_test(cases, chains_are_what_only_they_read_and_keep_the_bits, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(cases, what_is_read_much_later_is_made_at_once);
    tcase_add_test(cases, what_gives_a_type_alone_is_no_input);
    tcase_add_test(cases, what_the_graph_hands_out_is_made);
    tcase_add_test(cases, what_is_written_back_is_made);
    tcase_add_test(cases, a_chain_ends_where_the_phase_or_the_stage_does);
    int failed = run_suite("fuse_chain", cases, CK_NOFORK);
    device->api->destroy(device);
    return failed;
}
