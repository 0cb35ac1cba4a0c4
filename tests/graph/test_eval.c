#include "net.h"
#include "tests/suite.h"

#include "graph/passes/eval.h"
#include "ops/table.h"

#include <math.h>
#include <string.h>

enum { BATCH = 2, CHANNELS = 24, SIZE = 20, ELEMENTS = BATCH * CHANNELS * SIZE * SIZE };

static struct zt_err err;
static float contents[ELEMENTS];

/* Two convolutions with what stands between them; enough work for fast kernels, in whose layouts 24 channels are no
 * whole blocks of 16. */
static struct zt_graph *make_net(void) {
    struct zt_graph *g = zt_graph_create("test");
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(BATCH, CHANNELS, SIZE, SIZE));
    const int w = net_param(g, "w", SHAPE(CHANNELS, CHANNELS, 3, 3)), b = net_param(g, "b", SHAPE(CHANNELS));
    int y = NET(g, "Conv", "first", x, w, b);
    zt_node_set_ints(g, g->node_count - 1, "pads", (int64_t[]){ 1, 1, 1, 1 }, 4);
    y = NET(g, "Relu", "relu", y);
    y = NET(g, "Conv", "second", y, w, -1);
    y = NET(g, "Add", "sum", y, y);
    g->outputs = ZT_NEW_N(g->arena, int, 1);
    g->outputs[g->output_count++] = y;
    net_infer(g, &zt_ops);
    return g;
}

static struct zt_eval *start_with(struct zt_graph *g, bool fast, bool alone, const struct zt_eval_kept *kept) {
    struct zt_eval *eval = zt_eval_create(g, NULL, 1);
    zt_eval_keep(eval, kept);
    if (fast)
        zt_eval_use_fast(eval, NULL, 0);
    if (alone)
        zt_eval_results_alone(eval);
    for (int i = 0; i < ELEMENTS; i++)
        contents[i] = sinf((float)i);
    zt_eval_feed(eval, zt_graph_find(g, "x"),
                 &(struct zt_tensor){ ZT_FLOAT, *SHAPE(BATCH, CHANNELS, SIZE, SIZE), contents });
    ck_assert_msg(zt_eval_run(eval, 0, g->node_count, &err), "%s", err.text[0]);
    return eval;
}

static struct zt_eval *start(struct zt_graph *g, bool fast, bool alone) {
    return start_with(g, fast, alone, &(struct zt_eval_kept){ 0 });
}

/* Of the two convolutions, `room` have their results in the memory; Relu and Add run again from what is there. */
START_TEST(a_second_run_reads_products_that_were_kept) {
    struct zt_graph *g = make_net(), *again = make_net();
    const size_t bytes[] = { ELEMENTS * sizeof(float), (size_t)zt_value_bytes(g->values[g->outputs[0]]) };
    const size_t room = (_i > 0 ? bytes[0] : 0) + (_i > 1 ? bytes[1] : 0), end = bytes[1] / sizeof(float) - 1;
    struct zt_arena *arena = zt_arena_create();
    float *kept = zt_arena_block(arena, bytes[0] + bytes[1]);
    ck_assert_uint_eq(zt_eval_kept_bytes(g, g->node_count, room + 63), room);
    struct zt_eval *first = start_with(g, true, false, &(struct zt_eval_kept){ kept, room, false });
    const float *y = g->values[g->outputs[0]]->data, *relu = g->values[g->nodes[1]->out[0]]->data;
    ck_assert_int_eq(g->values[g->nodes[0]->out[0]]->data == kept, _i > 0);
    const float last = y[end];
    kept[0] = 7; /* the first convolution's, which only Relu reads; the second has its own result */
    struct zt_eval *second = start_with(again, true, false, &(struct zt_eval_kept){ kept, room, true });
    const float *z = again->values[again->outputs[0]]->data, *active = again->values[again->nodes[1]->out[0]]->data;
    ck_assert_int_eq(active[0] == 7, _i > 0);
    ck_assert_int_eq(z[0] == y[0], _i != 1);
    ck_assert(active[1] == relu[1] && z[end] == last);
    zt_eval_destroy(first);
    zt_eval_destroy(second);
    zt_graph_destroy(g);
    zt_graph_destroy(again);
    zt_arena_destroy(arena);
}
END_TEST

START_TEST(fast_kernels_give_what_reference_kernels_give) {
    struct zt_graph *g = make_net(), *wanted = make_net();
    struct zt_eval *fast = start(g, true, false), *plain = start(wanted, false, false);
    const struct zt_value *have = g->values[g->outputs[0]], *want = wanted->values[wanted->outputs[0]];
    const float *a = have->data, *b = want->data;
    const int64_t count = zt_shape_count(&want->shape);
    ck_assert_int_eq(zt_shape_count(&have->shape), count);
    ck_assert_ptr_null(have->layout);
    int different = 0;
    for (int64_t i = 0; i < count; i++) {
        ck_assert_msg(fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(b[i])), "element %d: %g, %g", (int)i, (double)a[i],
                      (double)b[i]);
        different += a[i] != b[i];
    }
    ck_assert(different > 0 || !zt_op_takes(g, 0, ZT_CPU)); /* they sum in another order */
    zt_eval_destroy(fast);
    zt_eval_destroy(plain);
    zt_graph_destroy(g);
    zt_graph_destroy(wanted);
}
END_TEST

START_TEST(where_results_count_alone_others_are_freed_when_they_are_read) {
    struct zt_graph *g = make_net(), *wanted = make_net();
    struct zt_eval *alone = start(g, true, true), *all = start(wanted, true, false);
    const size_t bytes = (size_t)zt_value_bytes(g->values[g->outputs[0]]);
    ck_assert_mem_eq(g->values[g->outputs[0]]->data, wanted->values[wanted->outputs[0]]->data, bytes);
    for (int n = 0; n + 1 < g->node_count; n++)
        ck_assert_ptr_null(g->values[g->nodes[n]->out[0]]->data);
    ck_assert_ptr_nonnull(g->values[zt_graph_find(g, "w")]->data);
    ck_assert_ptr_eq(g->values[zt_graph_find(g, "x")]->data, contents);
    zt_eval_destroy(alone);
    zt_eval_destroy(all);
    zt_graph_destroy(g);
    zt_graph_destroy(wanted);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("eval");
    tcase_add_loop_test(cases, a_second_run_reads_products_that_were_kept, 0, 3);
    tcase_add_test(cases, fast_kernels_give_what_reference_kernels_give);
    tcase_add_test(cases, where_results_count_alone_others_are_freed_when_they_are_read);
    return run_suite("eval", cases, CK_NOFORK);
}
