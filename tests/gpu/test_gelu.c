/* Matrix products that take GELU in, in whole programs on a device of CUDA's back end: which of them do, that nothing
 * is lost that others read, and that training gives the same losses within rounding. Without arguments the device is
 * far_device.h's, whose kernels are the reference; with the folder of a CUDA module it is the module's. */
#include "tests/gpu/far_device.h"
#include "tests/parallel/made.h"
#include "tests/parallel/walk.h"
#include "tests/suite.h"

#include "device/module.h"
#include "device/threads.h"

#include <math.h>
#include <string.h>

static const char *folder; /* of a CUDA module, or NULL: far_device.h */

static struct zt_device *create_device(void) {
    struct zt_err err = { 0 };
    struct zt_device *device = folder ? zt_module_device(folder, 0, 1, &err) : far_device_create();
    ck_assert_msg(device, "%s", err.text[0]);
    return device;
}

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static int param(struct zt_graph *g, const char *layer, const char *what, const struct zt_shape *shape) {
    return net_param(g, zt_arena_printf(g->arena, "%s.%s", layer, what), shape);
}

static int matmul(struct zt_graph *g, const char *name, int x, int64_t in, int64_t out) {
    return NET(g, "MatMul", name, x, param(g, name, "weight", SHAPE(in, out)));
}

static int linear(struct zt_graph *g, const char *name, int x, int64_t in, int64_t out) {
    const int h = matmul(g, zt_arena_printf(g->arena, "%s.product", name), x, in, out);
    return NET(g, "Add", name, param(g, name, "bias", SHAPE(out)), h);
}

static int gelu(struct zt_graph *g, const char *name, int x) {
    const int y = NET(g, "Gelu", name, x);
    zt_node_set_text(g, g->node_count - 1, "approximate", "tanh");
    return y;
}

static int start(struct zt_graph *g) {
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 8));
    g->values[x].dim_param[0] = "N";
    return x;
}

static struct zt_graph *finish(struct zt_graph *g, int h) {
    const int y = matmul(g, "y", h, 8, 5);
    g->values[y].dtype = ZT_FLOAT; /* as a file declares its outputs */
    return tiny_output(g, y);
}

static struct zt_graph *flat(void) {
    struct zt_graph *g = zt_graph_create("flat");
    return finish(g, gelu(g, "gelu", linear(g, "fc", start(g), 8, 8)));
}

/* Rows of two axes: gradients of products are reshaped there. */
static struct zt_graph *rows(void) {
    struct zt_graph *g = zt_graph_create("rows");
    const int64_t apart[] = { -1, 2, 4 }, together[] = { -1, 8 };
    int h = NET(g, "Reshape", "apart", start(g), zt_graph_add_ints(g, NULL, apart, 3));
    h = matmul(g, "fc2", gelu(g, "gelu", linear(g, "fc1", h, 4, 16)), 16, 4);
    return finish(g, NET(g, "Reshape", "together", h, zt_graph_add_ints(g, NULL, together, 2)));
}

static int gemm(struct zt_graph *g, const char *name, int x, bool bias) {
    const int h =
        NET(g, "Gemm", name, x, param(g, name, "weight", SHAPE(8, 8)), bias ? param(g, name, "bias", SHAPE(8)) : -1);
    zt_node_set_int(g, g->node_count - 1, "transB", 1);
    return h;
}

static struct zt_graph *gemms(void) {
    struct zt_graph *g = zt_graph_create("gemms");
    const int h = gelu(g, "gelu1", gemm(g, "fc1", start(g), true));
    return finish(g, gelu(g, "gelu2", gemm(g, "fc2", h, false)));
}

/* As some exporters write rows of two axes. */
static struct zt_graph *folded(void) {
    struct zt_graph *g = zt_graph_create("folded");
    const int64_t apart[] = { -1, 2, 4 }, flat[] = { -1, 4 }, wide[] = { -1, 2, 16 }, together[] = { -1, 32 };
    int h = NET(g, "Reshape", "apart", start(g), zt_graph_add_ints(g, NULL, apart, 3));
    h = NET(g, "Reshape", "flat", h, zt_graph_add_ints(g, NULL, flat, 2));
    h = NET(g, "Gemm", "fc", h, param(g, "fc", "weight", SHAPE(4, 16)), param(g, "fc", "bias", SHAPE(16)));
    h = gelu(g, "gelu", NET(g, "Reshape", "wide", h, zt_graph_add_ints(g, NULL, wide, 3)));
    h = NET(g, "Reshape", "together", h, zt_graph_add_ints(g, NULL, together, 2));
    return finish(g, matmul(g, "fc2", h, 32, 8));
}

/* c counts half. */
static struct zt_graph *halved(void) {
    struct zt_graph *g = zt_graph_create("halved");
    const int h = gemm(g, "fc", start(g), true);
    zt_node_set_float(g, g->node_count - 1, "beta", 0.5F);
    return finish(g, gelu(g, "gelu", h));
}

static struct zt_graph *exact(void) {
    struct zt_graph *g = zt_graph_create("exact");
    return finish(g, NET(g, "Gelu", "gelu", linear(g, "fc", start(g), 8, 8)));
}

/* A number a row, which is no bias. */
static struct zt_graph *shifted(void) {
    struct zt_graph *g = zt_graph_create("shifted");
    const int h = matmul(g, "fc", start(g), 8, 8);
    return finish(g, gelu(g, "gelu", NET(g, "Add", "add", h, net_param(g, "shift", SHAPE(4, 1)))));
}

/* What the product makes is read beside its bias. */
static struct zt_graph *read_early(void) {
    struct zt_graph *g = zt_graph_create("read_early");
    const int z = linear(g, "fc", start(g), 8, 8), product = zt_graph_find(g, "fc.product");
    return finish(g, NET(g, "Mul", "both", gelu(g, "gelu", z), product));
}

/* z is read beside Gelu, y by two layers. */
static struct zt_graph *read_late(void) {
    struct zt_graph *g = zt_graph_create("read_late");
    const int z = linear(g, "fc1", start(g), 8, 8), y = gelu(g, "gelu", z);
    const int h = NET(g, "Add", "sum", matmul(g, "fc2", y, 8, 8), matmul(g, "fc3", y, 8, 8));
    return finish(g, NET(g, "Add", "skip", h, z));
}

/* Of two stages z is read on the second one too, over a layer. */
static struct zt_graph *skipping(void) {
    struct zt_graph *g = zt_graph_create("skipping");
    const int z = linear(g, "fc1", start(g), 8, 8);
    int h = matmul(g, "fc2", gelu(g, "gelu", z), 8, 8);
    h = matmul(g, "fc4", matmul(g, "fc3", h, 8, 8), 8, 8);
    return finish(g, NET(g, "Add", "skip", h, z));
}

/* ---- what is merged ---- */

/* "LinearGelu+z GeluGrad": what has to do with GELU, in order; what chains took in, too. */
static void list_nodes(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = &g->nodes[n];
        const struct zt_attr *steps = zt_node_attr(node, "steps");
        if (steps)
            list_nodes(steps->graph, to);
        else if (strstr(node->op_type, "Gelu"))
            zt_text_add(to, "%s%s%s", to->at ? " " : "", node->op_type, zt_out(g, n, 1) ? "+z" : "");
    }
}

static void expect(const struct made *m, const struct wish *wish, const char *wanted) {
    struct zt_text nodes = { 0 };
    list_nodes(m->program->joint.graph, &nodes);
    ck_assert_str_eq(nodes.at ? nodes.at : "", wanted);
    zt_text_finish(&nodes);
    walk_program(m->program, m->flat, zt_sharding_of(wish->zero));
}

static void expect_program(struct zt_graph *graph, struct wish wish, const char *wanted) {
    struct made m;
    wish.device = create_device();
    wish.ranks = 1;
    wish.stages = 1;
    made_program(&m, graph, &wish);
    expect(&m, &wish, wanted);
    made_finish(&m);
    wish.device->api->destroy(wish.device);
}

START_TEST(products_take_gelu_in) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const struct wish train = { .bf16 = bf16 }, evaluate = { .bf16 = bf16, .evaluation = true };
        expect_program(flat(), train, "LinearGelu+z MatMulGeluGrad");
        expect_program(flat(), evaluate, "LinearGelu");
        expect_program(rows(), train, "LinearGelu+z MatMulGeluGrad");
        expect_program(rows(), evaluate, "LinearGelu");
        expect_program(folded(), train, "LinearGelu+z MatMulGeluGrad");
        expect_program(folded(), evaluate, "LinearGelu");
        expect_program(gemms(), train, "LinearGelu+z LinearGelu+z MatMulGeluGrad MatMulGeluGrad");
        expect_program(gemms(), evaluate, "LinearGelu LinearGelu");
    }
}
END_TEST

START_TEST(gelu_by_erf_stays) {
    expect_program(exact(), (struct wish){ 0 }, "Gelu GeluGrad");
    expect_program(exact(), (struct wish){ .evaluation = true }, "Gelu");
}
END_TEST

START_TEST(what_is_no_bias_is_added_first) {
    expect_program(shifted(), (struct wish){ 0 }, "Gelu MatMulGeluGrad");
    expect_program(halved(), (struct wish){ 0 }, "Gelu MatMulGeluGrad");
}
END_TEST

START_TEST(what_others_read_is_made) {
    expect_program(read_early(), (struct wish){ .evaluation = true }, "Gelu");
    expect_program(read_late(), (struct wish){ .evaluation = true }, "LinearGelu+z");
    expect_program(read_late(), (struct wish){ 0 }, "LinearGelu+z GeluGrad");
}
END_TEST

START_TEST(what_another_stage_reads_is_made) {
    static const char *const wanted[] = { "LinearGelu+z MatMulGeluGrad", "" };
    struct wish wish = { .ranks = 1, .stages = 2, .device = create_device() };
    for (; wish.stage < 2; wish.stage++) {
        struct made m;
        made_program(&m, skipping(), &wish);
        const struct zt_crossings *crossing = wish.stage ? &m.program->recv_act : &m.program->send_act;
        bool crosses = false;
        for (int i = 0; i < crossing->count; i++)
            crosses |= crossing->at[i].value == zt_graph_find(m.program->joint.graph, "fc1");
        ck_assert(crosses);
        expect(&m, &wish, wanted[wish.stage]);
        made_finish(&m);
    }
    wish.device->api->destroy(wish.device);
}
END_TEST

/* ---- training ---- */

static struct tiny_run train(struct zt_graph *(*make)(void), const char *more, int ranks, const char *fuse) {
    struct tiny t;
    struct tiny_run run = { 0 };
    struct zt_err err = { 0 };
    char config[1000];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'optimizer': {'type': 'SGD', 'params': {'lr': 0.1}}, "
             "'ztrain': {'parallel': {'communicator': 'thread'}, 'data': {'samples': 22}, 'fuse': ['%s']}%s",
             fuse, more);
    ck_assert_msg(tiny_open(&t, make(), config, ranks, &err), "%s", err.text[0]);
    t.device = create_device;
    tiny_train(&t, 6, &run);
    ck_assert_msg(run.ok, "%s: %s", more, run.err.text[0]);
    tiny_finish(&t);
    return run;
}

static struct zt_graph *(*const models[])(void) = { flat, rows, folded, gemms, read_late, skipping };
enum { MODELS = sizeof models / sizeof *models };

START_TEST(training_gives_the_same_losses) {
    static const struct {
        int ranks;
        double limit; /* of the loss: in bfloat16 z is rounded before Gelu on one side alone */
        const char *more;
    } layouts[] = {
        { 1, 2e-6, "" },
        { 1, 2e-6, ", 'train_micro_batch_size_per_gpu': 2" },
        { 1, 5e-3, ", 'bf16': {'enabled': true}" },
        { 2, 2e-6, ", 'zero_optimization': {'stage': 3}" },
        { 2, 2e-6, ", 'pipeline': {'stages': 2}, 'train_micro_batch_size_per_gpu': 4" },
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct tiny_run with = train(models[_i], layouts[i].more, layouts[i].ranks, "linear_gelu*"),
                        without = train(models[_i], layouts[i].more, layouts[i].ranks, "chain");
        for (int k = 0; k < 6; k++)
            ck_assert_msg(fabs(with.loss[k] - without.loss[k]) <= layouts[i].limit * without.loss[k],
                          "%d ranks%s, step %d: loss %.9g, without fusion %.9g", layouts[i].ranks, layouts[i].more,
                          k + 1, with.loss[k], without.loss[k]);
    }
}
END_TEST

int main(int argc, char **argv) {
    zt_parallel_enter();
    folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("gelu");
    tcase_add_test(test, products_take_gelu_in);
    tcase_add_test(test, gelu_by_erf_stays);
    tcase_add_test(test, what_is_no_bias_is_added_first);
    tcase_add_test(test, what_others_read_is_made);
    tcase_add_test(test, what_another_stage_reads_is_made);
    tcase_add_loop_test(test, training_gives_the_same_losses, 0, MODELS);
    return run_suite("gelu", test, CK_NOFORK);
}
