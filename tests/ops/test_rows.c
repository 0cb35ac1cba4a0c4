/* Tests of rows that a list of cases cannot express: training forms, ties, padding rows, errors, the same bits at any
 * thread count. */
#include "ops/loss/loss.h"
#include "graph/passes/eval.h"
#include "tests/suite.h"
#include "graph/passes/grad.h"
#include "ops/table.h"
#include "ops/kernel/window.h"
#include "tests/ops/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A case made and run with its inputs, which may be changed in between. */
struct run {
    struct zt_case_graph made;
    struct zt_eval *eval;
    struct zt_err err;
};

static struct run make(struct zt_case c) {
    struct run r = { 0 };
    bool made = zt_case_make(&c, false, &r.made, &r.err) && zt_op_infer(r.made.graph, 0, &r.err);
    ck_assert_msg(made, "%s", r.err.text[0]);
    return r;
}

static bool execute(struct run *r, const struct zt_random *random, int threads) {
    struct zt_graph *g = r->made.graph;
    r->eval = zt_eval_create(g, random, threads);
    for (int i = 0; i < r->made.in_count; i++)
        if (r->made.in[i] >= 0)
            zt_eval_feed(r->eval, r->made.in[i], &r->made.feed[i]);
    return zt_eval_run(r->eval, 0, g->node_count, &r->err);
}

static void finish(struct run *r) {
    zt_eval_destroy(r->eval);
    zt_graph_destroy(r->made.graph);
}

static float *input(struct run *r, int i) {
    return (float *)r->made.feed[i].data;
}

static const float *output(const struct run *r, int i) {
    return zt_out(r->made.graph, 0, i)->data;
}

/* Appends the backward nodes of an input with ones as cotangent of output 0; returns the gradient's id. */
static int differentiate_in(struct run *r, int input) {
    struct zt_graph *g = r->made.graph;
    int y = g->nodes[0]->out[0];
    struct zt_shape shape = g->values[y]->shape;
    float *ones = ZT_NEW_N(g->arena, float, zt_shape_count(&shape));
    for (int64_t i = 0; i < zt_shape_count(&shape); i++)
        ones[i] = 1;
    struct zt_cotangent from = { y, zt_graph_add_constant(g, "ones", ZT_FLOAT, &shape, ones) };
    int gradient = -1;
    ck_assert_msg(
        zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ &from, 1, &r->made.in[input], 1 }, &gradient, &r->err),
        "%s", r->err.text[0]);
    return gradient;
}

static int differentiate(struct run *r) {
    return differentiate_in(r, 0);
}

static bool train(struct run *r, struct zt_train_options options) {
    return r->made.graph->nodes[0]->op->train(r->made.graph, 0, &options, &r->err);
}

/* ---- properties of rows ---- */

START_TEST(products_name_the_axis_of_their_output_channels) {
    static struct zt_attr transposed = { .name = "transB", .type = ZT_ATTR_INT, .i = 1 };
    static const struct {
        const char *op;
        int rank, axis[2]; /* of the weight; by input */
        bool transposed, channels;
    } rows[] = { { "MatMul", 3, { 1, 2 }, false, true },
                 { "Gemm", 2, { 0, 1 }, false, true },
                 { "Gemm", 2, { 0, 0 }, true, true },
                 { "Conv", 4, { -1, 0 }, false, true },
                 { "ConvTranspose", 4, { -1, 1 }, false, false } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct zt_node n = { .op_type = rows[i].op,
                                   .domain = "",
                                   .opset = ZT_OPSET,
                                   .attr = &transposed,
                                   .attr_count = rows[i].transposed };
        const struct zt_op *op = zt_op_of(&zt_ops, &n);
        for (int in = 0; in < 2; in++)
            ck_assert_msg(op->channel_axis(&n, in, rows[i].rank) == rows[i].axis[in], "%s, input %d", n.op_type, in);
        ck_assert_int_eq(zt_op_has_channels(op), rows[i].channels);
    }
    ck_assert(!zt_op_has_channels(zt_op_find(&zt_ops, "", "Add", ZT_OPSET)));
}
END_TEST

START_TEST(a_transpose_names_the_axis_that_it_moves) {
    static const int64_t order[] = { 2, 0, 1 };
    static struct zt_attr perm = { .name = "perm", .type = ZT_ATTR_INTS, .count = 3, .ints = order };
    struct zt_node n = { .op_type = "Transpose", .domain = "", .opset = ZT_OPSET, .attr = &perm };
    const struct zt_op *op = zt_op_of(&zt_ops, &n);
    ck_assert_int_eq(op->axis_before(&n, 3, 0), 2);
    n.attr_count = 1;
    for (int axis = 0; axis < 3; axis++)
        ck_assert_int_eq(op->axis_before(&n, 3, axis), order[axis]);
    ck_assert_int_eq(op->axis_before(&n, 4, 0), -1);
}
END_TEST

START_TEST(only_indices_of_gather_select_slices) {
    struct zt_op_cursor at = { 0 };
    for (const struct zt_op *row; (row = zt_op_next(&zt_ops, &at));)
        ck_assert_msg((row->slice_in == 1 << 1) == (strcmp(row->name, "Gather") == 0), "%s", row->name);
}
END_TEST

/* ---- windows ---- */

static struct zt_window window_of(const char *attrs) {
    struct run r = make((struct zt_case){ "MaxPool", "float[1,1,4]", .attrs = attrs });
    struct zt_window w;
    ck_assert(
        zt_window_read(r.made.graph, 0, &(struct zt_window_plane){ 1, (const int64_t[]){ 4 }, NULL }, &w, &r.err));
    zt_graph_destroy(r.made.graph);
    return w;
}

START_TEST(same_upper_pads_the_odd_side_last_and_same_lower_first) {
    struct zt_window upper = window_of("kernel_shape=[2] auto_pad=SAME_UPPER");
    struct zt_window lower = window_of("kernel_shape=[2] auto_pad=SAME_LOWER");
    ck_assert_int_eq(upper.pad[0], 0);
    ck_assert_int_eq(upper.pad_end[0], 1);
    ck_assert_int_eq(lower.pad[0], 1);
    ck_assert_int_eq(lower.pad_end[0], 0);
}
END_TEST

START_TEST(a_stretch_and_its_way_back_name_the_same_pairs) {
    struct zt_window w = window_of("kernel_shape=[3] strides=[2] pads=[2,1] dilations=[2]");
    for (int64_t k = 0; k < 3; k++) {
        bool pair[8][8] = { { false } };
        struct zt_stretch s;
        zt_window_stretch(&w, NULL, &k, 0, w.out[0], &s);
        for (int64_t i = 0; i < s.count; i++)
            pair[s.first + i * s.step][s.partner + i * s.stride] = true;
        for (int64_t at = 0; at < w.in[0]; at++) { /* one element at a time: cuts must not matter */
            zt_window_stretch_back(&w, NULL, &k, at, 1, &s);
            for (int64_t o = 0; o < w.out[0]; o++)
                ck_assert_int_eq(pair[o][at], s.count == 1 && s.partner == o);
        }
    }
}
END_TEST

/* ---- pools ---- */

static void gradient_of_pool(bool training, const float *x, float *dx) {
    struct run r = make((struct zt_case){ "MaxPool", "float[1,1,2,2]", .attrs = "kernel_shape=[2,2]" });
    memcpy(input(&r, 0), x, 4 * sizeof *x);
    ck_assert(!training || train(&r, (struct zt_train_options){ 0 }));
    int gradient = differentiate(&r);
    ck_assert_msg(execute(&r, NULL, 1), "%s", r.err.text[0]);
    memcpy(dx, r.made.graph->values[gradient]->data, 4 * sizeof *dx);
    finish(&r);
}

START_TEST(a_max_pool_gives_its_gradient_to_the_first_of_equal_maxima) {
    static const float x[4] = { 1, 3, 3, 3 }, want[4] = { 0, 1, 0, 0 };
    float dx[4];
    for (int training = 0; training < 2; training++) {
        gradient_of_pool(training, x, dx);
        ck_assert_mem_eq(dx, want, sizeof want);
    }
}
END_TEST

START_TEST(a_nan_flows_through_a_max_pool_and_takes_the_gradient) {
    const float x[4] = { 1, 3, NAN, 5 }, want[4] = { 0, 0, 1, 0 };
    float dx[4];
    gradient_of_pool(true, x, dx);
    ck_assert_mem_eq(dx, want, sizeof want);
}
END_TEST

/* Torch's backward functions take the side below at 0; a central difference gives the mean. */
START_TEST(functions_with_a_kink_at_zero_have_the_slope_below_it_there) {
    static const float x[4] = { -1, 0, 0, 3 };
    static const struct {
        struct zt_case of;
        float below; /* at 0 */
    } of[] = { { { "PRelu", "float[4] float(0.25)" }, 0.25F },
               { { "LeakyRelu", "float[4]", .attrs = "alpha=0.125" }, 0.125F },
               { { "Elu", "float[4]", .attrs = "alpha=0.5" }, 0.5F } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct run r = make(of[i].of);
        memcpy(input(&r, 0), x, sizeof x);
        const int gradient = differentiate(&r);
        ck_assert_msg(execute(&r, NULL, 1), "%s", r.err.text[0]);
        const float *dx = r.made.graph->values[gradient]->data;
        ck_assert_float_eq(dx[1], of[i].below);
        ck_assert_float_eq(dx[2], of[i].below);
        ck_assert_float_eq(dx[3], 1);
        finish(&r);
    }
}
END_TEST

/* ---- batch normalisation ---- */

static const struct zt_case batch_norm = { "BatchNormalization",
                                           "float[4,2] float[2] float[2] float[2] float[2]:0.5..2",
                                           .attrs = "momentum=0.75 training_mode=0" };

static struct run batch_norm_with_initializers(const char *mode, int outs) {
    struct zt_case c = batch_norm;
    c.attrs = mode;
    c.outs = outs;
    struct run r = make(c);
    for (int i = 1; i < 5; i++)
        r.made.graph->values[r.made.in[i]]->origin = ZT_FROM_INITIALIZER;
    return r;
}

START_TEST(batch_norm_trains_with_population_variance_whatever_it_was_exported_as) {
    static const char *const modes[2] = { "momentum=0.75", "momentum=0.75 training_mode=1" };
    for (int exported = 0; exported < 2; exported++) {
        struct run r = batch_norm_with_initializers(modes[exported], exported ? 3 : 1);
        static const float x[8] = { 1, 0, 2, 0, 3, 0, 6, 4 };
        memcpy(input(&r, 0), x, sizeof x);
        ck_assert_msg(train(&r, (struct zt_train_options){ 0 }), "%s", r.err.text[0]);
        ck_assert_str_eq(r.made.graph->nodes[0]->op_type, "BatchNormTrain");
        ck_assert_int_eq(r.made.graph->write_back_count, 2);
        ck_assert_int_eq(r.made.graph->write_backs[0].initializer, r.made.in[3]);
        ck_assert(r.made.graph->values[r.made.in[4]]->statistic);
        ck_assert_msg(execute(&r, NULL, 1), "%s", r.err.text[0]);
        ck_assert_float_eq_tol(output(&r, 1)[0], 0.75f * input(&r, 3)[0] + 0.25f * 3, 1e-6);
        ck_assert_float_eq_tol(output(&r, 2)[0], 0.75f * input(&r, 4)[0] + 0.25f * 3.5f, 1e-6);
        ck_assert_float_eq_tol(output(&r, 2)[1], 0.75f * input(&r, 4)[1] + 0.25f * 3, 1e-6);
        finish(&r);
    }
}
END_TEST

START_TEST(frozen_and_evaluated_batch_norm_uses_the_running_statistics) {
    for (int evaluation = 0; evaluation < 2; evaluation++) {
        struct run r = batch_norm_with_initializers("training_mode=1", 3);
        ck_assert(train(&r, (struct zt_train_options){ .batch_norm_frozen = !evaluation, .evaluation = evaluation }));
        ck_assert_int_eq(r.made.graph->write_back_count, 0);
        ck_assert_msg(execute(&r, NULL, 1), "%s", r.err.text[0]);
        for (int c = 0; c < 2; c++) {
            float inv_std = 1 / sqrtf(input(&r, 4)[c] + 1e-5f);
            ck_assert_float_eq_tol(output(&r, 0)[c],
                                   (input(&r, 0)[c] - input(&r, 3)[c]) * inv_std * input(&r, 1)[c] + input(&r, 2)[c],
                                   1e-5);
        }
        finish(&r);
    }
}
END_TEST

/* ---- dropout ---- */

static struct run dropped(const char *in, struct zt_random random) {
    struct run r = make((struct zt_case){ "Dropout", in, .outs = 2 });
    ck_assert(train(&r, (struct zt_train_options){ 0 }));
    ck_assert_msg(execute(&r, &random, 2), "%s", r.err.text[0]);
    return r;
}

START_TEST(dropout_depends_on_the_sample_and_the_step_not_on_where_the_row_stands) {
    struct run whole = dropped("float[4,300]", (struct zt_random){ .seed = 5, .step = 2 });
    struct run half = dropped("float[2,300]", (struct zt_random){ .seed = 5, .step = 2, .first_sample = 2 });
    struct run later = dropped("float[4,300]", (struct zt_random){ .seed = 5, .step = 3 });
    const bool *a = (const bool *)output(&whole, 1), *b = (const bool *)output(&half, 1);
    ck_assert_mem_eq(a + 600, b, 600);
    ck_assert_mem_ne(a, b, 600);
    ck_assert_mem_ne(a, output(&later, 1), 1200);
    int kept = 0;
    for (int i = 0; i < 1200; i++)
        kept += a[i];
    ck_assert_int_ge(kept, 520);
    ck_assert_int_le(kept, 680);
    finish(&whole);
    finish(&half);
    finish(&later);
}
END_TEST

START_TEST(dropout_that_drops_nothing_is_a_view) {
    static const struct {
        const char *in;
        bool evaluation;
        int outs;
        const char *becomes;
    } cases[] = { { "float[4,3] float(0) bool(1)", false, 1, "Identity" },
                  { "float[4,3] float(0.1) bool(1)", false, 1, "DropoutTrain" },
                  { "float[4,3] float(0) bool(1)", false, 2, "DropoutTrain" }, /* its mask is an output */
                  { "float[4,3] float(0.1) bool(0)", true, 1, "Identity" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run r = make((struct zt_case){ "Dropout", cases[i].in, .outs = cases[i].outs });
        ck_assert(train(&r, (struct zt_train_options){ .evaluation = cases[i].evaluation }));
        ck_assert_str_eq(r.made.graph->nodes[0]->op->name, cases[i].becomes);
        ck_assert_msg(execute(&r, &(struct zt_random){ .seed = 5 }, 1), "%s", r.err.text[0]);
        if (strcmp(cases[i].becomes, "Identity") == 0)
            ck_assert_mem_eq(output(&r, 0), input(&r, 0), 12 * sizeof(float));
        finish(&r);
    }
}
END_TEST

/* ---- losses ---- */

START_TEST(rows_of_weight_zero_change_neither_loss_nor_gradient) {
    static const char *const ops[2] = { "CrossEntropy", "SquaredError" };
    static const char *const with[2] = { "float[3,4] int32{1,2,99} float{1,1,0}",
                                         "float[3,4] float[3,4] float{1,1,0}" };
    static const char *const without[2] = { "float[2,4] int32{1,2}", "float[2,4] float[2,4]" };
    for (int k = 0; k < 2; k++) {
        struct run padded = make((struct zt_case){ ops[k], with[k], .domain = "ztrain", .outs = 2 - k });
        struct run plain = make((struct zt_case){ ops[k], without[k], .domain = "ztrain", .outs = 2 - k });
        for (int i = 0; i < 1 + k; i++)
            memcpy(input(&plain, i), input(&padded, i), 8 * sizeof(float));
        for (int i = 8; i < 12; i++)
            input(&padded, 0)[i] = NAN;
        int a = differentiate(&padded), b = differentiate(&plain);
        ck_assert_msg(execute(&padded, NULL, 1) && execute(&plain, NULL, 1), "%s", padded.err.text[0]);
        ck_assert_float_eq(output(&padded, 0)[0], output(&plain, 0)[0]);
        const float *da = padded.made.graph->values[a]->data, *db = plain.made.graph->values[b]->data;
        ck_assert_mem_eq(da, db, 8 * sizeof *da);
        for (int i = 8; i < 12; i++)
            ck_assert_float_eq(da[i], 0);
        finish(&padded);
        finish(&plain);
    }
}
END_TEST

START_TEST(a_target_out_of_range_is_named_with_its_row) {
    struct run r = make((struct zt_case){ "CrossEntropy", "float[3,4] int32{1,2,9}", .domain = "ztrain", .outs = 2 });
    ck_assert(!execute(&r, NULL, 1));
    ck_assert_ptr_nonnull(strstr(r.err.text[0], "row 2: target 9"));
    ck_assert_int_eq(r.err.code, ZT_EXIT_DATA);
    finish(&r);
}
END_TEST

START_TEST(a_sequence_longer_than_its_input_is_named_with_its_row) {
    struct run r = make((struct zt_case){ "GRU", "float[3,2,2] float[1,12,2] float[1,12,4] - int32{3,4}" });
    ck_assert(!execute(&r, NULL, 1));
    ck_assert_ptr_nonnull(strstr(r.err.text[0], "sequence_lens: 4 at row 1, wants 0..3"));
    finish(&r);
}
END_TEST

/* Five steps of two rows, three inputs, four units of four gates: two operations a weight, step and row. */
START_TEST(a_recurrent_gradient_counts_an_input_gradient_where_it_computes_one) {
    static const double of_input = 2 * 5 * 2 * 3 * 16, of_hidden = 2 * 5 * 2 * 4 * 16;
    for (int input = 0; input < 2; input++) {
        struct run r = make((struct zt_case){ "LSTM", "float[5,2,3] float[1,16,3] float[1,16,4]" });
        ck_assert_double_eq(zt_op_flops(r.made.graph, 0), of_input + of_hidden);
        const int gradient = differentiate_in(&r, input);
        ck_assert(zt_graph_index(r.made.graph, &r.err));
        ck_assert_double_eq(zt_op_flops(r.made.graph, r.made.graph->values[gradient]->producer),
                            (input ? 1 : 2) * of_input + 2 * of_hidden);
        zt_graph_destroy(r.made.graph);
    }
}
END_TEST

START_TEST(an_index_outside_its_axis_is_named_by_every_kernel) {
    static const struct zt_case cases[] = {
        { "Gather", "float[3,2] int32{1,-3,3}" },
        { "GatherGrad", "float[3,2] int32{1,-3,3}", .attrs = "shape=[3,2]", .domain = "ztrain" },
        { "GatherElements", "float[3] int32{1,-3,3}" },
        { "GatherElementsGrad", "float[3] int32{1,-3,3}", .attrs = "shape=[3]", .domain = "ztrain" },
    };
    struct zt_device *host = zt_device_host_create(2);
    for (int i = 0; i < 4; i++)
        for (enum zt_backend backend = ZT_REF; backend <= (i < 2 ? ZT_CPU : ZT_REF); backend++) {
            struct run r = make(cases[i]);
            const struct options o = { .backend = backend, .threads = 2, .device = host };
            struct machine m;
            ck_assert(machine_start(&m, r.made.graph, r.made.graph->outputs, 1, &o, &r.err));
            ck_assert_int_eq(r.made.graph->nodes[0]->backend, backend);
            ck_assert(machine_feed(&m, r.made.in[0], &r.made.feed[0], &r.err));
            ck_assert(!machine_run_node(&m, 0, &r.err));
            ck_assert_ptr_nonnull(strstr(r.err.text[0], "index 3 at place 2 is outside an axis of 3"));
            machine_finish(&m);
            finish(&r);
        }
    host->api->destroy(host);
}
END_TEST

START_TEST(every_loss_of_the_config_has_its_row_and_gradient) {
    for (const struct zt_loss_row *row = zt_losses; row->type; row++) {
        const struct zt_op *op = zt_op_find(&zt_ops, "ztrain", row->op_type, 1);
        ck_assert_msg(op && op->grad, "%s", row->type);
        ck_assert_ptr_eq(zt_loss_find(row->type), row);
    }
    ck_assert_ptr_null(zt_loss_find("cross-entropy"));
}
END_TEST

/* ---- random numbers ---- */

/* Mean and standard deviation of output 0. */
static void moments(struct zt_case c, double *mean, double *deviation) {
    struct run r = make(c);
    ck_assert_msg(execute(&r, NULL, 2), "%s", r.err.text[0]);
    const struct zt_value *y = zt_out(r.made.graph, 0, 0);
    int64_t count = zt_shape_count(&y->shape);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        double v = zt_load_double(y->dtype, y->data, i);
        sum += v;
        squares += v * v;
    }
    *mean = sum / (double)count;
    *deviation = sqrt(squares / (double)count - *mean * *mean);
    finish(&r);
}

/* 40,000 draws: the mean lies within five of its own standard deviations, sigma / 200. */
START_TEST(drawn_numbers_have_the_moments_asked_for) {
    static const struct {
        struct zt_case c;
        double mean, deviation;
    } wanted[] = {
        { { "RandomNormal", "", .attrs = "shape=[40,1000] mean=2.0 scale=3.0" }, 2, 3 },
        { { "RandomNormalLike", "float[8,5000]" }, 0, 1 },
        { { "RandomUniform", "", .attrs = "shape=[1000,40] low=-1.0 high=5.0" }, 2, 1.7320508 },
        { { "RandomUniformLike", "float[40000]" }, 0.5, 0.28867513 },
        { { "Bernoulli", "float[200,200]:0.3..0.3" }, 0.3, 0.45825757 },
        { { "Multinomial", "float[4,3]:1..1", .attrs = "sample_size=10000" }, 1, 0.81649658 },
    };
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        double mean, deviation;
        moments(wanted[k].c, &mean, &deviation);
        ck_assert_msg(fabs(mean - wanted[k].mean) < wanted[k].deviation / 40, "%s: mean %g", wanted[k].c.op, mean);
        ck_assert_msg(fabs(deviation / wanted[k].deviation - 1) < 0.02, "%s: deviation %g", wanted[k].c.op, deviation);
    }
}
END_TEST

START_TEST(drawn_rows_depend_on_sample_step_and_seed_alone) {
    struct zt_case c = { "RandomNormal", "", .attrs = "shape=[4,301]" };
    struct zt_random first = { 7, 1, 0, 10 }, shifted = { 7, 1, 0, 12 }, later = { 7, 2, 0, 10 };
    struct run a = make(c), b = make(c), d = make(c);
    ck_assert(execute(&a, &first, 1) && execute(&b, &shifted, 3) && execute(&d, &later, 1));
    ck_assert_mem_eq(output(&a, 0) + 2 * 301, output(&b, 0), 2 * 301 * sizeof(float));
    ck_assert_mem_ne(output(&a, 0), output(&a, 0) + 301, 301 * sizeof(float));
    ck_assert_mem_ne(output(&a, 0), output(&d, 0), 301 * sizeof(float));
    struct run e = make((struct zt_case){ "RandomNormal", "", .attrs = "shape=[4,301] seed=1.0" });
    ck_assert(execute(&e, &first, 1));
    ck_assert_mem_ne(output(&a, 0), output(&e, 0), 301 * sizeof(float));
    finish(&a), finish(&b), finish(&d), finish(&e);
}
END_TEST

/* ---- threads ---- */

/* Output 0 and the gradient of input 0, one behind the other; free() it. */
static unsigned char *bits(struct zt_case c, int threads, size_t *bytes) {
    struct run r = make(c);
    int gradient = differentiate(&r);
    ck_assert_msg(execute(&r, NULL, threads), "%s", r.err.text[0]);
    const struct zt_value *y = zt_out(r.made.graph, 0, 0), *d = r.made.graph->values[gradient];
    size_t first = (size_t)zt_shape_count(&y->shape) * sizeof(float),
           second = (size_t)zt_shape_count(&d->shape) * sizeof(float);
    unsigned char *to = malloc(first + second);
    memcpy(to, y->data, first);
    memcpy(to + first, d->data, second);
    *bytes = first + second;
    finish(&r);
    return to;
}

START_TEST(bits_do_not_depend_on_the_number_of_threads) {
    static const struct zt_case cases[] = {
        { "Gemm", "float[70,90] float[200,90] float[200]", .attrs = "transB=1" },
        { "Conv", "float[3,8,9,9] float[40,8,3,3] float[40]", .attrs = "pads=[1,1,1,1]" },
        { "MaxPool", "float[3,8,29,29]", .attrs = "kernel_shape=[3,3]" },
        { "BatchNormTrain", "float[90,8,25] float[8] float[8] float[8] float[8]:1..2", .domain = "ztrain", .outs = 5 },
        { "LayerNormalization", "float[50,300] float[300] float[300]" },
        { "Softmax", "float[50,300]" },
        { "CrossEntropy", "float[150,30] int64[150]:0..29", .domain = "ztrain", .outs = 2 },
        { "LSTM", "float[4,90,20] float[1,240,20] float[1,240,60] float[1,480]" },
        { "GridSample", "float[3,8,9,9] float[3,20,20,2]:-1.1..1.1" },
        { "DFT", "float[100,74,2]" },
        { "STFT", "float[3,4000,1] int64(60) float[120]" },
        { "Det", "float[50,20,20]" },
        { "LinearAttention", "float[3,20,60] float[3,20,30] float[3,20,20] - float[3,20,30]:-1..0 float[3,20,2]:0..1",
          .attrs = "q_num_heads=4 kv_num_heads=2", .opset = 27 },
        { "CausalConvWithState", "float[3,40,200] float[40,1,4] float[40]", .attrs = "activation=silu", .opset = 27 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t bytes, same;
        unsigned char *one = bits(cases[k], 1, &bytes);
        for (int threads = 2; threads < 6; threads++) {
            unsigned char *more = bits(cases[k], threads, &same);
            ck_assert_msg(bytes == same && memcmp(one, more, bytes) == 0, "%s with %d threads", cases[k].op, threads);
            free(more);
        }
        free(one);
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("rows");
    tcase_add_test(t, products_name_the_axis_of_their_output_channels);
    tcase_add_test(t, a_transpose_names_the_axis_that_it_moves);
    tcase_add_test(t, only_indices_of_gather_select_slices);
    tcase_add_test(t, same_upper_pads_the_odd_side_last_and_same_lower_first);
    tcase_add_test(t, a_stretch_and_its_way_back_name_the_same_pairs);
    tcase_add_test(t, a_max_pool_gives_its_gradient_to_the_first_of_equal_maxima);
    tcase_add_test(t, a_nan_flows_through_a_max_pool_and_takes_the_gradient);
    tcase_add_test(t, functions_with_a_kink_at_zero_have_the_slope_below_it_there);
    tcase_add_test(t, batch_norm_trains_with_population_variance_whatever_it_was_exported_as);
    tcase_add_test(t, frozen_and_evaluated_batch_norm_uses_the_running_statistics);
    tcase_add_test(t, dropout_depends_on_the_sample_and_the_step_not_on_where_the_row_stands);
    tcase_add_test(t, dropout_that_drops_nothing_is_a_view);
    tcase_add_test(t, rows_of_weight_zero_change_neither_loss_nor_gradient);
    tcase_add_test(t, a_target_out_of_range_is_named_with_its_row);
    tcase_add_test(t, a_sequence_longer_than_its_input_is_named_with_its_row);
    tcase_add_test(t, a_recurrent_gradient_counts_an_input_gradient_where_it_computes_one);
    tcase_add_test(t, an_index_outside_its_axis_is_named_by_every_kernel);
    tcase_add_test(t, every_loss_of_the_config_has_its_row_and_gradient);
    tcase_add_test(t, drawn_numbers_have_the_moments_asked_for);
    tcase_add_test(t, drawn_rows_depend_on_sample_step_and_seed_alone);
    tcase_add_test(t, bits_do_not_depend_on_the_number_of_threads);
    return run_suite("rows", t, CK_NOFORK); /* libgomp does not survive a fork */
}
