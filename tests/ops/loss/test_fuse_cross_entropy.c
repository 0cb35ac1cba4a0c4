/* Cross entropy and its gradient as one node, and logits laid into longer rows for it: where it is made, and that
 * training gives the same tensors. Without
 * arguments the device is far_device.h's, whose kernels are the reference; with the folder of a CUDA module it is the
 * module's. */
#include "tests/gpu/fused_programs.h"
#include "tests/suite.h"

#include "device/threads.h"
#include "graph/passes/infer.h"
#include "graph/passes/fusion/apply_patterns.h"
#include "ops/table.h"

#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y ---- */

static struct zt_graph *classes(const char *name, int64_t count) {
    struct zt_graph *g = zt_graph_create(name);
    const int y = fused_product(g, "y", fused_product(g, "fc", fused_input(g), 8, 8), 8, count);
    g->values[y]->dtype = ZT_FLOAT;
    return tiny_output(g, y);
}

static struct zt_graph *few(void) {
    return classes("few", 5);
}
static struct zt_graph *many(void) {
    return classes("many", 1031);
}

/* Two places of a sample, whose logits are a view. */
static struct zt_graph *viewed(void) {
    struct zt_graph *g = zt_graph_create("viewed");
    const int64_t apart[] = { -1, 5 };
    const int h = fused_product(g, "y", fused_product(g, "fc", fused_input(g), 8, 8), 8, 5);
    const int y = NET(g, "Reshape", "logits", h, zt_graph_add_ints(g, NULL, apart, 2));
    g->values[y]->dtype = ZT_FLOAT;
    return tiny_output(g, y);
}

/* The weight is [classes, 8], as that of words is, and so are its gradient and what the optimizer knows. */
static struct zt_graph *turned(void) {
    struct zt_graph *g = zt_graph_create("turned");
    const int w = net_param(g, "y.weight", SHAPE(1031, 8));
    const int y = NET(g, "MatMul", "y", fused_product(g, "fc", fused_input(g), 8, 8), NET(g, "Transpose", "turn", w));
    g->values[y]->dtype = ZT_FLOAT;
    return tiny_output(g, y);
}

static struct zt_graph *even(void) {
    return classes("even", 1032);
}

/* ---- where it is made ---- */

static void list(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++)
        if (strncmp(g->nodes[n]->op_type, "CrossEntropy", 12) == 0)
            zt_text_add(to, "%s%s%s", to->at ? "; " : "", g->nodes[n]->op_type,
                        g->nodes[n]->phase == ZT_FORWARD ? "" : " backward");
}
static const struct fused loss = { fused_device, list, "'AdamW', 'params': {'lr': 0.01}" };

START_TEST(training_has_one_node) {
    struct zt_graph *(*const models[])(void) = { few, many, viewed };
    for (int i = 0; i < 3; i++) {
        fused_expect(&loss, models[i](), (struct wish){ 0 }, "CrossEntropyTrain");
        fused_expect(&loss, models[i](), (struct wish){ .bf16 = true }, "CrossEntropyTrain");
        fused_expect(&loss, models[i](), (struct wish){ .bf16 = true, .weighted = true, .accumulates = true },
                     "CrossEntropyTrain");
        fused_expect(&loss, models[i](), (struct wish){ .bf16 = true, .evaluation = true }, "CrossEntropy");
    }
}
END_TEST

static void list_padded(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++)
        if (strcmp(g->nodes[n]->op_type, "MatMul") != 0 &&
            strstr("Pad BatchMatMul Slice Transpose", g->nodes[n]->op_type))
            zt_text_add(to, "%s%s", to->at ? "; " : "", g->nodes[n]->op_type);
}
static const struct fused padded = { fused_device, list_padded, "'AdamW', 'params': {'lr': 0.01}" };

START_TEST(odd_rows_are_filled_up) {
    const struct wish half = { .bf16 = true }, many_times = { .bf16 = true, .accumulates = true };
    fused_expect(&padded, many(), half, "Pad; BatchMatMul; Slice");
    fused_expect(&padded, many(), many_times, "Pad; BatchMatMul; Slice");
    fused_expect(&padded, turned(), half, "Pad; BatchMatMul; Slice");
    fused_expect(&padded, even(), half, "");
    fused_expect(&padded, few(), half, "");
    fused_expect(&padded, many(), (struct wish){ 0 }, "");
    fused_expect(&padded, turned(), (struct wish){ 0 }, "Transpose; Transpose");
}
END_TEST

/* ---- rows between which nothing stands ---- */

static void list_rows(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        if (strcmp(node->op_type, "CrossEntropyTrain") == 0 && g->values[node->in[1]]->layout &&
            g->values[node->in[1]]->layout == g->values[node->out[0]]->layout)
            zt_text_add(to, "%s", g->values[node->out[0]]->layout->name);
        if (strcmp(node->op_type, "Reorder") == 0)
            zt_text_add(to, "; Reorder");
    }
}
static const struct fused filled_rows = { fused_device, list_rows, "'AdamW', 'params': {'lr': 0.01}" };

static struct zt_graph *eight(void) {
    return classes("eight", 8);
}
static struct zt_graph *two(void) {
    return classes("two", 2);
}

/* The bias of the logits is the product's, and its gradient a sum beside the product. */
static struct zt_graph *biased(void) {
    struct zt_graph *g = zt_graph_create("biased");
    const int h = fused_product(g, "fc", fused_input(g), 8, 8);
    const int y = NET(g, "Gemm", "y", h, net_param(g, "y.weight", SHAPE(8, 5)), net_param(g, "y.bias", SHAPE(5)));
    g->values[y]->dtype = ZT_FLOAT;
    return tiny_output(g, y);
}

/* Only where the device's kernels choose. */
START_TEST(products_around_the_loss_have_filled_rows) {
    const struct wish half = { .bf16 = true }, many_times = { .bf16 = true, .accumulates = true };
    const char *const filled = fused_folder ? "rows of 8" : "";
    fused_expect(&filled_rows, few(), half, filled);
    fused_expect(&filled_rows, few(), many_times, filled);
    fused_expect(&filled_rows, biased(), half, filled);
    fused_expect(&filled_rows, many(), half, ""); /* filled up as a tensor */
    fused_expect(&filled_rows, eight(), half, "");
    fused_expect(&filled_rows, two(), half, "");
    fused_expect(&filled_rows, viewed(), half, "");
    fused_expect(&filled_rows, few(), (struct wish){ 0 }, "");
    fused_expect(&filled_rows, few(), (struct wish){ .bf16 = true, .evaluation = true }, "");
}
END_TEST

/* Additional nodes of a pair of loss and gradient. */
enum { VIEWS = 1, COMPUTED = 2, KEPT = 4, READ = 8, RETOLD = 16, SCALED = 32 };

static int input(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape) {
    const int value = zt_graph_add_value(g, name, dtype, shape);
    g->values[value]->origin = ZT_FROM_INPUT;
    return value;
}

/* loss, log sum exp of x [6, 7], and dx; d, the loss's gradient. Outputs: loss, dx and what reads the log sum exp. */
static struct zt_graph *pair(int oddities) {
    struct zt_graph *g = zt_graph_create("pair");
    const struct zt_shape rows = { .rank = 1, .dim = { 6 } }, scalar = { 0 }, whole = { .rank = 2, .dim = { 6, 7 } };
    const int x = input(g, "x", ZT_FLOAT, &whole), target = input(g, "target", ZT_INT64, &rows),
              other = input(g, "other", ZT_INT64, &rows);
    int d = input(g, "d", ZT_FLOAT, &scalar), out[4], a = x, b = x;
    if (oddities & VIEWS) {
        a = NET(g, "Flatten", "a", x);
        b = NET(g, "Flatten", "b", x);
    }
    if (oddities & COMPUTED)
        d = NET(g, "Neg", "negative", d);
    for (int i = 0; i < 3; i++)
        out[i] = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    zt_graph_add_node(g,
                      &(struct zt_node_spec){ "loss", "CrossEntropy", "ztrain", 1, (int[]){ a, target }, 2, out, 2 });
    zt_graph_add_node(g, &(struct zt_node_spec){ "grad", "CrossEntropyGrad", "ztrain", 1,
                                                 (int[]){ d, b, oddities & RETOLD ? other : target, -1, -1, out[1] }, 6,
                                                 &out[2], 1 });
    if (oddities & SCALED)
        zt_node_set_float(g, g->node_count - 1, "label_smoothing", 0.1F);
    out[3] = oddities & READ ? NET(g, "Neg", "reader", out[1]) : out[1];
    g->output_count = oddities & (KEPT | READ) ? 3 : 2;
    g->outputs = zt_arena_copy(g->arena, (int[]){ out[0], out[2], out[3] }, 3 * sizeof *out);
    return g;
}

START_TEST(other_pairs_stay) {
    static const int oddities[] = { 0, VIEWS, COMPUTED, KEPT, READ, RETOLD, SCALED };
    const char *name = "cross_entropy";
    const struct zt_fusion fusion = { zt_patterns, &name, 1 };
    int counts[64] = { 0 }, found = 0;
    struct zt_graph *g = pair(oddities[_i]);
    struct zt_err err = { 0 };
    ck_assert_msg(zt_graph_index(g, &err) && zt_pass_resolve(g, &zt_ops, g->outputs, g->output_count, &err) &&
                      zt_pass_infer(g, 0, &err) &&
                      zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &fusion, 1U << ZT_CUDA, NULL, counts }, &err),
                  "%s", err.text[0]);
    for (int p = 0; zt_patterns[p]; p++)
        found += counts[p];
    ck_assert_int_eq(found, oddities[_i] == 0 || oddities[_i] == VIEWS);
    zt_graph_destroy(g);
}
END_TEST

/* ---- memory: the gradient lies where the logits were ---- */

START_TEST(the_gradient_takes_the_place_of_the_logits) {
    struct wish wish = { .device = loss.device(), .ranks = 1, .stages = 1 };
    struct small_program m;
    small_program_create(&m, many(), &wish);
    const struct zt_graph *g = m.program->training_graph.graph;
    for (int n = 0; n < g->node_count; n++) {
        if (strcmp(g->nodes[n]->op_type, "CrossEntropyTrain") != 0)
            continue;
        const struct zt_place *x = &m.program->place[0][g->nodes[n]->in[1]],
                              *dx = &m.program->place[0][g->nodes[n]->out[0]];
        ck_assert(x->in == ZT_ACTIVATIONS && dx->in == x->in && dx->offset == x->offset);
    }
    small_program_finish(&m);
    wish.device->api->destroy(wish.device);
}
END_TEST

/* ---- training ---- */

static struct zt_graph *(*const models[])(void) = { few, many, viewed, biased };
enum { MODELS = sizeof models / sizeof *models };

static void expect_alike(const struct fused_layout *layouts, struct zt_graph *(*make)(void)) {
    for (const struct fused_layout *l = layouts; l->ranks; l++) {
        const struct tiny_run a = fused_train(&loss, make, l, "cross_entropy"), b = fused_train(&loss, make, l, "gelu");
        ck_assert_msg(a.hash == b.hash, "%d ranks%s: other tensors", l->ranks, l->more);
        fused_expect_losses(&loss, make, l, "cross_entropy", "gelu", 0);
    }
}

START_TEST(training_gives_the_same_tensors) {
    expect_alike(fused_layouts, models[_i]);
    expect_alike(fused_half_layouts, models[_i]);
}
END_TEST

/* Filled rows add 0 at the end of sums, so that the bits of the reference stay. */
START_TEST(filled_rows_train_alike) {
    struct zt_graph *(*const make)(void) = _i ? turned : many;
    for (const struct fused_layout *l = fused_half_layouts; l->ranks; l++)
        fused_expect_losses(&padded, make, l, "cross_entropy', 'padded_classes", "cross_entropy", 2e-4);
}
END_TEST

int main(int argc, char **argv) {
    zt_parallel_enter();
    fused_folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("cross_entropy");
    tcase_add_test(test, training_has_one_node);
    tcase_add_loop_test(test, other_pairs_stay, 0, 7);
    tcase_add_test(test, products_around_the_loss_have_filled_rows);
    tcase_add_test(test, the_gradient_takes_the_place_of_the_logits);
    tcase_add_loop_test(test, training_gives_the_same_tensors, 0, MODELS);
    tcase_add_test(test, odd_rows_are_filled_up);
    tcase_add_loop_test(test, filled_rows_train_alike, 0, 2);
    return run_suite("cross_entropy", test, CK_NOFORK);
}
