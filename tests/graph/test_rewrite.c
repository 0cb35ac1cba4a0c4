#include "net.h"
#include "tests/suite.h"

#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/assign/assign.h"
#include "ops/table.h"

#include <string.h>

#include "tests/graph/fixture.h"

/* ---- fusion ---- */

/* Neg of Neg is Identity. */
static bool apply_double_neg(struct zt_graph *of, const struct zt_op_table *table, int node, struct zt_err *e) {
    const struct zt_node *n = of->nodes[node];
    int first = n->in_count ? of->values[n->in[0]]->producer : -1;
    if (strcmp(n->op_type, "Neg") != 0 || first < 0 || of->nodes[first]->dead ||
        strcmp(of->nodes[first]->op_type, "Neg") != 0)
        return false;
    int64_t place = n->place;
    int out = n->out[0], in = of->nodes[first]->in[0];
    of->nodes[node]->dead = of->nodes[first]->dead = true;
    int added = zt_graph_add_node(of, &(struct zt_node_spec){ "fused", "Identity", "", ZT_OPSET, &in, 1, &out, 1 });
    of->nodes[added]->place = place;
    return zt_op_resolve(table, of, added, e);
}
static bool apply_failing(struct zt_graph *of, const struct zt_op_table *table, int node, struct zt_err *e) {
    (void)table;
    return zt_node_fail(of, node, e, "cannot be fused");
}

START_TEST(patterns_are_applied_everywhere_and_counted_for_their_back_end_only) {
    static const struct zt_pattern double_neg = { "double_neg", 1u << ZT_CPU, apply_double_neg };
    static const struct zt_pattern *const patterns[] = { &double_neg, NULL };
    const struct zt_fusion fusion = { patterns, (const char *const[]){ "x", "double_*" }, 2 };
    const struct zt_fusion none = { patterns, (const char *const[]){ "x" }, 1 };
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), count = 0;
    int y = x;
    for (int i = 0; i < 4; i++)
        y = NET(g, "Neg", zt_arena_printf(g->arena, "n%d", i), y);
    net_infer(g, &zt_ops);
    ck_assert(zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &fusion, 1u << ZT_REF, NULL, &count }, &err));
    ck_assert(zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &fusion, ZT_FUSE_FORWARD, NULL, &count }, &err));
    ck_assert(zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &none, 1u << ZT_CPU, NULL, &count }, &err));
    ck_assert_int_eq(count, 0);
    ck_assert_int_eq(g->node_count, 4);
    ck_assert_msg(zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &fusion, 1u << ZT_CPU, NULL, &count }, &err),
                  "%s", err.text[0]);
    ck_assert_int_eq(count, 2);
    ck_assert(zt_graph_prune(g, &y, 1, &err));
    ck_assert_int_eq(count_ops("Identity", -1), 2);
    ck_assert_int_eq(g->node_count, 2);
}
END_TEST

START_TEST(a_pattern_that_fails_ends_the_pass) {
    static const struct zt_pattern failing = { "failing", 1u << ZT_CPU, apply_failing };
    static const struct zt_pattern *const patterns[] = { &failing, NULL };
    const struct zt_fusion fusion = { patterns, (const char *const[]){ "*" }, 1 };
    NET(g, "Neg", "n", net_input(g, "x", ZT_FLOAT, SHAPE(2)));
    net_infer(g, &zt_ops);
    ck_assert(!zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &fusion, 1u << ZT_CPU, NULL, NULL }, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "n (Neg)"));
}
END_TEST

/* ---- back ends and layouts: a table whose fast kernels want a layout of their own ---- */

static bool always_equal(const struct zt_layout *a, const struct zt_layout *b) {
    (void)a;
    (void)b;
    return true;
}
/* Two layouts that are equal though they are two objects. */
static const struct zt_layout blocked[2] = { { .name = "blocked", .bytes = 64, .equal = always_equal },
                                             { .name = "blocked", .bytes = 64, .equal = always_equal } };
static int states;        /* made and not yet released */
static int fails_at = -1; /* number of the prepare that fails */

static bool same_shape(struct zt_graph *of, int node, struct zt_err *e) {
    (void)e;
    const struct zt_value v = *zt_in(of, node, 0);
    zt_set_out(of, node, 0, v.dtype, &v.shape);
    return true;
}
static bool nothing(const struct zt_call *call, struct zt_err *e) {
    (void)call;
    (void)e;
    return true;
}
static bool remember(struct zt_prepare *p, struct zt_err *e) {
    if (fails_at-- == 0)
        return zt_node_fail(p->graph, p->node, e, "no primitive");
    states++;
    p->state = (void *)p->graph->nodes[p->node]->out; /* says later whose it is */
    return true;
}
static bool wants_blocked(struct zt_prepare *p, struct zt_err *e) {
    p->in_layout[0] = &blocked[0];
    p->out_layout[0] = &blocked[1];
    p->workspace_bytes = 128;
    p->can_accumulate = true;
    return remember(p, e);
}
static void release(void *state) {
    ck_assert_ptr_nonnull(state);
    states--;
}
static bool in_group(const struct zt_graph *of, int node) {
    return zt_attr_int(of->nodes[node], "group", 1) == 1;
}
static const struct zt_attr_spec group[] = { { .name = "group", .type = ZT_ATTR_INT }, { .name = NULL } };
#define KERNEL(PREPARE, ...)                                                                                           \
    { .run = nothing, .prepare = PREPARE, .release = release, ##__VA_ARGS__ }
/* Choose an order for themselves, and take or write another where they are settled. */
static bool writes_any(struct zt_prepare *p, struct zt_err *e) {
    p->in_layout[0] = p->settled ? p->in_layout[0] : NULL;
    p->free_out = 1;
    return remember(p, e);
}
static bool reads_any(struct zt_prepare *p, struct zt_err *e) {
    p->in_layout[0] = p->settled ? p->in_layout[0] : NULL;
    p->free_in = 1;
    return remember(p, e);
}
static bool pools(struct zt_prepare *p, struct zt_err *e) {
    p->out_layout[0] = p->settled ? p->out_layout[0] : &blocked[0];
    p->free_out = 1;
    return remember(p, e);
}
static bool views(struct zt_prepare *p, struct zt_err *e) {
    p->free_in = p->in_layout[0] != NULL;
    return remember(p, e);
}
#define ROW(NAME, DOMAIN, ...)                                                                                         \
    {                                                                                                                  \
        .name = NAME, .domain = DOMAIN, .since = 1, .min_in = 1, .max_in = 2, .min_out = 1, .max_out = 1,              \
        .infer = same_shape, __VA_ARGS__                                                                               \
    }
static const struct zt_op rows[] = {
    ROW("Fast", "", .attrs = group,
        .kernel = { [ZT_REF] = { .run = nothing },
                    [ZT_CPU] = KERNEL(wants_blocked, .supports = in_group),
                    [ZT_CUDA] = KERNEL(wants_blocked) }),
    ROW("Host", "", .kernel = { [ZT_REF] = { .run = nothing }, [ZT_CPU] = KERNEL(wants_blocked) }),
    ROW("Slow", "", .kernel = { [ZT_REF] = { .run = nothing } }),
    ROW("Simple", "", .kernel = { [ZT_REF] = { .run = nothing }, [ZT_CPU] = { .run = nothing } }),
    ROW("Any", "", .kernel = { [ZT_REF] = { .run = nothing }, [ZT_CPU] = KERNEL(remember) }),
    ROW("Reorder", "ztrain",
        .kernel = { [ZT_REF] = { .run = nothing }, [ZT_CPU] = KERNEL(remember), [ZT_CUDA] = KERNEL(remember) }),
    ROW("Write", "", .kernel = { [ZT_REF] = { .run = nothing }, [ZT_CPU] = KERNEL(writes_any) }),
    ROW("Read", "", .kernel = { [ZT_REF] = { .run = nothing }, [ZT_CPU] = KERNEL(reads_any) }),
    ROW("Pool", "", .kernel = { [ZT_REF] = { .run = nothing }, [ZT_CPU] = KERNEL(pools) }),
    ROW("View", "", .flags = ZT_OP_VIEW, .kernel = { [ZT_REF] = { .run = nothing }, [ZT_CPU] = KERNEL(views) }),
};
static const struct zt_op *const row_list[] = { &rows[0], &rows[1], &rows[2], &rows[3], &rows[4], &rows[5],
                                                &rows[6], &rows[7], &rows[8], &rows[9], NULL };
static const struct zt_op *const *const families[] = { row_list, NULL };
static const struct zt_op_table table = { families };

static struct zt_prepared *assign_to(enum zt_backend fast, int *plain, int plain_count) {
    struct zt_prepared *prepared = NULL;
    states = 0;
    fails_at = -1;
    net_infer(g, &table);
    ck_assert_msg(
        zt_pass_assign(g, &(struct zt_assign_options){ &table, fast, 1, NULL }, plain, plain_count, &prepared, &err),
        "%s", err.text[0]);
    for (int n = 0; n < g->node_count; n++) /* what was prepared stayed with its node */
        ck_assert(!prepared[n].state || prepared[n].state == (void *)g->nodes[n]->out);
    return prepared;
}

static struct zt_prepared *assign(int *plain, int plain_count) {
    return assign_to(ZT_CPU, plain, plain_count);
}

static void finish(struct zt_prepared *prepared) {
    zt_assign_release(g, prepared);
    ck_assert_int_eq(states, 0);
}

START_TEST(fast_kernels_keep_their_layout_between_them_and_edges_are_reordered_once) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Fast", "a", x), b = NET(g, "Fast", "b", a);
    int again = NET(g, "Fast", "again", x), s = NET(g, "Slow", "s", b), t = NET(g, "Slow", "t", b, b);
    struct zt_prepared *p = assign(NULL, 0);
    ck_assert_int_eq(count_ops("Reorder", -1), 2);
    ck_assert_int_eq(count_ops("Reorder", x), 1);
    ck_assert_int_eq(producer(a)->in[0], producer(again)->in[0]);
    ck_assert_int_eq(producer(b)->in[0], a);
    ck_assert_int_eq(producer(s)->in[0], producer(t)->in[0]);
    ck_assert_int_eq(producer(t)->in[0], producer(t)->in[1]);
    ck_assert_ptr_null(g->values[producer(s)->in[0]]->layout);
    ck_assert_int_eq(producer(a)->backend, ZT_CPU);
    ck_assert_int_eq(producer(s)->backend, ZT_REF);
    ck_assert_ptr_eq(g->values[b]->layout, &blocked[1]);
    ck_assert_uint_eq(p[g->values[a]->producer].workspace_bytes, 128);
    ck_assert(p[g->values[a]->producer].can_accumulate && !p[g->values[s]->producer].can_accumulate);
    finish(p);
}
END_TEST

START_TEST(kernels_without_prepare_get_plain_layouts_and_others_see_what_is_there) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Fast", "a", x);
    int plain = NET(g, "Simple", "plain", a), any = NET(g, "Any", "any", a);
    struct zt_prepared *p = assign(NULL, 0);
    ck_assert_int_ne(producer(plain)->in[0], a);
    ck_assert_int_eq(producer(any)->in[0], a);
    ck_assert_ptr_null(g->values[plain]->layout);
    finish(p);
}
END_TEST

START_TEST(a_node_that_the_fast_kernel_does_not_take_runs_on_the_reference) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Fast", "a", x);
    zt_node_set_int(g, 0, "group", 2);
    struct zt_prepared *p = assign(NULL, 0);
    ck_assert_int_eq(producer(a)->backend, ZT_REF);
    ck_assert_int_eq(g->node_count, 1);
    finish(p);
}
END_TEST

START_TEST(beside_a_device_the_hosts_fast_kernel_takes_plain_tensors_or_the_reference_does) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Fast", "a", x);
    int any = NET(g, "Any", "any", a), host = NET(g, "Host", "host", a);
    struct zt_prepared *p = assign_to(ZT_CUDA, NULL, 0);
    ck_assert_int_eq(producer(a)->backend, ZT_CUDA);
    ck_assert_ptr_nonnull(g->values[a]->layout);
    ck_assert_int_eq(producer(any)->backend, ZT_CPU);
    ck_assert_int_eq(producer(host)->backend, ZT_REF);
    ck_assert_int_eq(producer(any)->in[0], producer(host)->in[0]);
    ck_assert_ptr_null(g->values[producer(any)->in[0]]->layout);
    finish(p);
}
END_TEST

START_TEST(what_others_read_comes_out_plain_and_its_id_follows) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Fast", "a", x), b = NET(g, "Slow", "b", x);
    int plain[4] = { a, b, -1, a };
    struct zt_prepared *p = assign(plain, 4);
    ck_assert_int_ne(plain[0], a);
    ck_assert_int_eq(plain[0], plain[3]);
    ck_assert_int_eq(plain[1], b);
    ck_assert_int_eq(plain[2], -1);
    ck_assert_ptr_null(g->values[plain[0]]->layout);
    ck_assert_int_eq(producer(plain[0])->in[0], a);
    finish(p);
}
END_TEST

/* A reader of the backward phase comes first; what the forward phase sends on must not wait for it. */
START_TEST(a_copy_for_backward_that_forward_needs_is_made_in_forward) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Fast", "a", x);
    int d = NET(g, "Slow", "d", a);
    net_last(g)->phase = ZT_BACKWARD;
    int plain[1] = { a };
    struct zt_prepared *p = assign(plain, 1);
    ck_assert_int_eq(producer(d)->in[0], plain[0]);
    ck_assert_int_eq(producer(plain[0])->phase, ZT_FORWARD);
    finish(p);
}
END_TEST

START_TEST(a_kernel_that_cannot_be_prepared_leaves_no_state_behind) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Fast", "a", x), plain[1];
    plain[0] = NET(g, "Fast", "c", NET(g, "Slow", "b", a));
    net_infer(g, &table);
    for (int k = 0;; k++) {
        struct zt_graph *whole = g;
        struct zt_prepared *prepared = (void *)&err;
        int copy[1] = { plain[0] };
        g = zt_graph_clone(whole);
        states = 0;
        fails_at = k;
        err = (struct zt_err){ 0 };
        bool ok = zt_pass_assign(g, &(struct zt_assign_options){ &table, ZT_CPU, 1, NULL }, copy, 1, &prepared, &err);
        if (ok)
            zt_assign_release(g, prepared);
        ck_assert_int_eq(states, 0);
        ck_assert(ok || !prepared);
        ck_assert(ok || strstr(err.text[0], "no primitive"));
        zt_graph_destroy(g);
        g = whole;
        if (ok) {
            ck_assert_int_eq(k, 6); /* two kernels, four reorders */
            break;
        }
    }
}
END_TEST

START_TEST(a_kernel_that_can_writes_what_its_readers_want) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), w = NET(g, "Write", "w", x);
    int a = NET(g, "Fast", "a", w), b = NET(g, "Fast", "b", w);
    struct zt_prepared *p = assign(NULL, 0);
    ck_assert_int_eq(count_ops("Reorder", -1), 0);
    ck_assert_ptr_nonnull(g->values[w]->layout);
    ck_assert(producer(a)->in[0] == w && producer(b)->in[0] == w);
    ck_assert_int_eq(states, 3);
    finish(p);
}
END_TEST

START_TEST(what_somebody_reads_plain_is_written_plain) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), w = NET(g, "Write", "w", x), v = NET(g, "Write", "v", x);
    int a = NET(g, "Fast", "a", w), b = NET(g, "Fast", "b", v);
    NET(g, "Slow", "s", w);
    int plain[1] = { v };
    struct zt_prepared *p = assign(plain, 1);
    ck_assert_int_eq(count_ops("Reorder", w), 1);
    ck_assert_int_eq(count_ops("Reorder", v), 1);
    ck_assert(!g->values[w]->layout && !g->values[v]->layout && plain[0] == v);
    ck_assert(g->values[producer(a)->in[0]]->layout && g->values[producer(b)->in[0]]->layout);
    finish(p);
}
END_TEST

START_TEST(a_kernel_that_can_reads_what_is_written_where_no_copy_is_made_anyway) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Fast", "a", x), b = NET(g, "Fast", "b", x);
    int r = NET(g, "Read", "r", a), q = NET(g, "Read", "q", b), s = NET(g, "Slow", "s", b);
    struct zt_prepared *p = assign(NULL, 0);
    ck_assert_int_eq(count_ops("Reorder", a), 0);
    ck_assert_int_eq(count_ops("Reorder", b), 1);
    ck_assert_int_eq(producer(r)->in[0], a);
    ck_assert_int_eq(producer(q)->in[0], producer(s)->in[0]);
    finish(p);
}
END_TEST

START_TEST(what_a_view_would_copy_is_written_plain_and_an_output_may_be) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = NET(g, "Pool", "a", x), b = NET(g, "Pool", "b", x);
    int c = NET(g, "Pool", "c", x), v = NET(g, "View", "v", a), u = NET(g, "View", "u", b);
    NET(g, "Any", "any", b);
    int plain[1] = { c };
    struct zt_prepared *p = assign(plain, 1);
    ck_assert(!g->values[a]->layout && producer(v)->in[0] == a);
    ck_assert(g->values[b]->layout && producer(u)->in[0] == b);
    ck_assert(!g->values[c]->layout && plain[0] == c);
    ck_assert_int_eq(count_ops("Reorder", -1), 0);
    finish(p);
}
END_TEST

START_TEST(a_kernel_that_cannot_be_prepared_anew_leaves_no_state_behind) {
    NET(g, "Fast", "a", NET(g, "Write", "w", net_input(g, "x", ZT_FLOAT, SHAPE(4))));
    net_infer(g, &table);
    for (int k = 0; k <= 4; k++) { /* two kernels, a reorder, and one anew */
        struct zt_graph *copy = zt_graph_clone(g);
        struct zt_prepared *prepared = NULL;
        states = 0;
        fails_at = k;
        const bool ok =
            zt_pass_assign(copy, &(struct zt_assign_options){ &table, ZT_CPU, 1, NULL }, NULL, 0, &prepared, &err);
        ck_assert_int_eq(ok, k == 4);
        if (ok)
            zt_assign_release(copy, prepared);
        ck_assert_int_eq(states, 0);
        zt_graph_destroy(copy);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("rewrite");
    tcase_add_checked_fixture(cases, make_graph, destroy_graph);
    tcase_add_test(cases, patterns_are_applied_everywhere_and_counted_for_their_back_end_only);
    tcase_add_test(cases, a_pattern_that_fails_ends_the_pass);
    tcase_add_test(cases, fast_kernels_keep_their_layout_between_them_and_edges_are_reordered_once);
    tcase_add_test(cases, kernels_without_prepare_get_plain_layouts_and_others_see_what_is_there);
    tcase_add_test(cases, a_node_that_the_fast_kernel_does_not_take_runs_on_the_reference);
    tcase_add_test(cases, beside_a_device_the_hosts_fast_kernel_takes_plain_tensors_or_the_reference_does);
    tcase_add_test(cases, what_others_read_comes_out_plain_and_its_id_follows);
    tcase_add_test(cases, a_copy_for_backward_that_forward_needs_is_made_in_forward);
    tcase_add_test(cases, a_kernel_that_cannot_be_prepared_leaves_no_state_behind);
    tcase_add_test(cases, a_kernel_that_can_writes_what_its_readers_want);
    tcase_add_test(cases, what_somebody_reads_plain_is_written_plain);
    tcase_add_test(cases, a_kernel_that_can_reads_what_is_written_where_no_copy_is_made_anyway);
    tcase_add_test(cases, what_a_view_would_copy_is_written_plain_and_an_output_may_be);
    tcase_add_test(cases, a_kernel_that_cannot_be_prepared_anew_leaves_no_state_behind);
    return run_suite("rewrite", cases, CK_NOFORK);
}
