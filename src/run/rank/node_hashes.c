/* Hashes of the weights and outputs of a rank's nodes, if the config requests them (hashes.h). Nodes of derived values
 * (packed weights) are left out: their outputs are other forms of weights, and the nodes that read them are hashed. */
#include "run/rank/node_hashes.h"

#include "base/map.h"
#include "base/vec.h"
#include "ops/kernel/layout.h"
#include "run/hashes/hashes.h"

#include <stdlib.h>
#include <string.h>

struct zt_rank_hashes {
    struct zt_arena *arena;
    struct zt_hash_writer *to;
    uint32_t step; /* from 1 */
    int **first;   /* [program][node]: number of the tensor of its first view, -1: not hashed */
    void *copy;    /* host copy of a tensor in device memory */
};

static bool is_weight(const struct zt_training_graph *training_graph, int value, const struct zt_place *place) {
    bool weight = place->in == ZT_DERIVED || place->in == ZT_STATISTICS;
    for (int i = 0; i < training_graph->param_count && !weight; i++)
        weight = training_graph->params[i] == value;
    return weight;
}

/* Whether view `i` of a node (inputs first) is hashed: all outputs, and the weights it reads. Without the weights, a
 * change too small for the outputs would only be seen steps later. */
static bool hashed(const struct zt_run_program *rp, int n, int i) {
    const struct zt_ready *ready = &rp->ready[n];
    const struct zt_training_graph *training_graph = &rp->program->training_graph;
    const struct zt_place *place = ready->place[i];
    if (!place || place->in == ZT_NOWHERE || place->in == ZT_CONSTANT)
        return false;
    return i >= ready->call.in_count || is_weight(training_graph, training_graph->graph->nodes[n]->in[i], place);
}

static int view_count(const struct zt_ready *ready) {
    return ready->call.in_count + ready->call.out_count;
}

typedef ZT_VEC(struct zt_hash_tensor) tensors;

/* A view that is not hashed has a number too, but no name. */
static void list_node(struct zt_rank_hashes *h, const struct zt_run_program *rp, int n, bool backward, tensors *list) {
    const struct zt_graph *g = rp->program->training_graph.graph;
    const struct zt_node *node = g->nodes[n];
    for (int i = 0; i < view_count(&rp->ready[n]); i++) {
        const struct zt_view *view = &rp->ready[n].views[i];
        struct zt_hash_tensor tensor = { .node = "", .op = "", .name = "", .type = "" };
        char shape[ZT_SHAPE_TEXT];
        if (hashed(rp, n, i)) {
            const char *layout = view->layout ? view->layout->name : "";
            int value = i < node->in_count ? node->in[i] : node->out[i - node->in_count];
            tensor = (struct zt_hash_tensor){ node->name, node->op_type, g->values[value]->name, NULL, backward };
            tensor.type = zt_arena_printf(h->arena, "%s%s%s%s", zt_dtype_name(view->dtype),
                                          zt_shape_text(&view->shape, shape), *layout ? " " : "", layout);
        }
        zt_vec_push(list, tensor);
    }
}

static void list_commands(struct zt_rank_hashes *h, const struct zt_run_program *rp, int *first, bool backward,
                          tensors *list) {
    const struct zt_program *p = rp->program;
    const struct zt_command *at = backward ? p->backward : p->forward;
    for (int i = 0; i < (backward ? p->backward_count : p->forward_count); i++) {
        if (at[i].kind != ZT_RUN_NODE || first[at[i].node] >= 0)
            continue;
        first[at[i].node] = list->count;
        list_node(h, rp, at[i].node, backward, list);
    }
}

static void list_program(struct zt_rank_hashes *h, const struct zt_run_program *rp, int **first, tensors *list) {
    const struct zt_program *p = rp->program;
    *first = ZT_NEW_N(h->arena, int, p->training_graph.graph->node_count + 1);
    for (int n = 0; n <= p->training_graph.graph->node_count; n++)
        (*first)[n] = -1;
    list_commands(h, rp, *first, false, list);
    list_commands(h, rp, *first, true, list);
}

static size_t largest(const struct zt_rank *r) {
    size_t most = 1;
    for (int p = 0; p < r->program_count; p++)
        for (int n = 0; n < r->programs[p].program->training_graph.graph->node_count; n++)
            for (int i = 0; i < view_count(&r->programs[p].ready[n]); i++)
                if (hashed(&r->programs[p], n, i) && zt_view_bytes(&r->programs[p].ready[n].views[i]) > most)
                    most = zt_view_bytes(&r->programs[p].ready[n].views[i]);
    return most;
}

bool zt_rank_hashes_create(struct zt_rank *r, const char *folder, struct zt_err *err) {
    const struct zt_grid *grid = &r->plan->grid;
    struct zt_arena *arena = zt_arena_create();
    struct zt_rank_hashes *h = ZT_NEW(arena, struct zt_rank_hashes);
    struct zt_hash_place place = { .rank = (uint32_t)grid->rank,
                                   .ranks = (uint32_t)grid->world,
                                   .data_rank = (uint32_t)grid->data_rank,
                                   .data_ranks = (uint32_t)grid->data,
                                   .stage = (uint32_t)grid->stage,
                                   .stages = (uint32_t)grid->stages,
                                   .rows = (uint32_t)r->plan->steps.full.rows };
    tensors list = { 0 };
    *h = (struct zt_rank_hashes){ .arena = arena };
    r->hashes = h;
    h->first = ZT_NEW_N(arena, int *, r->program_count + 1);
    for (int p = 0; p < r->program_count; p++)
        if (r->programs[p].program->training_graph.training)
            list_program(h, &r->programs[p], &h->first[p], &list);
    h->copy = r->device_memory ? zt_malloc(largest(r)) : NULL;
    h->to = zt_hash_writer_create(folder, &place, list.at, list.count, err);
    zt_vec_finish(&list);
    return h->to != NULL;
}

void zt_rank_hashes_destroy(struct zt_rank *r) {
    struct zt_rank_hashes *h = r->hashes;
    if (!h)
        return;
    zt_hash_writer_finish(h->to);
    free(h->copy);
    zt_arena_destroy(h->arena);
    r->hashes = NULL;
}

bool zt_rank_hashes_node(struct zt_rank *r, const struct zt_run_program *rp, int n, struct zt_err *err) {
    struct zt_rank_hashes *h = r->hashes;
    const struct zt_ready *ready = &rp->ready[n];
    int first = h->first[rp - r->programs][n];
    for (int i = 0; first >= 0 && i < view_count(ready); i++) {
        const struct zt_view *view = &ready->views[i];
        const void *data = view->data;
        if (!data || !hashed(rp, n, i))
            continue;
        if (h->copy && !zt_rank_fetch(r, h->copy, data, zt_view_bytes(view), err))
            return false;
        struct zt_hash_record record = { .step = h->step,
                                         .micro_batch = (uint32_t)r->random.micro_batch,
                                         .tensor = (uint32_t)(first + i) };
        record.hash = h->copy ? zt_hash(ZT_HASH_START, h->copy, zt_layout_stored(view, h->copy))
                              : zt_hash(ZT_HASH_START, data, zt_view_bytes(view));
        zt_hash_writer_add(h->to, &record);
    }
    return true;
}

bool zt_rank_hashes_step(struct zt_rank *r, int64_t step, bool begins, struct zt_err *err) {
    if (!r->hashes)
        return true;
    r->hashing = begins && step < r->plan->job->config->hashes;
    r->hashes->step = (uint32_t)(step + 1);
    return begins || zt_hash_writer_step(r->hashes->to, err);
}
