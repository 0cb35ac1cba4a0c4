#include "tests/src/tiny.h"
#include "tests/suite.h"
#include "walk.h"

#include "device/threads.h"
#include "graph/grad.h"

#include <string.h>

static struct zt_err err;

struct made {
    struct tiny t;
    struct zt_arena *arena;
    struct zt_flat *flat;
    struct zt_program *program;
};

/* How a program is asked for. */
struct wish {
    int zero, ranks, stage, stages;
    bool accumulates, fast, bf16, evaluation, weighted;
    int64_t bucket;
    struct zt_traffic traffic;
};

static void lay_out(struct made *m, const struct zt_joint *joint, const struct wish *wish,
                    struct zt_program_options *o) {
    int *index = ZT_NEW_N(m->arena, int, joint->param_count + joint->statistic_count + 1);
    int count = zt_program_params(joint, wish->stage, index);
    struct zt_flat_tensor *tensors = ZT_NEW_N(m->arena, struct zt_flat_tensor, count + 1);
    for (int i = 0; i < count; i++) {
        const struct zt_value *v = &joint->graph->values[joint->params[index[i]]];
        tensors[i] =
            (struct zt_flat_tensor){ .name = zt_arena_strdup(m->arena, v->name), .count = zt_shape_count(&v->shape) };
    }
    o->flat = m->flat = zt_flat_make(m->arena, tensors, count, wish->ranks, wish->bucket);
    count = zt_program_statistics(joint, wish->stage, index);
    int64_t *offset = ZT_NEW_N(m->arena, int64_t, count + 1);
    for (int i = 0; i < count; i++)
        offset[i] = 64 * i;
    o->statistic_offset = offset;
}

static void build(struct made *m, const struct zt_joint *joint, const struct wish *wish) {
    struct zt_program_options o = { .table = &zt_ops,
                                    .fusion = wish->fast ? &m->t.job->fusion : NULL,
                                    .fast = wish->fast ? ZT_CPU : ZT_REF,
                                    .threads = 1,
                                    .sharding = zt_sharding_of(wish->zero),
                                    .traffic = &wish->traffic,
                                    .stage = wish->stage,
                                    .stages = wish->stages,
                                    .accumulates = wish->accumulates };
    lay_out(m, joint, wish, &o);
    m->program = zt_program_create(joint, &o, &err);
    ck_assert_msg(m->program != NULL, "%s", err.text[0]);
}

static void make_program(struct made *m, struct zt_graph *graph, const struct wish *wish) {
    struct zt_joint_request request = { 4, !wish->evaluation, wish->weighted, wish->stages, NULL };
    struct zt_joint joint;
    char config[200];
    snprintf(config, sizeof config,
             "'train_batch_size': 4, 'bf16': {'enabled': %s}, 'optimizer': {'type': 'Adam', 'params': {'lr': 0.001}}",
             wish->bf16 ? "true" : "false");
    err = (struct zt_err){ 0 };
    *m = (struct made){ .arena = zt_arena_create() };
    ck_assert_msg(tiny_open(&m->t, graph, config, 1, &err), "%s", err.text[0]);
    ck_assert_msg(zt_job_joint(m->t.job, m->t.source, &request, &joint, &err), "%s", err.text[0]);
    build(m, &joint, wish);
}

static void finish(struct made *m) {
    zt_program_destroy(m->program);
    tiny_finish(&m->t);
    zt_arena_destroy(m->arena);
}

/* ---- text of the commands ---- */

static void add_commands(struct zt_text *to, const struct made *m, const struct zt_command *at, int count) {
    const struct zt_graph *g = m->program->joint.graph;
    for (int i = 0; i < count; i++) {
        const struct zt_command *c = &at[i];
        bool begun_here = i > 0 && at[i - 1].bucket == c->bucket && at[i - 1].kind == c->kind - 1;
        switch (c->kind) {
        case ZT_RUN_NODE:
            zt_text_add(to, "%s %s%s\n", g->nodes[c->node].op_type, g->nodes[c->node].name, c->accumulate ? " +=" : "");
            break;
        case ZT_ADD_GRAD:
            zt_text_add(to, "ADD %s%s\n", m->flat->tensors[c->tensor].name, c->accumulate ? " +=" : "");
            break;
        case ZT_ZERO_GRAD:
            zt_text_add(to, "ZERO %s\n", m->flat->tensors[c->tensor].name);
            break;
        case ZT_GATHER:
            zt_text_add(to, "GATHER %d%s\n", c->bucket, c->shard ? " from shards" : "");
            break;
        case ZT_KEEP:
            zt_text_add(to, "KEEP\n");
            break;
        case ZT_GATHERED: /* a wait right behind its beginning goes without saying */
            if (!begun_here)
                zt_text_add(to, "GATHERED %d\n", c->bucket);
            break;
        case ZT_REDUCED:
            if (!begun_here)
                zt_text_add(to, "REDUCED %d\n", c->bucket);
            break;
        case ZT_RELEASE:
            zt_text_add(to, "RELEASE %d\n", c->bucket);
            break;
        case ZT_REDUCE:
            zt_text_add(to, "REDUCE %d%s%s%s\n", c->bucket, c->all ? " to all" : "", c->last_only ? " last" : "",
                        c->shard ? " to shard" : "");
            break;
        }
    }
}

static void check_text(const struct wish *wish, const char *wanted) {
    struct made m;
    struct zt_text text = { 0 };
    struct zt_command after[16];
    make_program(&m, tiny_mlp(), wish);
    add_commands(&text, &m, m.program->forward, m.program->forward_count);
    zt_text_add(&text, "-\n");
    add_commands(&text, &m, m.program->backward, m.program->backward_count);
    zt_text_add(&text, "-\n");
    add_commands(&text, &m, after, zt_hooks_after_step(m.flat, zt_sharding_of(wish->zero), after));
    ck_assert_msg(strcmp(text.at, wanted) == 0, "got:\n%s\nwanted:\n%s", text.at, wanted);
    zt_text_finish(&text);
    finish(&m);
}

/* fc1 192 + 16, fc2 256 + 16, y 80 + 5 parameters: buckets of 300 hold one layer each. */
enum { BUCKET = 300 };
#define FORWARD "Gemm fc1\nRelu relu1\nGemm fc2\nRelu relu2\nGemm y\nCrossEntropy loss\n"

START_TEST(one_rank_runs_nodes_alone) {
    check_text(&(struct wish){ .zero = 0, .ranks = 1, .stages = 1, .bucket = BUCKET }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1 +=\n"
               "ReduceSum grad of fc1 +=\n"
               "-\n");
}
END_TEST

START_TEST(ddp_reduces_to_all_in_the_last_micro_batch) {
    check_text(&(struct wish){ .zero = 0, .ranks = 2, .stages = 1, .bucket = BUCKET }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "REDUCE 2 to all last\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "REDUCE 1 to all last\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1 +=\n"
               "ReduceSum grad of fc1 +=\n"
               "REDUCE 0 to all last\n"
               "-\n");
}
END_TEST

START_TEST(zero1_reduces_to_the_owner_and_gathers_after_the_step) {
    check_text(&(struct wish){ .zero = 1, .ranks = 2, .stages = 1, .bucket = BUCKET }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "REDUCE 2 last\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "REDUCE 1 last\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1 +=\n"
               "ReduceSum grad of fc1 +=\n"
               "REDUCE 0 last\n"
               "-\n"
               "GATHER 0\n"
               "GATHER 1\n"
               "GATHER 2\n"
               "GATHERED 0\n"
               "GATHERED 1\n"
               "GATHERED 2\n");
}
END_TEST

START_TEST(zero2_reduces_to_shards_in_every_micro_batch) {
    check_text(&(struct wish){ .zero = 2, .ranks = 2, .stages = 1, .bucket = BUCKET }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCE 0 to shard\n"
               "-\n"
               "GATHER 0\n"
               "GATHER 1\n"
               "GATHER 2\n"
               "GATHERED 0\n"
               "GATHERED 1\n"
               "GATHERED 2\n");
}
END_TEST

START_TEST(overlapped_sums_in_the_gradient_block_are_awaited_at_the_end) {
    check_text(&(struct wish){ .zero = 0, .ranks = 2, .stages = 1, .bucket = BUCKET, .traffic.overlap = true }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "REDUCE 2 to all last\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "REDUCE 1 to all last\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1 +=\n"
               "ReduceSum grad of fc1 +=\n"
               "REDUCE 0 to all last\n"
               "REDUCED 1\n"
               "REDUCED 2\n"
               "-\n");
}
END_TEST

START_TEST(overlapped_sums_to_shards_are_awaited_before_the_next_begins) {
    check_text(&(struct wish){ .zero = 2, .ranks = 2, .stages = 1, .bucket = BUCKET, .traffic.overlap = true }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCED 2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCED 1\n"
               "REDUCE 0 to shard\n"
               "-\n"
               "GATHER 0\n"
               "GATHER 1\n"
               "GATHER 2\n"
               "GATHERED 0\n"
               "GATHERED 1\n"
               "GATHERED 2\n");
}
END_TEST

/* The buckets have 208, 272 and 85 elements. */
START_TEST(zero3_gathers_the_next_bucket_ahead_within_prefetch_and_max_live) {
    struct zt_traffic traffic = { .prefetch = 300, .max_live = 400 }; /* 208 + 272 in place would be too many */
    check_text(&(struct wish){ .zero = 3, .ranks = 2, .stages = 1, .bucket = BUCKET, .traffic = traffic },
               "GATHER 0 from shards\n"
               "Gemm fc1\n"
               "RELEASE 0\n"
               "Relu relu1\n"
               "GATHER 1 from shards\n"
               "GATHER 2 from shards\n"
               "GATHERED 1\n"
               "Gemm fc2\n"
               "RELEASE 1\n"
               "Relu relu2\n"
               "GATHERED 2\n"
               "Gemm y\n"
               "RELEASE 2\n"
               "CrossEntropy loss\n"
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "GATHER 2 from shards\n"
               "GATHER 1 from shards\n"
               "GATHERED 2\n"
               "Gemm grad of y\n"
               "RELEASE 2\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "GATHERED 1\n"
               "Gemm grad of fc2\n"
               "RELEASE 1\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCE 0 to shard\n"
               "-\n");
}
END_TEST

START_TEST(zero3_keeps_what_is_read_again_within_the_reuse_distance) {
    struct zt_traffic traffic = { .reuse_distance = 171 }; /* between the uses of bucket 1, bucket 2 is read twice */
    check_text(&(struct wish){ .zero = 3, .ranks = 2, .stages = 1, .bucket = BUCKET, .traffic = traffic },
               "GATHER 0 from shards\n"
               "Gemm fc1\n"
               "RELEASE 0\n"
               "Relu relu1\n"
               "GATHER 1 from shards\n"
               "Gemm fc2\n"
               "Relu relu2\n"
               "GATHER 2 from shards\n"
               "Gemm y\n"
               "CrossEntropy loss\n"
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "RELEASE 2\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "RELEASE 1\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCE 0 to shard\n"
               "-\n");
}
END_TEST

START_TEST(zero3_gathers_around_each_use) {
    check_text(&(struct wish){ .zero = 3, .ranks = 2, .stages = 1, .bucket = BUCKET },
               "GATHER 0 from shards\n"
               "Gemm fc1\n"
               "RELEASE 0\n"
               "Relu relu1\n"
               "GATHER 1 from shards\n"
               "Gemm fc2\n"
               "RELEASE 1\n"
               "Relu relu2\n"
               "GATHER 2 from shards\n"
               "Gemm y\n"
               "RELEASE 2\n"
               "CrossEntropy loss\n"
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "GATHER 2 from shards\n"
               "Gemm grad of y\n"
               "RELEASE 2\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "GATHER 1 from shards\n"
               "Gemm grad of fc2\n"
               "RELEASE 1\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCE 0 to shard\n"
               "-\n");
}
END_TEST

START_TEST(kernels_that_cannot_add_leave_it_to_a_command) {
    check_text(&(struct wish){ .zero = 0, .ranks = 1, .stages = 1, .bucket = BUCKET, .accumulates = true }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y\n"
               "ADD y.weight +=\n"
               "ReduceSum grad of y\n"
               "ADD y.bias +=\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2\n"
               "ADD fc2.weight +=\n"
               "ReduceSum grad of fc2\n"
               "ADD fc2.bias +=\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ADD fc1.weight +=\n"
               "ReduceSum grad of fc1\n"
               "ADD fc1.bias +=\n"
               "-\n");
}
END_TEST

START_TEST(the_last_stage_of_two) {
    check_text(&(struct wish){ .zero = 1, .ranks = 2, .stage = 1, .stages = 2, .bucket = BUCKET },
               "Gemm fc2\n"
               "Relu relu2\n"
               "Gemm y\n"
               "CrossEntropy loss\n"
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "REDUCE 1 last\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "REDUCE 0 last\n"
               "-\n"
               "GATHER 0\n"
               "GATHER 1\n"
               "GATHERED 0\n"
               "GATHERED 1\n");
}
END_TEST

/* ---- where things lie ---- */

static const struct {
    const char *name;
    struct zt_graph *(*make)(void);
    int stages; /* that it can be cut into */
} models[] = { { "mlp", tiny_mlp, 3 }, { "shared", tiny_shared, 3 }, { "norm", tiny_norm, 2 } };

static void walk(int model, const struct wish *wish) {
    struct made m;
    make_program(&m, models[model].make(), wish);
    walk_program(m.program, m.flat, zt_sharding_of(wish->zero));
    finish(&m);
}

START_TEST(nothing_lies_over_what_is_still_read) {
    for (int model = 0; model < (int)(sizeof models / sizeof *models); model++)
        for (int zero = 0; zero < 4; zero++)
            for (int stages = 1; stages <= models[model].stages; stages++)
                for (int stage = 0; stage < stages; stage++)
                    for (int k = 0; k < 16; k++)
                        walk(model, &(struct wish){ .zero = zero,
                                                    .ranks = zero ? 2 : 1,
                                                    .stage = stage,
                                                    .stages = stages,
                                                    .accumulates = k & 1,
                                                    .fast = k & 2,
                                                    .bf16 = k & 4,
                                                    .evaluation = k & 8,
                                                    .weighted = k & 1,
                                                    .bucket = k & 2 ? 100 : 0,
                                                    .traffic = { .overlap = k & 4,
                                                                 .prefetch = k & 1 ? 300 : 0,
                                                                 .max_live = 1000,
                                                                 .reuse_distance = k & 4 ? 150 : 0 } });
}
END_TEST

START_TEST(both_sides_of_a_boundary_list_the_same_crossings) {
    for (int model = 0; model < (int)(sizeof models / sizeof *models); model++) {
        for (int low = 0; low + 1 < models[model].stages; low++) {
            struct made a, b;
            make_program(&a, models[model].make(),
                         &(struct wish){ .ranks = 1, .stage = low, .stages = models[model].stages, .fast = true });
            make_program(&b, models[model].make(),
                         &(struct wish){ .ranks = 1, .stage = low + 1, .stages = models[model].stages, .fast = true });
            const struct zt_crossings *pairs[2][2] = { { &a.program->send_act, &b.program->recv_act },
                                                       { &b.program->send_grad, &a.program->recv_grad } };
            for (int i = 0; i < 2; i++) {
                ck_assert_int_gt(pairs[i][0]->count, 0);
                ck_assert_int_eq(pairs[i][0]->count, pairs[i][1]->count);
                for (int k = 0; k < pairs[i][0]->count; k++)
                    ck_assert_uint_eq(pairs[i][0]->at[k].bytes, pairs[i][1]->at[k].bytes);
            }
            finish(&a);
            finish(&b);
        }
    }
}
END_TEST

/* ---- joint graphs made by hand ---- */

/* Takes over g: its last node's output is the loss, its parameters are all trainable values; `seed` in joint->seed. */
static void build_by_hand(struct made *m, struct zt_graph *g, int x, bool training, const struct wish *wish) {
    struct zt_joint joint = {
        .graph = g, .rows = 4, .training = training, .seed = -1, .row_weight = -1, .correct = -1, .counted = -1
    };
    err = (struct zt_err){ 0 };
    *m = (struct made){ .arena = zt_arena_create() };
    net_infer(g, &zt_ops);
    joint.loss = net_last(g)->out[0];
    joint.columns = zt_arena_copy(g->arena, &x, sizeof x);
    joint.column_count = 1;
    joint.params = ZT_NEW_N(g->arena, int, g->value_count);
    joint.grads = ZT_NEW_N(g->arena, int, g->value_count);
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v].trainable)
            joint.params[joint.param_count++] = v;
    if (training) {
        struct zt_shape shape = g->values[joint.loss].shape;
        struct zt_cotangent from = { joint.loss, joint.seed = net_input(g, "seed", ZT_FLOAT, &shape) };
        ck_assert_msg(zt_grad_build(g, &zt_ops, &from, 1, joint.params, joint.param_count, joint.grads, &err), "%s",
                      err.text[0]);
    }
    build(m, &joint, wish);
}

static void finish_by_hand(struct made *m) {
    zt_program_destroy(m->program);
    zt_arena_destroy(m->arena);
}

static struct zt_place place_of(const struct made *m, const char *name) {
    return m->program->place[0][zt_graph_find(m->program->joint.graph, name)];
}

START_TEST(what_parameters_alone_decide_is_derived_once_unless_they_are_gathered) {
    for (int zero = 0; zero < 4; zero += 3) {
        struct made m;
        struct wish wish = { .zero = zero, .ranks = 2, .stages = 1 };
        struct zt_graph *g = zt_graph_create("derived");
        int x = net_input(g, "x", ZT_FLOAT, SHAPE(4, 3)), w = net_param(g, "w", SHAPE(4, 3));
        int flat = NET(g, "Reshape", "flat", w, zt_graph_add_ints(g, "shape", (int64_t[]){ 3, 4 }, 2));
        int half = NET(g, "Mul", "half", flat, zt_graph_add_float(g, "0.5", ZT_FLOAT, 0.5));
        NET(g, "ReduceMean", "loss", NET(g, "MatMul", "y", x, NET(g, "Tanh", "tanh", half)));
        build_by_hand(&m, g, x, true, &wish);
        walk_program(m.program, m.flat, zt_sharding_of(zero));
        ck_assert_int_eq(m.program->derive_count, zero ? 0 : 2 + 1 - 1);
        ck_assert_int_eq(place_of(&m, "half").in, zero ? ZT_ACTIVATIONS : ZT_DERIVED);
        ck_assert_int_eq(place_of(&m, "flat").in,
                         zero ? ZT_ACTIVATIONS : ZT_PARAMETERS); /* a view lies where its source does */
        ck_assert_int_eq(place_of(&m, "y").in, ZT_ACTIVATIONS);
        ck_assert_int_eq(place_of(&m, "x").in, ZT_FED);
        finish_by_hand(&m);
    }
}
END_TEST

START_TEST(a_view_of_a_constant_is_a_constant_with_its_contents) {
    struct made m;
    struct wish wish = { .ranks = 1, .stages = 1 };
    static const float numbers[4] = { 1, 2, 3, 4 };
    struct zt_graph *g = zt_graph_create("view");
    int view = zt_graph_add_value(g, "view", ZT_UNDEFINED, NULL); /* its id is below its source's */
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 2)), c = zt_graph_add_constant(g, "c", ZT_FLOAT, SHAPE(4), numbers);
    NET(g, "Reshape", "view", c, zt_graph_add_ints(g, "shape", (int64_t[]){ 2, 2 }, 2));
    NET(g, "ReduceMean", "loss", NET(g, "Mul", "y", NET(g, "Mul", "xw", x, net_param(g, "w", SHAPE(1))), view));
    build_by_hand(&m, g, x, true, &wish);
    walk_program(m.program, m.flat, zt_sharding_of(0));
    ck_assert_int_eq(place_of(&m, "view").in, ZT_CONSTANT);
    ck_assert_ptr_eq(m.program->joint.graph->values[view].data, m.program->joint.graph->values[c].data);
    finish_by_hand(&m);
}
END_TEST

START_TEST(a_gradient_that_no_backward_node_makes_still_arrives) {
    for (int zero = 0; zero < 4; zero++) {
        struct made m;
        struct wish wish = { .zero = zero, .ranks = 2, .stages = 1 };
        struct zt_text text = { 0 };
        struct zt_graph *g = zt_graph_create("bare");
        int x = net_input(g, "x", ZT_FLOAT, SHAPE(4));
        NET(g, "Identity", "loss", net_param(g, "w", SCALAR));
        build_by_hand(&m, g, x, true, &wish);
        walk_program(m.program, m.flat, zt_sharding_of(zero));
        for (int n = 0; n < m.program->joint.graph->node_count; n++)
            ck_assert_int_eq(m.program->joint.graph->nodes[n].phase, ZT_FORWARD);
        add_commands(&text, &m, m.program->backward, m.program->backward_count);
        ck_assert_ptr_nonnull(strstr(text.at, "ADD w"));
        ck_assert_ptr_nonnull(strstr(text.at, "REDUCE 0"));
        zt_text_finish(&text);
        finish_by_hand(&m);
    }
}
END_TEST

START_TEST(a_parameter_without_path_gets_zeros) {
    struct made m;
    struct wish wish = { .zero = 1, .ranks = 2, .stages = 1 };
    struct zt_text text = { 0 };
    struct zt_graph *g = zt_graph_create("no path");
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), aside = net_param(g, "aside", SHAPE(4));
    int bound = NET(g, "Cast", "bound", NET(g, "Greater", "greater", x, aside));
    zt_node_set_int(g, g->node_count - 1, "to", ZT_FLOAT);
    NET(g, "ReduceMean", "loss", NET(g, "Mul", "y", NET(g, "Mul", "xw", x, net_param(g, "w", SHAPE(4))), bound));
    build_by_hand(&m, g, x, true, &wish);
    walk_program(m.program, m.flat, zt_sharding_of(1));
    add_commands(&text, &m, m.program->backward, m.program->backward_count);
    ck_assert_int_eq(strncmp(text.at, "ZERO aside\n", 11), 0);
    zt_text_finish(&text);
    finish_by_hand(&m);
}
END_TEST

/* One gradient of two parameters, and one that another node reads, are copied; the rest is written where it belongs. */
START_TEST(only_a_gradient_of_its_own_is_written_in_place) {
    struct made m;
    struct wish wish = { .ranks = 1, .stages = 1 };
    struct zt_text text = { 0 };
    struct zt_graph *g = zt_graph_create("direct");
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = net_param(g, "a", SHAPE(4)), b = net_param(g, "b", SHAPE(4));
    int sum = NET(g, "Add", "sum", a, b), c = net_param(g, "c", SHAPE(4));
    NET(g, "ReduceMean", "loss", NET(g, "Mul", "y", NET(g, "Mul", "xc", x, c), sum));
    build_by_hand(&m, g, x, true, &wish);
    walk_program(m.program, m.flat, zt_sharding_of(0));
    add_commands(&text, &m, m.program->backward, m.program->backward_count);
    ck_assert_ptr_nonnull(strstr(text.at, "ADD a"));
    ck_assert_ptr_nonnull(strstr(text.at, "ADD b"));
    ck_assert_ptr_null(strstr(text.at, "ADD c"));
    int dc = m.program->joint.grads[2];
    ck_assert_int_eq(m.program->place[1][dc].in, ZT_GRADIENTS);
    ck_assert_int_eq(m.program->place[1][dc].offset, 8 * 4);
    zt_text_finish(&text);
    finish_by_hand(&m);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *cases = tcase_create("program");
    tcase_add_test(cases, one_rank_runs_nodes_alone);
    tcase_add_test(cases, ddp_reduces_to_all_in_the_last_micro_batch);
    tcase_add_test(cases, zero1_reduces_to_the_owner_and_gathers_after_the_step);
    tcase_add_test(cases, zero2_reduces_to_shards_in_every_micro_batch);
    tcase_add_test(cases, zero3_gathers_around_each_use);
    tcase_add_test(cases, overlapped_sums_in_the_gradient_block_are_awaited_at_the_end);
    tcase_add_test(cases, overlapped_sums_to_shards_are_awaited_before_the_next_begins);
    tcase_add_test(cases, zero3_gathers_the_next_bucket_ahead_within_prefetch_and_max_live);
    tcase_add_test(cases, zero3_keeps_what_is_read_again_within_the_reuse_distance);
    tcase_add_test(cases, kernels_that_cannot_add_leave_it_to_a_command);
    tcase_add_test(cases, the_last_stage_of_two);
    tcase_add_test(cases, nothing_lies_over_what_is_still_read);
    tcase_add_test(cases, both_sides_of_a_boundary_list_the_same_crossings);
    tcase_add_test(cases, what_parameters_alone_decide_is_derived_once_unless_they_are_gathered);
    tcase_add_test(cases, a_view_of_a_constant_is_a_constant_with_its_contents);
    tcase_add_test(cases, a_gradient_that_no_backward_node_makes_still_arrives);
    tcase_add_test(cases, a_parameter_without_path_gets_zeros);
    tcase_add_test(cases, only_a_gradient_of_its_own_is_written_in_place);
    return run_suite("plans", cases, CK_NOFORK);
}
