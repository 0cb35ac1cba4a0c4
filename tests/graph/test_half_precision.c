/* Casts to half types and back. */
#include "net.h"
#include "tests/suite.h"

#include "graph/passes/eval.h"
#include "graph/passes/grad.h"
#include "graph/passes/precision/half_precision.h"
#include "ops/cpu/isa.h"
#include "ops/table.h"

#include <math.h>
#include <string.h>

#include "tests/graph/fixture.h"

START_TEST(a_value_is_cast_once_and_chains_in_half_precision_stay_there) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3)), w = net_param(g, "w", SHAPE(3, 3)),
        v = net_param(g, "v", SHAPE(3, 3));
    int a = NET(g, "MatMul", "a", x, w), b = NET(g, "MatMul", "b", x, v);
    int sum = NET(g, "Add", "sum", a, b), y = NET(g, "Softmax", "y", sum);
    net_infer(g, &zt_ops);
    ck_assert_msg(
        zt_pass_half_propagation(g, &zt_ops, &(struct zt_half_options){ ZT_BFLOAT16, &y, 1, NULL, NULL }, &err), "%s",
        err.text[0]);
    ck_assert_int_eq(count_ops("Cast", x), 1);
    ck_assert_int_eq(count_ops("Cast", -1), 4); /* x, w, v, and sum back for Softmax */
    ck_assert_int_eq(g->values[producer(sum)->in[0]]->dtype, ZT_BFLOAT16);
    ck_assert_int_eq(g->values[y]->dtype, ZT_FLOAT);
    ck_assert_int_eq(g->values[sum]->dtype, ZT_FLOAT);
    ck_assert_str_eq(producer(sum)->op_type, "Cast");
}
END_TEST

/* A first convolution before ReLU and a 2 x 2 pool stays in fp32, one behind it does not; what is no product follows
 * what it reads, batch normalisation among it. A CPU without products of bfloat16 casts nothing. */
START_TEST(in_bfloat16_the_cpu_keeps_in_float_what_is_faster_there) {
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 3, 16, 16)), few = net_param(g, "few", SHAPE(8, 3, 3, 3)),
              wide = net_param(g, "wide", SHAPE(512, 8, 5, 5)), last = net_param(g, "last", SHAPE(64, 512, 1, 1)),
              scale = net_param(g, "scale", SHAPE(512)), bias = net_param(g, "bias", SHAPE(512)),
              mean = net_param(g, "mean", SHAPE(512)), var = net_param(g, "var", SHAPE(512));
    const int relu = NET(g, "Relu", "relu", NET(g, "Conv", "first", x, few)), pool = NET(g, "MaxPool", "pool", relu);
    zt_node_set_ints(g, g->node_count - 1, "kernel_shape", (int64_t[]){ 2, 2 }, 2);
    zt_node_set_ints(g, g->node_count - 1, "strides", (int64_t[]){ 2, 2 }, 2);
    const int second = NET(g, "Conv", "second", pool, wide);
    const int norm = NET(g, "BatchNormalization", "norm", second, scale, bias, mean, var);
    const int third = NET(g, "Relu", "third", norm), y = NET(g, "Conv", "y", third, last);
    net_infer(g, &zt_ops);
    const struct zt_half_options cpu = { ZT_BFLOAT16, &y, 1, NULL, NULL, ZT_CPU };
    ck_assert_msg(zt_pass_half_propagation(g, &zt_ops, &cpu, &err), "%s", err.text[0]);
    ck_assert_int_eq(count_ops("Cast", x), 0);
    ck_assert_int_eq(count_ops("Cast", relu), 0);
    if (!zt_isa_has(ZT_ISA_AVX512_BF16)) {
        ck_assert_int_eq(count_ops("Cast", -1), 0);
        ck_assert_str_eq(producer(y)->op_type, "Conv");
        return;
    }
    ck_assert_int_eq(count_ops("Cast", -1), 4); /* pool, both weights, and y back */
    ck_assert_str_eq(producer(y)->op_type, "Cast");
    const struct zt_node *middle = producer(producer(producer(producer(y)->in[0])->in[0])->in[0]);
    ck_assert_str_eq(middle->op_type, "BatchNormalization");
    ck_assert_int_eq(g->values[middle->in[0]]->dtype, ZT_BFLOAT16);
    ck_assert_int_eq(g->values[middle->in[1]]->dtype, ZT_FLOAT);
    ck_assert_int_eq(g->values[middle->out[0]]->dtype, ZT_BFLOAT16);
}
END_TEST

/* Views of bfloat16 count as it, but what is added to something else, a residual stream, is not rounded for that. */
/* What is behind the pool runs in bfloat16, and so would the pool's gradient, were its pool not in fp32. */
START_TEST(in_bfloat16_the_gradient_of_a_pool_has_the_type_of_its_pool) {
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 3, 16, 16)), w = net_param(g, "w", SHAPE(32, 3, 3, 3)),
              v = net_param(g, "v", SHAPE(32, 32, 3, 3));
    const int relu = NET(g, "Relu", "relu", NET(g, "Conv", "first", x, w));
    int out[2] = { zt_graph_add_value(g, "pool", ZT_UNDEFINED, NULL), zt_graph_add_value(g, "at", ZT_UNDEFINED, NULL) };
    const int pool =
        zt_graph_add_node(g, &(struct zt_node_spec){ "pool", "MaxPoolTrain", "ztrain", 1, &relu, 1, out, 2 });
    zt_node_set_ints(g, pool, "kernel_shape", (int64_t[]){ 2, 2 }, 2);
    zt_node_set_ints(g, pool, "strides", (int64_t[]){ 2, 2 }, 2);
    const int y = NET(g, "Conv", "y", out[0], v);
    net_infer(g, &zt_ops);
    struct zt_shape shape = g->values[y]->shape;
    struct zt_cotangent from = { y, net_input(g, "dy", ZT_FLOAT, &shape) };
    int parameters[2] = { w, v }, keep[3];
    ck_assert(zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ &from, 1, parameters, 2 }, keep, &err));
    keep[2] = y;
    const struct zt_half_options cpu = { ZT_BFLOAT16, keep, 3, NULL, NULL, ZT_CPU };
    ck_assert_msg(zt_pass_half_propagation(g, &zt_ops, &cpu, &err), "%s", err.text[0]);
    int found = 0;
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const char *const op = node->op_type;
        if (strcmp(op, "MaxPoolGrad") == 0 || strcmp(op, "ReluGrad") == 0 || strcmp(op, "MaxPoolTrain") == 0) {
            ck_assert_msg(g->values[node->out[0]]->dtype == ZT_FLOAT, "%s", op);
            found++;
        }
    }
    ck_assert_int_eq(found, 3);
    if (zt_isa_has(ZT_ISA_AVX512_BF16))
        ck_assert_str_eq(producer(y)->op_type, "Cast");
}
END_TEST

START_TEST(in_bfloat16_the_cpu_reads_views_in_half_precision) {
    const int64_t flat[] = { 6, 4 };
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 4)), w = net_param(g, "w", SHAPE(4, 4));
    const int soft = NET(g, "Softmax", "soft", x), a = NET(g, "MatMul", "a", soft, w);
    const int view = NET(g, "Reshape", "view", a, zt_graph_add_ints(g, NULL, flat, 2));
    const int gelu = NET(g, "Gelu", "gelu", view), stream = NET(g, "Softmax", "stream", gelu);
    const int other = NET(g, "Reshape", "other", a, zt_graph_add_ints(g, NULL, flat, 2));
    const int sum = NET(g, "Add", "sum", NET(g, "Add", "first", stream, other), gelu), y = NET(g, "Exp", "y", sum);
    net_infer(g, &zt_ops);
    const struct zt_half_options cpu = { ZT_BFLOAT16, &y, 1, NULL, NULL, ZT_CPU };
    ck_assert_msg(zt_pass_half_propagation(g, &zt_ops, &cpu, &err), "%s", err.text[0]);
    const bool half = zt_isa_has(ZT_ISA_AVX512_BF16);
    ck_assert_str_eq(producer(gelu)->op_type, half ? "Cast" : "Gelu");
    ck_assert_int_eq(g->values[producer(gelu)->in[0]]->dtype, half ? ZT_BFLOAT16 : ZT_FLOAT);
    ck_assert_str_eq(producer(sum)->op_type, "Add");
    ck_assert_str_eq(producer(producer(sum)->in[0])->op_type, "Add");
}
END_TEST

/* On the CPU alone: its kernels round the factors themselves, and no cast stands beside the node. */
START_TEST(a_recurrent_node_in_bfloat16_keeps_its_tensors_in_float) {
    for (int cpu = 0; cpu < 2; cpu++) {
        struct zt_graph *own = zt_graph_create("recurrent");
        const int x = net_input(own, "x", ZT_FLOAT, SHAPE(5, 2, 3)), w = net_param(own, "w", SHAPE(1, 16, 3)),
                  r = net_param(own, "r", SHAPE(1, 16, 4)), y = NET(own, "LSTM", "y", x, w, r);
        net_infer(own, &zt_ops);
        const struct zt_half_options options = { ZT_BFLOAT16, &y, 1, NULL, NULL, cpu ? ZT_CPU : ZT_CUDA };
        ck_assert_msg(zt_pass_half_propagation(own, &zt_ops, &options, &err), "%s", err.text[0]);
        const struct zt_node *node = own->nodes[own->values[y]->producer];
        ck_assert_str_eq(node->op_type, "LSTM");
        ck_assert_int_eq(zt_attr_int(node, "bfloat_products", 0), cpu);
        ck_assert_int_eq(own->values[node->in[0]]->dtype, ZT_FLOAT);
        zt_graph_destroy(own);
    }
}
END_TEST

START_TEST(what_is_kept_comes_back_as_float) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3)), w = net_param(g, "w", SHAPE(3, 3));
    int a = NET(g, "MatMul", "a", x, w), b = NET(g, "MatMul", "b", a, w);
    net_infer(g, &zt_ops);
    ck_assert(zt_pass_half_propagation(g, &zt_ops,
                                       &(struct zt_half_options){ ZT_BFLOAT16, (int[]){ a, b }, 2, NULL, NULL }, &err));
    ck_assert_int_eq(g->values[a]->dtype, ZT_FLOAT);
    ck_assert_str_eq(producer(a)->op_type, "Cast");
    ck_assert_str_eq(producer(b)->op_type, "Cast");
    ck_assert_int_eq(count_ops("Cast", w), 1);
    const struct zt_node *product =
        producer(producer(b)->in[0]); /* b reads the half it came from, not a cast of the cast */
    ck_assert_int_eq(product->in[0], producer(a)->in[0]);
}
END_TEST

START_TEST(one_cast_serves_all_views_of_a_value) {
    const int64_t flat[] = { 6 }, tall[] = { 3, 2 };
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3)), soft = NET(g, "Softmax", "soft", x),
        w = net_param(g, "w", SHAPE(3, 3)), v = net_param(g, "v", SHAPE(2, 2));
    int a = NET(g, "MatMul", "a", soft, w);
    int once = NET(g, "Reshape", "once", soft, zt_graph_add_ints(g, NULL, flat, 1));
    int b = NET(g, "MatMul", "b", NET(g, "Reshape", "twice", once, zt_graph_add_ints(g, NULL, tall, 2)), v);
    net_infer(g, &zt_ops);
    ck_assert_msg(zt_pass_half_propagation(
                      g, &zt_ops, &(struct zt_half_options){ ZT_BFLOAT16, (int[]){ a, b, once }, 3, NULL, NULL }, &err),
                  "%s", err.text[0]);
    ck_assert_int_eq(count_ops("Cast", soft), 1);
    ck_assert_int_eq(count_ops("Cast", -1), 5); /* soft, w, v, and a and b back */
    ck_assert_int_eq(g->values[once]->dtype, ZT_FLOAT);
    const struct zt_node *twice = producer(producer(producer(b)->in[0])->in[0]);
    ck_assert_str_eq(twice->op_type, "Reshape");
    ck_assert_int_eq(producer(producer(twice->in[0])->in[0])->in[0], soft);
}
END_TEST

START_TEST(small_constants_are_cast_at_once) {
    static const float exact[2] = { 1.00390625F, -2 }; /* halfway between two numbers of bf16 */
    float *frozen = zt_arena_alloc(g->arena, 40000 * sizeof *frozen);
    memset(frozen, 0, 40000 * sizeof *frozen);
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(3, 2)),
              small = zt_graph_add_constant(g, "c", ZT_FLOAT, SHAPE(2), exact),
              large = zt_graph_add_constant(g, "w", ZT_FLOAT, SHAPE(2, 20000), frozen);
    const int y = NET(g, "MatMul", "y", NET(g, "Add", "a", x, small), large);
    net_infer(g, &zt_ops);
    ck_assert_msg(
        zt_pass_half_propagation(g, &zt_ops, &(struct zt_half_options){ ZT_BFLOAT16, &y, 1, NULL, NULL }, &err), "%s",
        err.text[0]);
    const struct zt_node *sum = g->nodes[g->values[producer(producer(y)->in[0])->in[0]]->producer];
    const struct zt_value *half = g->values[sum->in[1]];
    ck_assert_int_eq(half->dtype, ZT_BFLOAT16);
    ck_assert_double_eq(zt_load_double(half->dtype, half->data, 0), 1); /* ties to even */
    ck_assert_double_eq(zt_load_double(half->dtype, half->data, 1), -2);
    ck_assert_int_eq(count_ops("Cast", small), 0);
    ck_assert_int_eq(count_ops("Cast", large), 1);
}
END_TEST

START_TEST(masks_and_statistics_stay_float) {
    const struct zt_shape heads = { 4, { 2, 2, 4, 8 } };
    int in[4] = { net_input(g, "q", ZT_FLOAT, &heads), net_input(g, "k", ZT_FLOAT, &heads),
                  net_input(g, "v", ZT_FLOAT, &heads), net_input(g, "mask", ZT_FLOAT, SHAPE(4, 4)) };
    int out[2] = { zt_graph_add_value(g, "y", ZT_UNDEFINED, NULL), zt_graph_add_value(g, "kept", ZT_UNDEFINED, NULL) };
    zt_graph_add_node(g, &(struct zt_node_spec){ "attention", "AttentionTrain", "ztrain", 1, in, 4, out, 2 });
    net_infer(g, &zt_ops);
    ck_assert_msg(
        zt_pass_half_propagation(g, &zt_ops, &(struct zt_half_options){ ZT_BFLOAT16, out, 2, NULL, NULL }, &err), "%s",
        err.text[0]);
    const struct zt_node *n = producer(producer(out[0])->in[0]);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(g->values[n->in[i]]->dtype, i < 3 ? ZT_BFLOAT16 : ZT_FLOAT);
    ck_assert_int_eq(n->in[3], in[3]);
    ck_assert_int_eq(g->values[n->out[0]]->dtype, ZT_BFLOAT16);
    ck_assert_int_eq(n->out[1], out[1]);
    ck_assert_int_eq(g->values[out[1]]->dtype, ZT_FLOAT);
    ck_assert_int_eq(count_ops("Cast", -1), 4); /* q, k, v, and y back */
}
END_TEST

START_TEST(parameters_and_their_gradients_stay_float_and_casts_stand_in_their_phase) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3)), w = net_param(g, "w", SHAPE(3, 3)), dw;
    int y = NET(g, "ReduceMean", "y", NET(g, "Relu", "relu", NET(g, "MatMul", "a", x, w)));
    net_infer(g, &zt_ops);
    struct zt_shape shape = g->values[y]->shape;
    struct zt_cotangent from = { y, net_input(g, "dy", ZT_FLOAT, &shape) };
    ck_assert(zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ &from, 1, &w, 1 }, &dw, &err));
    int forward = -1, keep[2] = { y, dw };
    ck_assert_msg(
        zt_pass_half_propagation(g, &zt_ops, &(struct zt_half_options){ ZT_BFLOAT16, keep, 2, NULL, NULL }, &err), "%s",
        err.text[0]);
    ck_assert_int_eq(g->values[w]->dtype, ZT_FLOAT);
    ck_assert_int_eq(g->values[dw]->dtype, ZT_FLOAT);
    for (int n = 0; n < g->node_count; n++)
        forward = g->nodes[n]->phase == ZT_FORWARD ? n : forward;
    ck_assert_int_gt(g->values[dw]->producer, forward);
    struct zt_eval *eval = zt_eval_create(g, NULL, 1);
    float ones[6] = { 1, 1, 1, 1, 1, 1 }, one = 1;
    zt_eval_feed(eval, x, &(struct zt_tensor){ ZT_FLOAT, *SHAPE(2, 3), ones });
    zt_eval_feed(eval, from.cotangent, &(struct zt_tensor){ ZT_FLOAT, shape, &one });
    ck_assert_msg(zt_eval_run(eval, 0, g->node_count, &err), "%s", err.text[0]);
    const float *weight = g->values[w]->data, *d = g->values[dw]->data;
    for (int k = 0; k < 9; k++) {
        float column = weight[k % 3] + weight[3 + k % 3] + weight[6 + k % 3];
        ck_assert_msg(fabsf(d[k] - (column > 0 ? 2.0f / 6 : 0)) < 0.003f, "dw[%d] = %g", k, (double)d[k]);
    }
    zt_eval_destroy(eval);
}
END_TEST

/* ---- half types without kernels ---- */

/* fp16's smallest number is 6e-8, its largest 65504. */
START_TEST(nodes_with_constants_beyond_fp16_stay_in_float) {
    static const float values[] = { 1e-5f, 1e-12f, -1e9f, 0 };
    const struct zt_shape one = { 0 };
    const enum zt_dtype half = _i ? ZT_FLOAT16 : ZT_BFLOAT16;
    int y[4];
    for (int i = 0; i < 4; i++) {
        int x = net_input(g, zt_arena_printf(g->arena, "x%d", i), ZT_FLOAT, SHAPE(3));
        y[i] = NET(g, "Add", zt_arena_printf(g->arena, "y%d", i), x,
                   zt_graph_add_constant(g, NULL, ZT_FLOAT, &one, &values[i]));
    }
    net_infer(g, &zt_ops);
    ck_assert_msg(zt_pass_half_propagation(g, &zt_ops, &(struct zt_half_options){ half, y, 4, NULL, NULL }, &err), "%s",
                  err.text[0]);
    for (int i = 0; i < 4; i++) {
        const bool stays = _i && (i == 1 || i == 2);
        ck_assert_str_eq(producer(y[i])->op_type, stays ? "Add" : "Cast");
        ck_assert_int_eq(g->values[producer(y[i])->in[0]]->dtype, stays ? ZT_FLOAT : half);
    }
}
END_TEST

START_TEST(half_products_compute_in_float_and_are_stored_half) {
    uint16_t ones[9], twos[6];
    for (int i = 0; i < 9; i++) {
        ones[i] = zt_float_to_half(1);
        twos[i % 6] = zt_float_to_half(2);
    }
    int x = net_input(g, "x", ZT_FLOAT16, SHAPE(2, 3)),
        w = zt_graph_add_constant(g, "w", ZT_FLOAT16, SHAPE(3, 3), ones);
    int z = NET(g, "MatMul", "z", x, w), y = NET(g, "Relu", "y", z);
    net_infer(g, &zt_ops);
    ck_assert_msg(zt_pass_compute_in_float(g, &zt_ops, ZT_CPU, &err), "%s", err.text[0]);
    ck_assert_int_eq(g->values[z]->dtype, ZT_FLOAT16);
    ck_assert_int_eq(g->values[y]->dtype, ZT_FLOAT16);
    ck_assert_str_eq(producer(z)->op_type, "Cast");
    const struct zt_node *product = producer(producer(z)->in[0]);
    ck_assert_str_eq(product->op_type, "MatMul");
    ck_assert_int_eq(g->values[product->in[0]]->dtype, ZT_FLOAT);
    ck_assert_int_eq(producer(product->in[0])->in[0], x);
    ck_assert_ptr_nonnull(g->values[product->in[1]]->data); /* known before running: converted here */
    ck_assert_int_eq(producer(y)->in[0], z);                /* Relu has a loop for half values */
    int nodes = g->node_count;
    ck_assert(zt_pass_compute_in_float(g, &zt_ops, ZT_CPU, &err));
    ck_assert_int_eq(g->node_count, nodes);
    struct zt_eval *eval = zt_eval_create(g, NULL, 1);
    zt_eval_feed(eval, x, &(struct zt_tensor){ ZT_FLOAT16, *SHAPE(2, 3), twos });
    ck_assert_msg(zt_eval_run(eval, 0, g->node_count, &err), "%s", err.text[0]);
    for (int i = 0; i < 6; i++)
        ck_assert(zt_load_double(ZT_FLOAT16, g->values[y]->data, i) == 6);
    zt_eval_destroy(eval);
}
END_TEST

START_TEST(float_graphs_and_the_reference_need_no_casts) {
    int x = net_input(g, "x", ZT_FLOAT16, SHAPE(2, 3)),
        y = NET(g, "MatMul", "y", x, net_input(g, "w", ZT_FLOAT16, SHAPE(3, 3)));
    (void)y;
    net_infer(g, &zt_ops);
    ck_assert(zt_pass_compute_in_float(g, &zt_ops, ZT_REF, &err));
    ck_assert_int_eq(g->node_count, 1);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("half_precision");
    tcase_add_checked_fixture(cases, make_graph, destroy_graph);
    tcase_add_test(cases, a_value_is_cast_once_and_chains_in_half_precision_stay_there);
    tcase_add_test(cases, in_bfloat16_the_cpu_keeps_in_float_what_is_faster_there);
    tcase_add_test(cases, in_bfloat16_the_gradient_of_a_pool_has_the_type_of_its_pool);
    tcase_add_test(cases, in_bfloat16_the_cpu_reads_views_in_half_precision);
    tcase_add_test(cases, a_recurrent_node_in_bfloat16_keeps_its_tensors_in_float);
    tcase_add_test(cases, what_is_kept_comes_back_as_float);
    tcase_add_test(cases, one_cast_serves_all_views_of_a_value);
    tcase_add_test(cases, small_constants_are_cast_at_once);
    tcase_add_loop_test(cases, nodes_with_constants_beyond_fp16_stay_in_float, 0, 2);
    tcase_add_test(cases, masks_and_statistics_stay_float);
    tcase_add_test(cases, parameters_and_their_gradients_stay_float_and_casts_stand_in_their_phase);
    tcase_add_test(cases, half_products_compute_in_float_and_are_stored_half);
    tcase_add_test(cases, float_graphs_and_the_reference_need_no_casts);
    return run_suite("half_precision", cases, CK_NOFORK);
}
