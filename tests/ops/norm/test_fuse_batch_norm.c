/* Batch normalisations in whole programs on a device of CUDA's back end: which running statistics one node keeps, which
 * have ReLU and a residual in them, and that training gives the same losses, and of statistics the same tensors.
 * Without arguments the device is far_device.h's, whose kernels are the reference; with the folder of a CUDA module it
 * is the module's. */
#include "tests/gpu/fused_programs.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static int vector(struct zt_graph *g, const char *of, const char *what, float value) {
    const int v = net_param(g, zt_arena_printf(g->arena, "%s.%s", of, what), SHAPE(8));
    for (int i = 0; i < 8; i++)
        ((float *)g->values[v]->data)[i] = value;
    return v;
}

static int norm(struct zt_graph *g, const char *name, int x, float momentum) {
    const int y = NET(g, "BatchNormalization", name, x, vector(g, name, "weight", 1), vector(g, name, "bias", 0),
                      vector(g, name, "mean", 0), vector(g, name, "var", 1));
    zt_node_set_float(g, g->node_count - 1, "momentum", momentum);
    return y;
}

static struct zt_graph *norms(const char *name, const float *momentum, int count) {
    struct zt_graph *g = zt_graph_create(name);
    int h = fused_input(g);
    for (int k = 0; k < count; k++) {
        h = fused_product(g, zt_arena_printf(g->arena, "fc%d", k), h, 8, 8);
        h = NET(g, "Tanh", zt_arena_printf(g->arena, "tanh%d", k),
                norm(g, zt_arena_printf(g->arena, "bn%d", k), h, momentum[k]));
    }
    return fused_output(g, h);
}

static struct zt_graph *alike(void) {
    return norms("alike", (const float[]){ 0.9F, 0.9F, 0.9F }, 3);
}
static struct zt_graph *apart(void) {
    return norms("apart", (const float[]){ 0.9F, 0.5F, 0.9F }, 3);
}
/* More than one launch has room for. */
static struct zt_graph *many(void) {
    static float momentum[70];
    for (int k = 0; k < 70; k++)
        momentum[k] = 0.9F;
    return norms("many", momentum, 70);
}

/* ---- what is kept together ---- */

/* "3 of 2 numbers": nodes that keep that many running statistics. */
static void list(const struct zt_graph *g, struct zt_text *to) {
    int norms = 0;
    for (int n = 0; n < g->node_count; n++) {
        norms += (strcmp(g->nodes[n]->op_type, "BatchNormTrain") == 0 ||
                  strcmp(g->nodes[n]->op_type, "BatchNormRelu") == 0) &&
                 zt_out(g, n, 1) && zt_out(g, n, 2);
        if (strcmp(g->nodes[n]->op_type, "BatchNormStatistics") == 0)
            zt_text_add(to, "%d together; ", g->nodes[n]->out_count / 2);
    }
    zt_text_add(to, "%d alone", norms);
}
static const struct fused kept = { fused_device, list, "'AdamW', 'params': {'lr': 0.01}" };

START_TEST(statistics_are_kept_together) {
    const struct wish half = { .bf16 = true };
    fused_expect(&kept, alike(), half, "3 together; 0 alone");
    fused_expect(&kept, apart(), half, "1 together; 2 together; 0 alone");
    fused_expect(&kept, many(), half, "6 together; 64 together; 0 alone");
}
END_TEST

START_TEST(other_statistics_stay) {
    fused_expect(&kept, alike(), (struct wish){ 0 }, "3 alone");
    fused_expect(&kept, alike(), (struct wish){ .bf16 = true, .evaluation = true }, "0 alone");
}
END_TEST

/* ---- ReLU and residuals ---- */

static int normed(struct zt_graph *g, const char *name, int x) {
    return norm(g, name, fused_product(g, zt_arena_printf(g->arena, "%s.fc", name), x, 8, 8), 0.9F);
}

static struct zt_graph *plain(void) {
    struct zt_graph *g = zt_graph_create("plain");
    const int h = NET(g, "Relu", "relu1", normed(g, "bn1", fused_input(g)));
    return fused_output(g, NET(g, "Relu", "relu2", normed(g, "bn2", h)));
}
/* The sum of h and what is normalised, either first; the second block's result is read once, so is its gradient. */
static struct zt_graph *block(const char *name, bool first) {
    struct zt_graph *g = zt_graph_create(name);
    const int h = NET(g, "Relu", "relu1", normed(g, "bn1", fused_input(g))), b = normed(g, "bn2", h);
    const int sum = first ? NET(g, "Add", "sum", b, h) : NET(g, "Add", "sum", h, b);
    return fused_output(g, NET(g, "Relu", "relu2", sum));
}
static struct zt_graph *residual(void) {
    return block("residual", true);
}
static struct zt_graph *swapped(void) {
    return block("swapped", false);
}
/* Of both sides one is taken in. */
static struct zt_graph *both(void) {
    struct zt_graph *g = zt_graph_create("both");
    const int x = fused_input(g), a = normed(g, "bn1", x), b = normed(g, "bn2", x);
    return fused_output(g, NET(g, "Relu", "relu", NET(g, "Add", "sum", a, b)));
}
/* The normalised value has another reader. */
static struct zt_graph *shared(void) {
    struct zt_graph *g = zt_graph_create("shared");
    const int b = normed(g, "bn", fused_input(g));
    return fused_output(g, NET(g, "Mul", "product", NET(g, "Relu", "relu", b), b));
}
/* So has the sum. */
static struct zt_graph *shared_sum(void) {
    struct zt_graph *g = zt_graph_create("shared_sum");
    const int x = fused_input(g), sum = NET(g, "Add", "sum", normed(g, "bn", x), x);
    return fused_output(g, NET(g, "Mul", "product", NET(g, "Relu", "relu", sum), sum));
}
/* The summand is broadcast. */
static struct zt_graph *shifted(void) {
    struct zt_graph *g = zt_graph_create("shifted");
    const int b = normed(g, "bn", fused_input(g));
    return fused_output(g, NET(g, "Relu", "relu", NET(g, "Add", "sum", b, vector(g, "sum", "shift", 0.5F))));
}

static void list_relus(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const bool adds = zt_in(g, n, 5) && strcmp(node->op_type, "BatchNormRelu") == 0;
        if (strncmp(node->op_type, "BatchNorm", 9) == 0 && strcmp(node->op_type, "BatchNormStatistics") != 0)
            zt_text_add(to, "%s%s%s%s", to->at ? "; " : "", node->op_type + 9, adds ? " of sum" : "",
                        zt_out(g, n, 3) && strstr(node->op_type, "Grad") ? " and dz" : "");
    }
}
static const struct fused relus = { fused_device, list_relus, "'AdamW', 'params': {'lr': 0.01}" };

START_TEST(relu_and_residual_are_taken_in) {
    const struct wish half = { .bf16 = true }, whole = { 0 };
    fused_expect(&relus, plain(), half, "Relu; Relu; ReluGrad; ReluGrad");
    fused_expect(&relus, plain(), whole, "Relu; Relu; ReluGrad; ReluGrad");
    fused_expect(&relus, residual(), half, "Relu; Relu of sum; ReluGrad and dz; Grad");
    fused_expect(&relus, swapped(), half, "Relu; Relu of sum; ReluGrad and dz; Grad");
    fused_expect(&relus, both(), half, "Train; Relu of sum; ReluGrad and dz; Grad");
    fused_expect(&kept, plain(), half, "2 together; 0 alone");
}
END_TEST

START_TEST(what_others_read_in_between_stays) {
    const struct wish half = { .bf16 = true };
    fused_expect(&relus, shared(), half, "Train; Grad");
    fused_expect(&relus, shared_sum(), half, "Train; Grad");
    fused_expect(&relus, shifted(), half, "Train; ReluGrad and dz");
    fused_expect(&relus, plain(), (struct wish){ .bf16 = true, .evaluation = true }, "alization; alization");
}
END_TEST

/* ---- training ---- */

static struct zt_graph *(*const models[])(void) = { alike, apart };
enum { MODELS = sizeof models / sizeof *models };

/* The reference takes the variance itself, in double. */
START_TEST(training_gives_the_same_tensors) {
    for (const struct fused_layout *l = fused_half_layouts; l->ranks; l++) {
        fused_expect_losses(&kept, models[_i], l, "batch_norm_statistics", "gelu", 0);
        if (fused_folder)
            ck_assert(fused_train(&kept, models[_i], l, "batch_norm_statistics").hash ==
                      fused_train(&kept, models[_i], l, "gelu").hash);
    }
}
END_TEST

static struct zt_graph *(*const with_relu[])(void) = { plain, residual, swapped, both, shared, shared_sum, shifted };
enum { WITH_RELU = sizeof with_relu / sizeof *with_relu };

#define BF16 ", 'bf16': {'enabled': true}"
static const struct fused_layout relu_layouts[] = {
    { 1, true, BF16 },
    { 1, false, "" },
    { 2, true, BF16 ", 'zero_optimization': {'stage': 3}" },
    { 2, true, BF16 ", 'pipeline': {'stages': 2}, 'train_micro_batch_size_per_gpu': 4" },
    { 0 },
};

/* The sum is rounded once where it was rounded up to three times. */
START_TEST(training_with_relu_gives_the_same_losses) {
    const struct fused_layout *const end = relu_layouts + (fused_folder ? 1 : 4);
    for (const struct fused_layout *l = relu_layouts; l < end; l++)
        fused_expect_losses(&relus, with_relu[_i], l, "batch_norm_relu', 'batch_norm_relu_grad", "gelu",
                            l->bf16 ? 1e-2 : 1e-5);
}
END_TEST

int main(int argc, char **argv) {
    zt_parallel_enter();
    fused_folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("batch_norm");
    tcase_add_test(test, statistics_are_kept_together);
    tcase_add_test(test, other_statistics_stay);
    tcase_add_test(test, relu_and_residual_are_taken_in);
    tcase_add_test(test, what_others_read_in_between_stays);
    tcase_add_loop_test(test, training_with_relu_gives_the_same_losses, 0, WITH_RELU);
    tcase_add_loop_test(test, training_gives_the_same_tensors, 0, MODELS);
    return run_suite("batch_norm", test, CK_NOFORK);
}
