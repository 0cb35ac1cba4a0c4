/* Checks of attention against the real cuDNN without a GPU: for given GPU properties it recognizes the described
 * operations as flash attention, has an engine, compiles its kernels, and takes the deterministic gradient. */
#include "ops/attention/attention_dnn.h"
#include "tests/gpu/gpus.h"
#include "tests/suite.h"
#include "tests/ops/cases.h"

#include <string.h>

struct shape {
    const char *in, *attrs, *op; /* NULL: Attention */
};
static const struct shape shapes[] = {
    { "bfloat16[2,12,256,64] bfloat16[2,12,256,64] bfloat16[2,12,256,64]", "is_causal=1" },
    { "bfloat16[2,200,768] bfloat16[2,200,768] bfloat16[2,200,768]", "q_num_heads=12 kv_num_heads=12" },
    { "bfloat16[2,8,150,128] bfloat16[2,2,230,128] bfloat16[2,2,230,128]", "is_causal=1" },
    { "bfloat16[1,4,3,8] bfloat16[1,2,7,8] bfloat16[1,2,7,16]", "scale=0.3" },
    { "bfloat16[16,12,1024,64] bfloat16[16,12,1024,64] bfloat16[16,12,1024,64]", "is_causal=1" },
    { "bfloat16[16,1024,2304]", "q_num_heads=12 kv_num_heads=12 is_causal=1", "PackedAttention" }, /* GPT-2 124M */
    { "bfloat16[2,200,768]", "q_num_heads=8 kv_num_heads=2", "PackedAttention" },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The attention of a shape, whose random inputs are made once. */
static struct zt_attention read_shape(const struct shape *s) {
    static struct zt_attention known[SHAPES];
    static bool is_known[SHAPES];
    const int shape = (int)(s - shapes);
    if (is_known[shape])
        return known[shape];
    const struct zt_case c = { s->op ? s->op : "Attention", s->in, .attrs = s->attrs,
                               .domain = s->op ? "ztrain" : NULL };
    struct zt_case_graph made;
    struct zt_err err = { 0 };
    struct zt_attention a;
    ck_assert_msg(zt_case_make(&c, false, &made, &err), "%s", err.text[0]);
    ck_assert_msg(zt_attention_read(made.graph, 0, &a, &err), "%s", err.text[0]);
    ck_assert_msg(!zt_flash_refusal(made.graph, 0, &a), "%s", s->in);
    zt_graph_destroy(made.graph);
    is_known[shape] = true;
    return known[shape] = a;
}

static struct zt_dnn *plan(const struct shape *s, bool grad, const char *gpu, enum zt_dtype dtype) {
    const struct zt_attention a = read_shape(s);
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    zt_flash_graph(&a, dtype, grad, &graph);
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert_msg(dnn != NULL, "%s: %s", s->in, err.text[0]);
    ck_assert_msg(zt_dnn_plan_for(dnn, gpu, &err), "%s, %s: %s", s->in, grad ? "gradient" : "forward", err.text[0]);
    ck_assert_uint_le(zt_dnn_workspace_bytes(dnn), ZT_DNN_WORKSPACE);
    return dnn;
}

static const enum zt_dtype halves[] = { ZT_BFLOAT16, ZT_FLOAT16 };

/* A shape is planned in one type for one GPU in turn, with the argument "all" in both for every GPU. */
static bool is_planned(int shape, int half, int gpu) {
    return zt_every_plan || (shape % 2 == half && shape % ZT_GPUS == gpu);
}

START_TEST(cudnn_has_engines_forward) {
    for (int gpu = 0; gpu < ZT_GPUS; gpu++)
        for (int i = 0; i < SHAPES; i++)
            if (is_planned(i, _i, gpu))
                zt_dnn_destroy(plan(&shapes[i], false, zt_gpus[gpu], halves[_i]));
}
END_TEST

/* The one that adds to dq in whatever order blocks come has no ds in its workspace. */
START_TEST(cudnn_has_engines_backward_that_store_every_ds) {
    for (int gpu = 0; gpu < ZT_GPUS; gpu++)
        for (int i = 0; i < SHAPES; i++) {
            if (!is_planned(i, _i, gpu))
                continue;
            const struct zt_attention a = read_shape(&shapes[i]);
            struct zt_dnn *dnn = plan(&shapes[i], true, zt_gpus[gpu], halves[_i]);
            ck_assert_uint_ge(zt_dnn_workspace_bytes(dnn), (size_t)(2 * a.batch * a.heads * a.queries * a.keys));
            zt_dnn_destroy(dnn);
        }
}
END_TEST

START_TEST(heads_that_are_no_multiple_of_16_bytes_have_no_engine) {
    struct zt_attention a = read_shape(&shapes[3]);
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    a.size = 7;
    a.q = (struct zt_heads){ .batch = 4 * 3 * 7, .head = 3 * 7, .row = 7 };
    a.k = (struct zt_heads){ .batch = 2 * 7 * 7, .head = 7 * 7, .row = 7 };
    zt_flash_graph(&a, ZT_BFLOAT16, false, &graph);
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert_msg(dnn != NULL, "%s", err.text[0]);
    ck_assert(!zt_dnn_plan_for(dnn, zt_gpus[0], &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "cuDNN has no engine"));
    zt_dnn_destroy(dnn);
}
END_TEST

int main(int count, char **args) {
    zt_every_plan = count > 1 && strcmp(args[1], "all") == 0;
    TCase *tests = tcase_create("attention");
    tcase_add_loop_test(tests, cudnn_has_engines_forward, 0, 2);
    tcase_add_loop_test(tests, cudnn_has_engines_backward_that_store_every_ds, 0, 2);
    tcase_add_test(tests, heads_that_are_no_multiple_of_16_bytes_have_no_engine);
    return run_suite("gpu-attention-dnn", tests, CK_NOFORK); /* cuDNN does not survive a fork */
}
