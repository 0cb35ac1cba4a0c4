/* Losses and their gradients against PyTorch's numbers (loss_table.py), for every type of targets. */
#include "graph/passes/eval.h"
#include "graph/passes/grad.h"
#include "ops/table.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

enum { MOST = 32 };

static const struct row {
    const char *op, *reduction; /* reduction "": our own row */
    struct zt_shape shape;      /* of the logits */
    int axis;                   /* of the classes */
    double smoothing, bend;
    bool ignores; /* class 1 is ignored */
    bool classes; /* weigh */
    int weights;  /* rank of the weights, 0: none */
    double loss, gradient[MOST];
} rows[] = {
#include "tests/ops/loss/loss_table.inc"
};

static bool has_classes(const struct row *row) {
    return strstr(row->op, "Entropy") ? !strstr(row->op, "Binary") : strstr(row->op, "Likelihood") != NULL;
}

static bool is_soft(const struct row *row) {
    return strncmp(row->op, "Soft", 4) == 0 && !row->reduction[0];
}

/* numbers() of loss_table.py, in any type. */
static int constant(struct zt_graph *g, enum zt_dtype dtype, struct zt_shape shape, int factor, int shift, int modulus,
                    double scale, double from) {
    int64_t count = zt_shape_count(&shape);
    void *data = zt_arena_alloc(g->arena, (size_t)count * sizeof(double));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(dtype, data, i, (double)((i * factor + shift) % modulus) * scale + from);
    return zt_graph_add_constant(g, NULL, dtype, &shape, data);
}

static struct zt_shape without(struct zt_shape shape, int axis) {
    for (int k = axis; k + 1 < shape.rank; k++)
        shape.dim[k] = shape.dim[k + 1];
    shape.rank--;
    return shape;
}

static int make_target(struct zt_graph *g, const struct row *row, enum zt_dtype dtype) {
    if (is_soft(row) || strcmp(row->op, "BinaryCrossEntropy") == 0)
        return constant(g, dtype, row->shape, 13, 5, 17, 0.0625, 0);
    if (!has_classes(row))
        return constant(g, dtype, row->shape, 13, 5, 17, 0.25, -2);
    struct zt_shape shape = without(row->shape, row->axis);
    int id = constant(g, dtype, shape, 5, 2, (int)row->shape.dim[row->axis], 1, 0);
    for (int64_t i = 1; row->ignores && i < zt_shape_count(&shape); i += 4)
        zt_store_int(dtype, (void *)g->values[id]->data, i, 1);
    return id;
}

/* The node of the row: x, target, weights; 1 input more where all are there. */
static int make_node(struct zt_graph *g, const struct row *row, enum zt_dtype dtype, enum zt_dtype target) {
    bool own = !row->reduction[0];
    int in[4] = { constant(g, dtype, row->shape, 37, 11, 29, 0.125, -1.75), make_target(g, row, target), -1, -1 };
    int count = 2, out[2] = { zt_graph_add_value(g, "loss", ZT_UNDEFINED, NULL), -1 };
    struct zt_shape weights = has_classes(row) ? without(row->shape, row->axis) : row->shape;
    weights.rank = row->weights;
    if (row->weights)
        in[count++] = constant(g, dtype, weights, 3, 1, 5, 0.5, 0);
    if (row->classes) {
        count = own ? 3 : 2;
        in[count++] = constant(g, dtype, (struct zt_shape){ 1, { row->shape.dim[row->axis] } }, 3, 1, 4, 0.25, 0.25);
    }
    if (is_soft(row))
        out[1] = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    int node = zt_graph_add_node(g, &(struct zt_node_spec){ "loss", row->op, own ? "ztrain" : "", own ? 1 : 17, in,
                                                            count, out, is_soft(row) ? 2 : 1 });
    if (own && has_classes(row)) {
        zt_node_set_int(g, node, "axis", row->axis);
        zt_node_set_float(g, node, "label_smoothing", (float)row->smoothing);
    } else if (own) {
        zt_node_set_float(g, node, "beta", (float)row->bend);
        zt_node_set_float(g, node, "delta", (float)row->bend);
    } else
        zt_node_set_text(g, node, "reduction", row->reduction);
    if (has_classes(row) && !is_soft(row) && (row->ignores || own))
        zt_node_set_int(g, node, "ignore_index", row->ignores ? 1 : -100);
    return in[0];
}

static void close_to(double have, double want, double tolerance, const struct row *row, const char *what) {
    ck_assert_msg(fabs(have - want) <= tolerance * fmax(1, fabs(want)), "row %d, %s: %s is %.9g, wants %.9g",
                  (int)(row - rows), row->op, what, have, want);
}

static void compare(const struct row *row, enum zt_dtype dtype, enum zt_dtype target) {
    struct zt_err err = { 0 };
    struct zt_graph *g = zt_graph_create("loss");
    struct zt_eval *eval = zt_eval_create(g, NULL, 2);
    double tolerance = dtype == ZT_DOUBLE ? 1e-8 : 1e-6, sum = 0; /* label_smoothing is an attribute: a float */
    int x = make_node(g, row, dtype, target), gradient;
    ck_assert_msg(zt_op_resolve(&zt_ops, g, 0, &err) && zt_eval_run(eval, 0, 1, &err), "%s", err.text[0]);
    const struct zt_value *loss = g->values[g->nodes[0]->out[0]];
    struct zt_shape shape = loss->shape;
    for (int64_t i = 0; i < zt_shape_count(&shape); i++)
        sum += zt_load_double(dtype, loss->data, i);
    close_to(sum, row->loss, tolerance, row, "the loss");
    int ones = constant(g, dtype, shape, 0, 1, 2, 1, 0);
    struct zt_cotangent from = { g->nodes[0]->out[0], ones };
    int before = g->node_count;
    ck_assert_msg(zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ &from, 1, &x, 1 }, &gradient, &err) &&
                      zt_eval_run(eval, before, g->node_count, &err),
                  "%s", err.text[0]);
    for (int64_t i = 0; i < zt_shape_count(&row->shape); i++)
        close_to(zt_load_double(dtype, g->values[gradient]->data, i), row->gradient[i], tolerance, row, "a gradient");
    zt_eval_destroy(eval);
    zt_graph_destroy(g);
}

START_TEST(losses_and_gradients_are_pytorchs) {
    static const enum zt_dtype targets[] = { ZT_INT64, ZT_INT32, ZT_UINT8 }, floats[] = { ZT_FLOAT, ZT_DOUBLE };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_le(zt_shape_count(&rows[i].shape), MOST);
        bool standard = rows[i].reduction[0]; /* the standard has no uint8 targets */
        for (int f = 0; f < 2; f++)
            for (int t = 0; t < (standard ? 2 : 3); t++)
                compare(&rows[i], floats[f], has_classes(&rows[i]) && !is_soft(&rows[i]) ? targets[t] : floats[f]);
    }
}
END_TEST

/* ---- what PyTorch has no number for ---- */

START_TEST(weights_that_add_up_to_nothing_leave_neither_loss_nor_gradient) {
    static const char *const ops[] = { "CrossEntropy", "NegativeLogLikelihood", "SquaredError" };
    for (int i = 0; i < 3; i++) {
        struct zt_err err = { 0 };
        struct zt_graph *g = zt_graph_create("loss");
        struct zt_eval *eval = zt_eval_create(g, NULL, 1);
        struct zt_shape shape = { 2, { 4, 3 } }, row = { 1, { 4 } }, scalar = { 0 };
        int in[3] = { constant(g, ZT_FLOAT, shape, 37, 11, 29, 0.125, 0),
                      constant(g, i == 2 ? ZT_FLOAT : ZT_INT64, i == 2 ? shape : row, 1, 0, 3, 1, 0),
                      constant(g, ZT_FLOAT, row, 0, 0, 1, 0, 0) };
        int out = zt_graph_add_value(g, "loss", ZT_UNDEFINED, NULL), gradient;
        zt_graph_add_node(g, &(struct zt_node_spec){ "loss", ops[i], "ztrain", 1, in, 3, &out, 1 });
        ck_assert_msg(zt_op_resolve(&zt_ops, g, 0, &err) && zt_eval_run(eval, 0, 1, &err), "%s", err.text[0]);
        ck_assert(zt_load_double(ZT_FLOAT, g->values[out]->data, 0) == 0);
        struct zt_cotangent from = { out, constant(g, ZT_FLOAT, scalar, 0, 1, 2, 1, 0) };
        ck_assert(zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ &from, 1, in, 1 }, &gradient, &err) &&
                  zt_eval_run(eval, 1, g->node_count, &err));
        for (int k = 0; k < 12; k++)
            ck_assert(zt_load_double(ZT_FLOAT, g->values[gradient]->data, k) == 0);
        zt_eval_destroy(eval);
        zt_graph_destroy(g);
    }
}
END_TEST

START_TEST(weights_have_the_first_axes_of_the_targets) {
    static const struct {
        struct zt_shape weight;
        bool fits;
    } cases[] = { { { 1, { 2 } }, true },       { { 2, { 2, 5 } }, true },  { { 0 }, true },
                  { { 1, { 5 } }, false },      { { 2, { 5, 2 } }, false }, { { 1, { 10 } }, false },
                  { { 3, { 2, 5, 1 } }, false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_err err = { 0 };
        struct zt_graph *g = zt_graph_create("loss");
        struct zt_shape shape = { 3, { 2, 5, 3 } }, row = { 2, { 2, 5 } };
        int in[3] = { constant(g, ZT_FLOAT, shape, 37, 11, 29, 0.125, 0), constant(g, ZT_INT64, row, 1, 0, 3, 1, 0),
                      constant(g, ZT_FLOAT, cases[i].weight, 1, 1, 3, 1, 0) };
        int out = zt_graph_add_value(g, "loss", ZT_UNDEFINED, NULL);
        zt_graph_add_node(g, &(struct zt_node_spec){ "loss", "CrossEntropy", "ztrain", 1, in, 3, &out, 1 });
        zt_node_set_int(g, 0, "axis", 2);
        ck_assert(zt_op_resolve(&zt_ops, g, 0, &err));
        ck_assert_msg(zt_op_infer(g, 0, &err) == cases[i].fits, "weights %d: %s", (int)i, err.text[0]);
        ck_assert(cases[i].fits || strstr(err.text[0], "first axes of the targets'"));
        zt_graph_destroy(g);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("loss");
    tcase_add_test(cases, losses_and_gradients_are_pytorchs);
    tcase_add_test(cases, weights_that_add_up_to_nothing_leave_neither_loss_nor_gradient);
    tcase_add_test(cases, weights_have_the_first_axes_of_the_targets);
    return run_suite("loss", cases, CK_NOFORK);
}
