/* Normalisations, pools and moves between products of bfloat16, in whole programs on a device of CUDA's back end: which
 * of them read and write bfloat16, and that training gives the same losses within rounding. Without arguments the
 * device is far_device.h's, whose kernels are the reference; with the folder of a CUDA module it is the module's. */
#include "tests/gpu/fused_programs.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static int start(struct zt_graph *g) {
    return fused_product(g, "fc", fused_input(g), 8, 8);
}

static int norm(struct zt_graph *g, int x, int64_t length) {
    return NET(g, "LayerNormalization", "norm", x, net_param(g, "norm.weight", SHAPE(length)),
               net_param(g, "norm.bias", SHAPE(length)));
}

static struct zt_graph *normed(void) {
    struct zt_graph *g = zt_graph_create("normed");
    return fused_output(g, norm(g, start(g), 8));
}

/* Views stand between the norm and both products. */
static struct zt_graph *viewed(void) {
    struct zt_graph *g = zt_graph_create("viewed");
    const int64_t apart[] = { -1, 2, 4 }, together[] = { -1, 8 };
    int h = NET(g, "Reshape", "apart", start(g), zt_graph_add_ints(g, NULL, apart, 3));
    return fused_output(g, NET(g, "Reshape", "together", norm(g, h, 4), zt_graph_add_ints(g, NULL, together, 2)));
}

/* Softmax is computed in float, of what the norm gave in float. */
static struct zt_graph *shared(void) {
    struct zt_graph *g = zt_graph_create("shared");
    const int h = norm(g, start(g), 8);
    return fused_output(g, NET(g, "Add", "sum", fused_product(g, "fc2", h, 8, 8), NET(g, "Softmax", "softmax", h)));
}

/* The norm's input is no result of bfloat16. */
static struct zt_graph *early(void) {
    struct zt_graph *g = zt_graph_create("early");
    return fused_output(g, norm(g, NET(g, "Softmax", "softmax", start(g)), 8));
}

/* The halves of a product change places. */
static struct zt_graph *moved(void) {
    struct zt_graph *g = zt_graph_create("moved");
    const int x = start(g), left = zt_graph_add_value(g, "left", ZT_UNDEFINED, NULL),
              right = zt_graph_add_value(g, "right", ZT_UNDEFINED, NULL);
    const int split = zt_graph_add_node(
        g, &(struct zt_node_spec){ "split", "Split", "", ZT_OPSET, &x, 1, (int[]){ left, right }, 2 });
    zt_node_set_int(g, split, "axis", 1);
    zt_node_set_int(g, split, "num_outputs", 2);
    const int y = NET(g, "Concat", "concat", NET(g, "Relu", "relu", right), NET(g, "Relu", "relu2", left));
    zt_node_set_int(g, g->node_count - 1, "axis", 1);
    return fused_output(g, y);
}

/* Nobody wants the gradient of the norm's input. */
static struct zt_graph *fed(void) {
    struct zt_graph *g = zt_graph_create("fed");
    return fused_output(g, norm(g, fused_input(g), 8));
}

static struct zt_graph *pooled(void) {
    struct zt_graph *g = zt_graph_create("pooled");
    const int64_t apart[] = { -1, 2, 8 }, together[] = { -1, 8 };
    int h =
        NET(g, "Reshape", "apart", fused_product(g, "fc", fused_input(g), 8, 16), zt_graph_add_ints(g, NULL, apart, 3));
    h = NET(g, "MaxPool", "pool", h);
    zt_node_set_ints(g, g->node_count - 1, "kernel_shape", (int64_t[]){ 2 }, 1);
    zt_node_set_ints(g, g->node_count - 1, "strides", (int64_t[]){ 2 }, 1);
    return fused_output(g, NET(g, "Reshape", "together", h, zt_graph_add_ints(g, NULL, together, 2)));
}

/* ---- what reads and writes bfloat16 ---- */

static void list(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++)
        if (strstr("Concat Split Slice", g->nodes[n]->op_type) || strstr(g->nodes[n]->op_type, "Norm") ||
            strstr(g->nodes[n]->op_type, "Pool"))
            zt_text_add(to, "%s%s %s", to->at ? "; " : "", g->nodes[n]->op_type, zt_dtype_name(zt_in(g, n, 0)->dtype));
}
static const struct fused half = { fused_device, list, "'AdamW', 'params': {'lr': 0.01}" };

START_TEST(what_stands_between_products_is_half) {
    fused_expect(&half, normed(), (struct wish){ .bf16 = true, .evaluation = true }, "LayerNormalization bfloat16");
    fused_expect(&half, normed(), (struct wish){ .bf16 = true }, "LayerNormalization bfloat16; NormGrad bfloat16");
    fused_expect(&half, normed(), (struct wish){ .fp16 = true }, "LayerNormalization float16; NormGrad float16");
    fused_expect(&half, pooled(), (struct wish){ .fp16 = true }, "MaxPoolTrain float16; MaxPoolGrad float16");
    fused_expect(&half, normed(), (struct wish){ 0 }, "LayerNormalization float; NormGrad float");
    fused_expect(&half, pooled(), (struct wish){ .bf16 = true }, "MaxPoolTrain bfloat16; MaxPoolGrad bfloat16");
    fused_expect(&half, moved(), (struct wish){ .bf16 = true },
                 "Split bfloat16; Concat bfloat16; Slice bfloat16; Slice bfloat16; Concat bfloat16");
}
END_TEST

START_TEST(views_do_not_stand_in_the_way) {
    fused_expect(&half, viewed(), (struct wish){ .bf16 = true, .evaluation = true }, "LayerNormalization bfloat16");
    fused_expect(&half, viewed(), (struct wish){ .bf16 = true }, "LayerNormalization bfloat16; NormGrad bfloat16");
}
END_TEST

START_TEST(what_others_read_in_float_stays) {
    fused_expect(&half, shared(), (struct wish){ .bf16 = true, .evaluation = true }, "LayerNormalization float");
    fused_expect(&half, early(), (struct wish){ .bf16 = true }, "LayerNormalization float; NormGrad float");
    fused_expect(&half, fed(), (struct wish){ .bf16 = true }, "LayerNormalization float; NormGrad float");
}
END_TEST

/* ---- training ---- */

static struct zt_graph *(*const models[])(void) = { normed, viewed, shared, early, fed, pooled, moved };
enum { MODELS = sizeof models / sizeof *models };
#define BF16 ", 'bf16': {'enabled': true}"
#define FP16 ", 'fp16': {'enabled': true, 'loss_scale': 128}"
static const struct fused_layout layouts[] = {
    { 1, true, BF16 },
    { 1, true, FP16 },
    { 2, true, FP16 ", 'pipeline': {'stages': 2}, 'train_micro_batch_size_per_gpu': 4" },
    { 2, true, BF16 ", 'zero_optimization': {'stage': 3}" },
    { 2, true, BF16 ", 'pipeline': {'stages': 2}, 'train_micro_batch_size_per_gpu': 4" },
    { 0 },
};

/* The reference kernels compute in double, so that a result may be rounded twice on one side. */
START_TEST(training_gives_the_same_losses) {
    for (const struct fused_layout *l = layouts; l->ranks; l++)
        fused_expect_losses(&half, models[_i], l, "half_propagation", "gelu", 2e-4);
}
END_TEST

int main(int argc, char **argv) {
    zt_parallel_enter();
    fused_folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("half");
    tcase_add_test(test, what_stands_between_products_is_half);
    tcase_add_test(test, views_do_not_stand_in_the_way);
    tcase_add_test(test, what_others_read_in_float_stays);
    tcase_add_loop_test(test, training_gives_the_same_losses, 0, MODELS);
    return run_suite("half", test, CK_NOFORK);
}
