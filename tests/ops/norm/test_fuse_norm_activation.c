/* The patterns norm_swish, batch_norm_activation and those of batch_norm_relu: where they are found, with gradients and
 * without, and that results and gradients stay what they were. */
#include "tests/ops/machine.h"
#include "tests/ops/term_graph.h"
#include "tests/suite.h"

#include "device/device.h"
#include "device/threads.h"
#include "graph/passes/grad.h"
#include "graph/passes/infer.h"
#include "ops/kernel/shape.h"
#include "ops/table.h"

#include <check.h>
#include <math.h>

static struct zt_device *device;
static struct zt_err err;

#define OK(what) ck_assert_msg((what), "%s: %s", #what, err.text[0])

enum { ROOTS = 8, PATTERNS = 64 };

/* root[0] is the result, the others the gradients of the parameters. */
struct made {
    struct zt_graph *g;
    int root[ROOTS], roots, found;
    struct machine machine;
};

static void differentiate(struct made *m) {
    struct zt_graph *g = m->g;
    const struct zt_shape shape = g->values[m->root[0]]->shape;
    float *dy = zt_arena_alloc(g->arena, (size_t)zt_shape_count(&shape) * sizeof *dy);
    for (int64_t i = 0; i < zt_shape_count(&shape); i++)
        dy[i] = (float)((i * 37 + 11) % 64) / 32 - 1;
    const struct zt_cotangent from = { m->root[0], zt_graph_add_constant(g, "dy", ZT_FLOAT, &shape, dy) };
    int param[ROOTS], params = 0;
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v]->trainable)
            param[params++] = v;
    OK(zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ &from, 1, param, params }, m->root + 1, &err));
    m->roots += params;
}

static void fuse(struct made *m) {
    static const char *const names[] = { "norm_swish", "batch_norm_activation", "batch_norm_relu*" };
    static const struct zt_fusion fusion = { zt_patterns, names, 3 };
    int counts[PATTERNS] = { 0 };
    OK(zt_pass_fuse(m->g, &zt_ops, &(struct zt_fuse_options){ &fusion, 1U << ZT_CPU, NULL, counts }, &err));
    for (int i = 0; zt_patterns[i]; i++)
        m->found += counts[i];
}

static struct made run(const char *text, bool trains, bool fuses) {
    const struct options o = { .backend = ZT_CPU, .threads = 2, .device = device };
    struct zt_train_options options = { .evaluation = !trains };
    struct made m = { .g = term_graph(text), .roots = 1 };
    struct zt_graph *g = m.g;
    m.root[0] = g->outputs[0];
    OK(zt_graph_index(g, &err) && zt_pass_resolve(g, &zt_ops, m.root, 1, &err) && zt_pass_infer(g, 1 << 20, &err) &&
       zt_pass_train(g, &options, &err));
    if (trains)
        differentiate(&m);
    OK(zt_graph_sort(g, &err) && zt_graph_prune(g, m.root, m.roots, &err));
    if (fuses)
        fuse(&m);
    OK(zt_graph_prune(g, m.root, m.roots, &err));
    OK(machine_start(&m.machine, g, m.root, m.roots, &o, &err));
    for (int n = 0; n < g->node_count; n++)
        OK(machine_run_node(&m.machine, n, &err));
    return m;
}

static void finish(struct made *m) {
    machine_finish(&m->machine);
    zt_graph_destroy(m->g);
}

static void expect_close(const char *text, int root, const struct zt_tensor *a, const struct zt_tensor *b) {
    double largest = 0, worst = 0;
    ck_assert_msg(zt_shape_equal(&a->shape, &b->shape), "%s: root %d has another shape", text, root);
    for (int64_t i = 0; i < zt_shape_count(&b->shape); i++) {
        const double y = (double)((const float *)b->data)[i];
        largest = fmax(largest, fabs(y));
        worst = fmax(worst, fabs((double)((const float *)a->data)[i] - y));
    }
    ck_assert_msg(largest > 0 && worst <= 1e-5 * largest, "%s: root %d differs by %g of %g", text, root, worst,
                  largest);
}

static void expect(const char *text, bool trains, int found) {
    struct made fused = run(text, trains, true), plain = run(text, trains, false);
    ck_assert_msg(fused.found == found, "%s: found %d times, wanted %d", text, fused.found, found);
    ck_assert_int_eq(fused.roots, plain.roots);
    for (int i = 0; i < plain.roots; i++) {
        struct zt_tensor a, b;
        OK(machine_fetch(&fused.machine, fused.root[i], &a, &err));
        OK(machine_fetch(&plain.machine, plain.root[i], &b, &err));
        expect_close(text, i, &a, &b);
    }
    finish(&fused);
    finish(&plain);
}

#define GROUPS "GroupNormalization<num_groups=2>(Neg(x[2,8,3,4]), s[8], b[8])"
#define BATCH  "BatchNormalization(Neg(x[3,5,3,4]), s[5], b[5], m![5], q!1[5])"
static const struct {
    const char *text;
    int found, forward; /* with gradients, and without */
} rows[] = {
    { "Conv(Swish(" GROUPS "), w[4,8,1,1])", 1, 1 },
    { "Conv(Swish<alpha=1.7>(InstanceNormalization<epsilon=0.1>(Neg(x[2,5,7]), s[5], b[5])), w[4,5,3])", 1, 1 },
    { "Conv(Swish(GroupNormalization@18<num_groups=2>(Neg(x[2,6,3,4]), s[2], b[2])), w[4,6,1,1])", 1, 1 },
    { "y = Swish(" GROUPS "); Add(Conv(y, w[8,8,1,1]), y)", 1, 1 },
    { "h = Neg(x[2,8,3,4]); Add(Conv(Swish(GroupNormalization<num_groups=4>(h, s[8], b[8])), w[8,8,1,1]), h)", 1, 1 },
    { "Conv(Swish(GroupNormalization<num_groups=2>(Conv(Swish(" GROUPS "), w[8,8,1,1]), t[8], c[8])), v[4,8,1,1])", 2,
      2 },
    { "h = Neg(x[2,8,3,4]); Add(h, Conv(Swish(GroupNormalization<num_groups=4>(h, s[8], b[8])), w[8,8,1,1]))", 1, 1 },
    { "h = Neg(x[2,8,3,4]); Add(Exp(h), Add(h, Conv(Swish(GroupNormalization<num_groups=1>(h, s[8], b[8])), "
      "w[8,8,1,1])))",
      1, 1 },
    { "n = " GROUPS "; Add(Conv(Swish(n), w[8,8,1,1]), n)", 0, 0 }, /* another reader */
    { "n = " GROUPS "; Conv(Add(Swish(n), Sigmoid(n)), w[4,8,1,1])", 0, 0 },
    { "Neg(Swish(" GROUPS "))", 0, 0 }, /* no convolution reads it */
    { "Conv(Relu(" GROUPS "), w[4,8,1,1])", 0, 0 },
    { "Conv(Swish(LayerNormalization(Neg(x[2,8,3,4]), s[4], b[4])), w[4,8,1,1])", 0, 0 },
    { "Conv(Swish(GroupNormalization<num_groups=2>(x[2,8,3,4], s[8], b[8])), w[4,8,1,1])", 0, 1 }, /* dx is a result */
    { "Clip(" BATCH ", 0, 0.5)", 1, 0 },
    { "Clip@6<min=-1.0,max=0.25>(" BATCH ")", 1, 0 },
    { "Neg(Clip(" BATCH ", 0, ))", 1, 0 },
    { "Swish<alpha=1.7>(" BATCH ")", 1, 0 },
    { "Conv(HardSwish(BatchNormalization(Conv(Clip(" BATCH ", 0, 0.5), w[20,5,1,1]), t[20], c[20], n![20], u!1[20])), "
      "v[4,20,1,1])",
      2, 0 },
    { "Clip(" BATCH ", 0.1, 0.5)", 0, 0 },              /* f(0) is not 0 */
    { "y = " BATCH "; Add(Clip(y, 0, 0.5), y)", 0, 0 }, /* another reader */
    { "Sigmoid(" BATCH ")", 0, 0 },
    /* the node, its gradient, and that without y */
    { "Conv(Relu(" BATCH "), w[4,5,1,1])", 3, 0 },
    { "y = Relu(" BATCH "); Add(Neg(y), Exp(y))", 3, 0 },
    { "h = Neg(x[3,5,3,4]); Relu(Add(BatchNormalization(h, s[5], b[5], m![5], q!1[5]), h))", 2, 0 }, /* y is needed */
};

START_TEST(pairs_are_found_and_change_nothing_beyond_rounding) {
    expect(rows[_i].text, true, rows[_i].found);
    expect(rows[_i].text, false, rows[_i].forward);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    device = zt_device_host_create(2);
    TCase *cases = tcase_create("norm_swish");
    tcase_add_loop_test(cases, pairs_are_found_and_change_nothing_beyond_rounding, 0, sizeof rows / sizeof *rows);
    const int status = run_suite("norm_swish", cases, CK_NOFORK);
    device->api->destroy(device);
    return status;
}
