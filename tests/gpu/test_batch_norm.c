/* Running statistics of batch normalisations in whole programs on a device of CUDA's back end: which of them one node
 * keeps, and that training gives the same losses and the same tensors. Without arguments the device is far_device.h's,
 * whose kernels are the reference; with the folder of a CUDA module it is the module's. */
#include "tests/gpu/fused.h"
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
        norms += strcmp(g->nodes[n]->op_type, "BatchNormTrain") == 0 && zt_out(g, n, 1) && zt_out(g, n, 2);
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

int main(int argc, char **argv) {
    zt_parallel_enter();
    fused_folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("batch_norm");
    tcase_add_test(test, statistics_are_kept_together);
    tcase_add_test(test, other_statistics_stay);
    tcase_add_loop_test(test, training_gives_the_same_tensors, 0, MODELS);
    return run_suite("batch_norm", test, CK_NOFORK);
}
