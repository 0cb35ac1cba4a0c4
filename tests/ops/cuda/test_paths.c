/* Reports of a node about the library that runs it, over the emulated module: the library, the reason if there is none,
 * and differences from the plan. */
#include "tests/ops/cases.h"
#include "tests/suite.h"

#include "device/module.h"
#include "graph/passes/assign/assign.h"
#include "ops/table.h"

#include <stdlib.h>
#include <string.h>

/* A case's one node, prepared. */
struct made {
    struct zt_case_graph graph;
    struct zt_prepared *prepared;
    int node;
};

static struct zt_device *device;

static void begin(void) {
    struct zt_err err = { 0 };
    device = zt_module_device(getenv("ZT_MODULE"), 0, 1, &err);
    ck_assert_msg(device != NULL, "%s", err.text[0]);
}

static void end(void) {
    device->api->destroy(device);
}

static struct made make(const char *op, const char *in, const char *attrs) {
    const struct zt_case c = { op, in, .attrs = attrs, .outs = strcmp(op, "LinearRelu") == 0 ? 2 : 0,
                               .domain = strstr(op, "Train") || strstr(op, "Packed") || strstr(op, "Linear") ? "ztrain"
                                                                                                             : NULL };
    struct made m = { .node = -1 };
    struct zt_err err = { 0 };
    ck_assert_msg(zt_case_make(&c, false, &m.graph, &err), "%s", err.text[0]);
    struct zt_graph *g = m.graph.graph;
    ck_assert_msg(zt_op_infer(g, 0, &err), "%s", err.text[0]);
    ck_assert_msg(
        zt_pass_assign(g, &(struct zt_assign_options){ &zt_ops, ZT_CUDA, 1, device }, NULL, 0, &m.prepared, &err), "%s",
        err.text[0]);
    for (int n = 0; n < g->node_count; n++)
        if (strcmp(g->nodes[n]->op_type, op) == 0)
            m.node = n;
    ck_assert_int_ge(m.node, 0);
    return m;
}

static void finish(struct made *m) {
    zt_assign_release(m->graph.graph, m->prepared);
    zt_graph_destroy(m->graph.graph);
}

static const struct {
    const char *op, *in, *attrs, *name, *note; /* note: what it holds; NULL: there is none */
} paths[] = {
    { "Conv", "bfloat16[2,4,8,8] bfloat16[6,4,3,3]", NULL, "cuDNN", NULL },
    { "Conv", "bfloat16[2,5,8,8] bfloat16[6,5,3,3]", NULL, "cuDNN", "planes, not channels last: cuDNN has no engine" },
    { "Conv", "bfloat16[2,4,8,8] bfloat16[7,4,3,3] bfloat16[7]", NULL, "cuDNN", "in a kernel of its own: cuDNN has" },
    { "Conv", "float[2,4,8,8] float[6,4,2,2]", "pads=[0,0,2,2]", ZT_PATH_OWN, "cuDNN has no engine for it" },
    { "MatMul", "bfloat16[2,16,8] bfloat16[2,8,24]", NULL, "cuBLASLt", NULL },
    { "MatMul", "float[2,1,3,4] float[5,4,6]", NULL, "cuBLASLt", "calls: batch axes do not step evenly" },
    { "Gemm", "float[6,16] float[16,8] float[8]", NULL, "cuBLASLt", NULL },
    { "Gemm", "float[6,16] float[16,8] float[6,8]", NULL, "cuBLASLt", NULL },
    { "Gemm", "float[6,16] float[16,8] float[6,1]", NULL, "cuBLASLt", "c is broadcast to y first" },
    { "Gemm", "float[6,16] float[16,1] float[1]", NULL, "cuBLASLt", "the bias is broadcast to y first" },
    { "Attention", "float[1,2,8,8] float[1,2,8,8] float[1,2,8,8]", NULL, ZT_PATH_OWN, "half types only" },
    { "Attention", "bfloat16[1,2,8,8] bfloat16[1,2,8,8] bfloat16[1,2,8,8]", "is_causal=1", "cuDNN", NULL },
    { "Attention", "bfloat16[1,2,8,7] bfloat16[1,2,8,7] bfloat16[1,2,8,7]", NULL, ZT_PATH_OWN, "multiple of 8" },
    { "Attention", "bfloat16[1,2,8,8] bfloat16[1,2,8,8] bfloat16[1,2,8,8] bool[8,8]", NULL, ZT_PATH_OWN, "mask" },
    { "PackedAttention", "bfloat16[1,8,64]", "q_num_heads=4 kv_num_heads=2", "cuDNN", NULL },
    { "PackedAttention", "bfloat16[1,8,96]", "q_num_heads=4 kv_num_heads=2", ZT_PATH_OWN, "multiple of 8" },
    { "LayerNormalization", "bfloat16[6,4096] bfloat16[4096] bfloat16[4096]", NULL, "cuDNN", NULL },
    { "LayerNormalization", "bfloat16[6,32] bfloat16[32] bfloat16[32]", NULL, ZT_PATH_OWN, "a warp holds a row" },
    { "LayerNormalization", "bfloat16[6,37] bfloat16[37] bfloat16[37]", NULL, ZT_PATH_OWN, "cuDNN has no engine" },
    { "LayerNormalization", "float[6,37] float[37] float[37]", NULL, ZT_PATH_OWN, "statistics of fp32" },
    { "MaxPool", "bfloat16[1,4,8,8]", "kernel_shape=[2,2] strides=[2,2]", "cuDNN", NULL },
    { "MaxPool", "bfloat16[1,4,8,8]", "kernel_shape=[2,2] dilations=[2,2]", ZT_PATH_OWN, "dilation" },
    { "LpPool", "float[1,4,8,8]", "kernel_shape=[2,2]", ZT_PATH_OWN, "no Lp pool" },
    { "Relu", "float[4]", NULL, NULL, NULL },
};
enum { PATHS = sizeof paths / sizeof *paths };

START_TEST(a_node_says_which_library_runs_it_or_why_none) {
    struct made m = make(paths[_i].op, paths[_i].in, paths[_i].attrs);
    const struct zt_path *path = &m.prepared[m.node].path;
    const char *note = paths[_i].note;
    ck_assert_msg(!path->name == !paths[_i].name && (!path->name || strcmp(path->name, paths[_i].name) == 0),
                  "%s (%s): %s", paths[_i].op, paths[_i].in, path->name);
    ck_assert_msg(!note == !path->note && (!note || strstr(path->note, note)), "%s (%s): %s", paths[_i].op,
                  paths[_i].in, path->note);
    finish(&m);
}
END_TEST

/* NaN that is lost, or a gradient that flows where ReLU is 0, is found before it matters. */
START_TEST(relu_of_cublaslt_is_taken_where_it_is_ours) {
    static const char *const how[] = { NULL, "max", "kept" };
    for (int i = 0; i < 3; i++) {
        if (how[i])
            ck_assert_int_eq(setenv("ZT_EMULATED_RELU", how[i], 1), 0);
        struct made whole = make("LinearRelu", "bfloat16[4,16] bfloat16[16,128] bfloat16[128]", NULL);
        struct made cut = make("LinearRelu", "float[4,16] float[16,24]", NULL);
        const char *note = whole.prepared[whole.node].path.note;
        ck_assert_msg(how[i] ? note && strstr(note, "loses NaN") : !note, "%s: %s", how[i], note);
        ck_assert_ptr_nonnull(strstr(cut.prepared[cut.node].path.note, "no epilogue for the size"));
        finish(&whole);
        finish(&cut);
        unsetenv("ZT_EMULATED_RELU");
    }
}
END_TEST

/* A graph without an engine is remembered, and so is the reason. */
START_TEST(a_second_node_alike_has_the_reason_of_the_first) {
    struct made first = make(paths[3].op, paths[3].in, paths[3].attrs);
    struct made second = make(paths[3].op, paths[3].in, paths[3].attrs);
    ck_assert_str_eq(first.prepared[first.node].path.note, second.prepared[second.node].path.note);
    finish(&first);
    finish(&second);
}
END_TEST

/* Runs the node of one input and one output, the input `bytes` behind a multiple of 16. */
static struct zt_path run_at(const struct made *m, int bytes) {
    struct zt_graph *g = m->graph.graph;
    struct zt_node *n = g->nodes[m->node];
    struct zt_err err = { 0 };
    struct zt_path path = m->prepared[m->node].path;
    struct zt_view in = { zt_in(g, m->node, 0)->dtype, zt_in(g, m->node, 0)->shape, NULL, NULL };
    struct zt_view out = { zt_out(g, m->node, 0)->dtype, zt_out(g, m->node, 0)->shape, NULL, NULL };
    char *memory = device->api->allocate(device, 1 << 16, "test", &err);
    in.data = memory + bytes;
    out.data = memory + (1 << 14);
    const struct zt_call call = { .graph = g,
                                  .node = n,
                                  .in = &in,
                                  .out = &out,
                                  .in_count = 1,
                                  .out_count = 1,
                                  .state = m->prepared[m->node].state,
                                  .workspace = memory + (1 << 15),
                                  .threads = 1,
                                  .device = device,
                                  .path = &path };
    ck_assert_msg(n->op->kernel[ZT_CUDA].run(&call, &err), "%s", err.text[0]);
    device->api->free(device, memory, 1 << 16);
    return path;
}

START_TEST(a_tensor_that_cudnn_cannot_read_where_it_lies_is_told_of) {
    struct made m = make("MaxPool", "float[1,4,8,8]", "kernel_shape=[2,2] strides=[2,2]");
    ck_assert_str_eq(m.prepared[m.node].path.name, "cuDNN");
    ck_assert_str_eq(run_at(&m, 0).name, "cuDNN");
    const struct zt_path path = run_at(&m, 4);
    ck_assert_str_eq(path.name, ZT_PATH_OWN);
    ck_assert_ptr_nonnull(strstr(path.note, "no multiple of 16 bytes"));
    finish(&m);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("paths");
    tcase_add_checked_fixture(test, begin, end);
    tcase_add_loop_test(test, a_node_says_which_library_runs_it_or_why_none, 0, PATHS);
    tcase_add_test(test, relu_of_cublaslt_is_taken_where_it_is_ours);
    tcase_add_test(test, a_second_node_alike_has_the_reason_of_the_first);
    tcase_add_test(test, a_tensor_that_cudnn_cannot_read_where_it_lies_is_told_of);
    return run_suite("gpu-paths", test, CK_NOFORK); /* libgomp does not survive a fork */
}
