#include "small_program.h"

#include "tests/suite.h"

#include <string.h>

const struct zt_sharding *wished_sharding(const struct wish *wish) {
    const struct zt_sharding_wish all_reducing = { .zero_stage = wish->zero, .data_ranks = wish->ranks };
    return wish->all_reduces ? zt_sharding_of_run(&all_reducing) : zt_sharding_of(wish->zero);
}

static void lay_out(struct small_program *m, const struct zt_training_graph *training_graph, const struct wish *wish,
                    struct zt_program_options *o) {
    int *index = ZT_NEW_N(m->arena, int, training_graph->param_count + training_graph->statistic_count + 1);
    int count = zt_program_params(training_graph, wish->stage, index);
    struct zt_flat_tensor *tensors = ZT_NEW_N(m->arena, struct zt_flat_tensor, count + 1);
    for (int i = 0; i < count; i++) {
        const struct zt_value *v = training_graph->graph->values[training_graph->params[index[i]]];
        tensors[i] =
            (struct zt_flat_tensor){ .name = zt_arena_strdup(m->arena, v->name), .count = zt_shape_count(&v->shape) };
    }
    o->flat = m->flat = zt_flat_make(m->arena, tensors, count, wish->ranks, wish->bucket);
    count = zt_program_statistics(training_graph, wish->stage, index);
    int64_t *offset = ZT_NEW_N(m->arena, int64_t, count + 1);
    for (int i = 0; i < count; i++)
        offset[i] = 64 * i;
    o->statistic_offset = offset;
}

void small_program_build(struct small_program *m, const struct zt_training_graph *training_graph,
                         const struct wish *wish) {
    struct zt_program_options o = { .table = &zt_ops,
                                    .fusion = wish->fast || wish->device ? &m->t.job->fusion : NULL,
                                    .fast = wish->device ? (enum zt_backend)wish->device->api->backend
                                            : wish->fast ? ZT_CPU
                                                         : ZT_REF,
                                    .threads = 1,
                                    .device = wish->device,
                                    .sharding = wished_sharding(wish),
                                    .traffic = &wish->traffic,
                                    .stage = wish->stage,
                                    .stages = wish->stages,
                                    .accumulates = wish->accumulates };
    struct zt_err err = { 0 };
    lay_out(m, training_graph, wish, &o);
    m->program = zt_program_create(training_graph, &o, &err);
    ck_assert_msg(m->program != NULL, "%s", err.text[0]);
}

void small_program_create(struct small_program *m, struct zt_graph *graph, const struct wish *wish) {
    struct zt_training_graph_request request = { 4, !wish->evaluation, wish->weighted, wish->stages, NULL };
    struct zt_training_graph training_graph;
    char config[200];
    snprintf(config, sizeof config,
             "'train_batch_size': 4, '%s': {'enabled': %s}, 'optimizer': {'type': 'Adam', 'params': {'lr': 0.001}}",
             wish->fp16 ? "fp16" : "bf16", wish->bf16 || wish->fp16 ? "true" : "false");
    struct zt_err err = { 0 };
    *m = (struct small_program){ .arena = zt_arena_create() };
    ck_assert_msg(tiny_open(&m->t, graph, config, 1, &err), "%s", err.text[0]);
    ck_assert_msg(zt_job_training_graph(m->t.job, m->t.source, &request, &training_graph, &err), "%s", err.text[0]);
    small_program_build(m, &training_graph, wish);
}

void small_program_finish(struct small_program *m) {
    zt_program_destroy(m->program);
    tiny_finish(&m->t);
    zt_arena_destroy(m->arena);
}

void small_program_print(struct zt_text *to, const struct small_program *m, const struct zt_command *at, int count) {
    const struct zt_graph *g = m->program->training_graph.graph;
    for (int i = 0; i < count; i++) {
        const struct zt_command *c = &at[i];
        bool begun_here = i > 0 && at[i - 1].bucket == c->bucket && at[i - 1].kind == c->kind - 1;
        switch (c->kind) {
        case ZT_RUN_NODE:
            zt_text_add(to, "%s %s%s\n", g->nodes[c->node]->op_type, g->nodes[c->node]->name,
                        c->accumulate ? " +=" : "");
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
        case ZT_GATHER_PERSISTENT:
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

int small_program_nodes(const struct small_program *m, const char *op_type) {
    const struct zt_graph *g = m->program->training_graph.graph;
    int found = 0;
    for (int n = 0; n < g->node_count; n++)
        found += !g->nodes[n]->dead && strcmp(g->nodes[n]->op_type, op_type) == 0;
    return found;
}

struct tiny_run learn_fused(struct zt_graph *graph, const char *fuse, const char *more, int ranks) {
    char config[400];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'optimizer': {'type': 'AdamW', 'params': {'lr': 0.01}}, 'ztrain': {'parallel': "
             "{'communicator': 'thread'}, 'data': {'samples': 22}, 'fuse': [%s]}%s",
             fuse, more);
    return tiny_learn(graph, config, ranks, 6, NULL);
}
