/* Checks of pools against the real cuDNN without a GPU: every case in tests/ops/cases/pool.c that it supports, forward,
 * and backward for average pooling; and the engines for given GPU properties. */
#include "ops/pool/pool_dnn.h"

#include "tests/gpu/gpus.h"
#include "tests/ops/cases.h"
#include "tests/suite.h"

#include <string.h>

extern const struct zt_case zt_cases_pool[];

static bool read_case(const struct zt_case *c, struct zt_pool *pool, struct zt_pool_dnn *form) {
    struct zt_case_graph made;
    struct zt_err err = { 0 };
    ck_assert_msg(zt_case_make(c, false, &made, &err), "%s", err.text[0]);
    const bool global = strncmp(c->op, "Global", strlen("Global")) == 0;
    const bool read = (global ? zt_pool_read_global : zt_pool_read)(made.graph, 0, pool, &err);
    const struct zt_value *x = zt_in(made.graph, 0, 0);
    *form = (struct zt_pool_dnn){
        .largest = strstr(c->op, "Max") != NULL, .dtype = x->dtype, .n = x->shape.dim[0], .c = x->shape.dim[1]
    };
    zt_graph_destroy(made.graph);
    return read && !strstr(c->op, "Lp");
}

/* Whether cuDNN has an engine that is wanted here (not asked without `gpu`); it must take what is described. */
static bool has_engine(const struct zt_pool *pool, const struct zt_pool_dnn *form, bool tf32, const char *gpu,
                       const struct zt_case *c) {
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    zt_pool_dnn(pool, form, &graph);
    graph.tensor_cores = tf32;
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert_msg(dnn != NULL, "%s (%s %s), %s: %s", c->op, c->in, c->attrs ? c->attrs : "",
                  form->grad ? "gradient" : "forward", err.text[0]);
    const bool planned = !gpu || zt_dnn_plan_for(dnn, gpu, &err);
    zt_dnn_destroy(dnn);
    return planned;
}

/* Numbers of described pools, and of those in fp32 that have an engine without tensor cores, forward and backward. */
struct counts {
    int all, exact[2];
};

/* Channels last, in one type and on one GPU after the other: it has those that may use tensor cores. */
static void check(const struct zt_case *c, const struct zt_pool *pool, struct zt_pool_dnn form, struct counts *count) {
    static const enum zt_dtype types[] = { ZT_BFLOAT16, ZT_FLOAT, ZT_FLOAT16 };
    form.last = true;
    for (int grad = 0; grad < 2; grad++) {
        form.grad = grad;
        form.dtype = types[count->all / 2 % 3];
        if (zt_pool_dnn_refusal(pool, &form))
            continue;
        const size_t number = (size_t)count->all++, gpu = number % ZT_GPUS;
        const char *of = zt_is_planned(number) ? zt_gpus[gpu] : NULL;
        ck_assert_msg(has_engine(pool, &form, true, of, c), "%s (%s %s), %s in %s, GPU %zu", c->op, c->in,
                      c->attrs ? c->attrs : "", grad ? "gradient" : "forward", zt_dtype_name(form.dtype), gpu);
        count->exact[grad] += form.dtype == ZT_FLOAT && of && has_engine(pool, &form, false, of, c);
    }
}

START_TEST(cudnn_takes_what_is_described_and_has_engines_for_it) {
    struct counts count = { 0 };
    for (const struct zt_case *c = zt_cases_pool; c->op; c++) {
        struct zt_pool pool;
        struct zt_pool_dnn form;
        if (read_case(c, &pool, &form))
            check(c, &pool, form, &count);
    }
    ck_assert_int_gt(count.all, 30);
    ck_assert_int_gt(count.exact[false], zt_every_plan ? 5 : 0);
    ck_assert_int_eq(count.exact[true], 0);
}
END_TEST

/* A gradient with channels last. */
static bool takes(const char *op, const char *in, const char *attrs, bool grad) {
    const struct zt_case c = { op, in, .attrs = attrs };
    struct zt_pool pool;
    struct zt_pool_dnn form;
    ck_assert(read_case(&c, &pool, &form));
    form.grad = form.last = grad;
    return !zt_pool_dnn_refusal(&pool, &form);
}

START_TEST(what_cudnn_does_not_know_is_left_to_our_own_kernels) {
    ck_assert(takes("AveragePool", "float[2,3,7,5]", "kernel_shape=[3,2] pads=[1,0,1,1]", false));
    ck_assert(takes("AveragePool", "float[2,3,7,5]", "kernel_shape=[3,2] pads=[1,0,1,1]", true));
    ck_assert(takes("MaxPool", "bfloat16[2,3,7,5]", "kernel_shape=[3,2] strides=[2,2] ceil_mode=1", false));
    ck_assert(!takes("MaxPool", "float[2,3,7,5]", "kernel_shape=[3,2]", true));
    ck_assert(takes("MaxPool", "float16[2,3,7,5]", "kernel_shape=[3,2]", false));
    ck_assert(!takes("MaxPool", "double[2,3,7,5]", "kernel_shape=[3,2]", false));
    ck_assert(!takes("MaxPool", "float[2,3,9,9]", "kernel_shape=[3,2] dilations=[2,1]", false));
    ck_assert(!takes("MaxPool", "float[0,3,9,9]", "kernel_shape=[3,2]", false));
    ck_assert(!takes("MaxPool", "float[2,3,4,4,4,4]", "kernel_shape=[2,2,2,2]", false));
    ck_assert(!takes("AveragePool", "float[2,3,6,6]",
                     "kernel_shape=[3,3] strides=[2,2] count_include_pad=1 ceil_mode=1", false));
    ck_assert(takes("AveragePool", "float[2,3,6,6]", "kernel_shape=[3,3] strides=[2,2] ceil_mode=1", false));
}
END_TEST

START_TEST(windows_are_described_as_they_lie) {
    const struct zt_case c = { "AveragePool", "float[2,9,7]", .attrs = "kernel_shape=[3] strides=[2] pads=[1,2]" };
    struct zt_pool pool;
    struct zt_pool_dnn form;
    struct zt_dnn_graph graph;
    ck_assert(read_case(&c, &pool, &form));
    form.last = true;
    zt_pool_dnn(&pool, &form, &graph);
    const struct zt_dnn_window *w = &graph.window;
    ck_assert(w->axes == 2 && w->kernel[0] == 1 && w->stride[0] == 1 && w->pad[0] == 0 && w->pad_end[0] == 0);
    ck_assert(w->kernel[1] == 3 && w->stride[1] == 2 && w->pad[1] == 1);
    ck_assert_int_eq((7 + w->pad[1] + w->pad_end[1] - 3) / 2 + 1, 4);
    const struct zt_dnn_tensor *x = &graph.tensor[ZT_POOL_X], *y = &graph.tensor[ZT_POOL_Y];
    ck_assert(x->rank == 4 && x->dim[1] == 9 && x->dim[3] == 7 && x->stride[1] == 1 && x->stride[3] == 9);
    ck_assert(y->dim[2] == 1 && y->dim[3] == 4);
    ck_assert_int_eq(graph.pool, ZT_DNN_AVERAGE_POOL_INSIDE);
}
END_TEST

int main(int count, char **args) {
    zt_every_plan = count > 1 && strcmp(args[1], "all") == 0;
    TCase *tests = tcase_create("pools");
    tcase_add_test(tests, cudnn_takes_what_is_described_and_has_engines_for_it);
    tcase_add_test(tests, what_cudnn_does_not_know_is_left_to_our_own_kernels);
    tcase_add_test(tests, windows_are_described_as_they_lie);
    return run_suite("gpu-pool-dnn", tests, CK_NOFORK); /* cuDNN does not survive a fork */
}
