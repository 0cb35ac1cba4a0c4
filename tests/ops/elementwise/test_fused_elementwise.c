/* Chains of elementwise nodes in whole programs: on a device of CUDA's back end (far_device.h) they take nothing that
 * the backward phase, a parameter's gradient or another stage reads, and training with and without them leaves the same
 * bits. */
#include "tests/gpu/far_device.h"
#include "tests/gpu/fused_programs.h"
#include "tests/ops/elementwise/fused_steps.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static int start(struct zt_graph *g) {
    return fused_product(g, "fc1", fused_input(g), 8, 8);
}

/* SinGrad reads the sum, ExpGrad what Exp makes. */
static struct zt_graph *bent(void) {
    struct zt_graph *g = zt_graph_create("bent");
    int sum = NET(g, "Add", "sum", start(g), zt_graph_add_float(g, "half", ZT_FLOAT, 0.5));
    return fused_output(g, NET(g, "Exp", "exp", NET(g, "Sin", "sin", sum)));
}

/* The gradient of the sum is that of `shift` as well, where it trains. */
static struct zt_graph *shifted(bool trains) {
    struct zt_graph *g = zt_graph_create("shifted");
    int shift = net_param(g, "shift", SHAPE(4, 8));
    if (!trains)
        shift = zt_graph_add_constant(g, "fixed", ZT_FLOAT, SHAPE(4, 8), g->values[shift]->data);
    return fused_output(g, NET(g, "Exp", "exp", NET(g, "Add", "sum", NET(g, "Neg", "neg", start(g)), shift)));
}

/* Exp reads the output of Neg, and so does the last sum, behind a layer: with two stages, on the second one. */
static struct zt_graph *skipping(void) {
    struct zt_graph *g = zt_graph_create("skipping");
    int neg = NET(g, "Neg", "neg", start(g));
    int h = fused_product(g, "fc2", NET(g, "Exp", "exp", neg), 8, 8);
    h = fused_product(g, "fc4", fused_product(g, "fc3", h, 8, 8), 8, 8);
    return fused_output(g, NET(g, "Add", "skip", h, neg));
}

/* ---- what is merged ---- */

static const struct fused chain = { far_device_create, fused_steps, "'AdamW', 'params': {'lr': 0.01}" };

START_TEST(what_the_backward_phase_reads_is_made) {
    fused_expect(&chain, bent(), (struct wish){ .evaluation = true }, "Add Sin Exp");
    fused_expect(&chain, bent(), (struct wish){ 0 }, "Sin Exp; ExpGrad SinGrad");
}
END_TEST

START_TEST(the_gradient_of_a_parameter_is_made) {
    fused_expect(&chain, shifted(false), (struct wish){ 0 }, "Neg Add Exp; ExpGrad NegGrad");
    fused_expect(&chain, shifted(true), (struct wish){ 0 }, "Neg Add Exp");
}
END_TEST

START_TEST(programs_in_bfloat16_have_the_same_chains) {
    fused_expect(&chain, bent(), (struct wish){ .evaluation = true, .bf16 = true }, "Add Sin Exp");
}
END_TEST

START_TEST(what_another_stage_reads_is_made) {
    static const char *const wanted[] = { "ExpGrad Add NegGrad", "" };
    fused_expect_stages(&chain, skipping, "neg", wanted);
}
END_TEST

/* ---- training ---- */

static struct zt_graph *(*const models[])(void) = { bent, skipping, tiny_shared, tiny_tied, tiny_norm, tiny_drop };
enum { MODELS = sizeof models / sizeof *models };

START_TEST(chains_leave_the_same_bits) {
    for (const struct fused_layout *l = fused_layouts; l->ranks; l++) {
        struct tiny_run with = fused_train(&chain, models[_i], l, "fused_elementwise"),
                        without = fused_train(&chain, models[_i], l, "gelu");
        ck_assert_msg(with.hash == without.hash, "%d ranks%s: other weights", l->ranks, l->more);
        ck_assert_msg(memcmp(with.loss, without.loss, sizeof with.loss) == 0 && with.eval_loss == without.eval_loss,
                      "%d ranks%s: other losses", l->ranks, l->more);
    }
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *test = tcase_create("chain");
    tcase_add_test(test, what_the_backward_phase_reads_is_made);
    tcase_add_test(test, the_gradient_of_a_parameter_is_made);
    tcase_add_test(test, programs_in_bfloat16_have_the_same_chains);
    tcase_add_test(test, what_another_stage_reads_is_made);
    tcase_add_loop_test(test, chains_leave_the_same_bits, 0, MODELS);
    return run_suite("chain", test, CK_NOFORK);
}
