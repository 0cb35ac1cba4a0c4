/* Export of the trained model, and its hash. */
#include "checkpoint/export.h"

#include "base/file.h"
#include "base/map.h"
#include "checkpoint/adapters.h"
#include "checkpoint/pairs.h"
#include "plan/job/override.h"

#include <stdlib.h>
#include <string.h>

/* Whether a value of the file's graph is the constant true: an initializer, or the output of a Constant node. */
static bool is_true(const struct zt_graph *g, const struct zt_value *v) {
    const struct zt_node *n = v->producer >= 0 ? g->nodes[v->producer] : NULL;
    const struct zt_attr *held = n && n->in_count == 0 && n->attr_count == 1 ? &n->attr[0] : NULL;
    if (held && held->type == ZT_ATTR_TENSOR && held->tensor.data)
        return zt_load_int(held->tensor.dtype, held->tensor.data, 0);
    return v->data && zt_load_int(v->dtype, v->data, 0);
}

/* Returns the input of `n` that selects its training form with a constant true; 0: none. */
static int training_input(const struct zt_graph *g, const struct zt_node *n, const struct zt_op *op) {
    for (int i = 1; i < n->in_count; i++)
        if (op->training_in >> i & 1 && n->in[i] >= 0 && is_true(g, g->values[n->in[i]]))
            return i;
    return 0;
}

/* Lists the nodes that were exported in training mode and become inference nodes: their row has a training form, and an
 * attribute or input selects it. */
static int list_training_nodes(const struct zt_graph *g, struct zt_onnx_inference *to) {
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const struct zt_op *op = zt_op_of(&zt_ops, node);
        const struct zt_attr *mode = zt_node_attr(node, "training_mode");
        const int input = op && op->train ? training_input(g, node, op) : 0;
        if (input || (op && op->train && mode && mode->i))
            to[count++] = (struct zt_onnx_inference){ node->file_index, input };
    }
    return count;
}

/* Returns the contents of an initializer in its stored type; half types are rounded to nearest even. */
static const void *as_stored(struct zt_graph *g, const struct zt_value *v, const float *from) {
    int64_t count = zt_shape_count(&v->shape);
    if (v->dtype == ZT_FLOAT)
        return from;
    void *to = zt_arena_alloc(g->arena, (size_t)count * zt_dtype_bytes(v->dtype));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(v->dtype, to, i, (double)from[i]);
    return to;
}

/* Returns the contents of an initializer that is tied to one with contents `from` in the same stored type. */
static const void *as_tied(struct zt_graph *g, const struct zt_value *v, const struct zt_tie *tie, const char *from) {
    const int rank = v->shape.rank;
    const size_t bytes = zt_dtype_bytes(v->dtype);
    int64_t step[ZT_TIE_RANK], at[ZT_TIE_RANK] = { 0 };
    if (!tie->transposed)
        return from;
    for (int k = 0; k < rank; k++) { /* stride of the axis of `tie->to` that axis k corresponds to */
        step[k] = 1;
        for (int other = 0; other < rank; other++)
            step[k] *= tie->perm[other] > tie->perm[k] ? v->shape.dim[other] : 1;
    }
    const int64_t count = zt_shape_count(&v->shape);
    char *to = zt_arena_alloc(g->arena, (size_t)count * bytes);
    for (int64_t i = 0; i < count; i++) {
        int64_t source = 0;
        for (int k = 0; k < rank; k++)
            source += at[k] * step[k];
        memcpy(to + (size_t)i * bytes, from + (size_t)source * bytes, bytes);
        for (int k = rank - 1; k >= 0 && ++at[k] == v->shape.dim[k]; k--)
            at[k] = 0;
    }
    return to;
}

/* Adds initializers computed from parameters (graph/passes/trainable/derived.h), in their stored type. They do not
 * change if the parameter was not trained. */
static void add_derived(const struct zt_job *job, struct zt_graph *g, const struct zt_map *trained,
                        const struct zt_onnx_payload *payloads, struct zt_onnx_payload *all, int *count) {
    for (int i = 0; i < job->derived_count; i++) {
        const struct zt_derived *d = &job->derived[i];
        const struct zt_value *v = g->values[zt_graph_find(g, d->name)];
        const int at = zt_map_get(trained, d->parameter, -1);
        if (at < 0)
            continue;
        float *computed = ZT_NEW_N(g->arena, float, zt_shape_count(&v->shape));
        zt_derived_compute(d, v, ZT_FLOAT, payloads[at].data, computed);
        all[(*count)++] = (struct zt_onnx_payload){ v->name, as_stored(g, v, computed) };
    }
}

/* Returns the trained tensors, then initializers that are computed from them or tied to them. A parameter that was not
 * trained keeps its initial values, and so do those tied to it. */
static struct zt_onnx_payload *all_payloads(const struct zt_job *job, struct zt_graph *g,
                                            const struct zt_onnx_payload *trained, int *count) {
    const int room = *count + job->derived_count + job->tie_count + 1, trained_count = *count;
    struct zt_onnx_payload *all = ZT_NEW_N(g->arena, struct zt_onnx_payload, room);
    struct zt_map by_name = { 0 }, at_of = { 0 };
    *count = 0;
    for (int i = 0; i < trained_count; i++) {
        const int id = zt_graph_find(g, trained[i].name);
        zt_map_put(&at_of, trained[i].name, i);
        if (id < 0) /* a restored parameter: the file has only tensors computed from it */
            continue;
        const struct zt_value *v = g->values[id];
        zt_map_put(&by_name, v->name, *count);
        all[(*count)++] = (struct zt_onnx_payload){ v->name, as_stored(g, v, trained[i].data) };
    }
    add_derived(job, g, &at_of, trained, all, count);
    for (int i = 0; i < job->tie_count; i++) {
        const struct zt_tie *tie = &job->ties[i];
        const struct zt_value *v = g->values[zt_graph_find(g, tie->name)];
        int at = zt_map_get(&by_name, tie->to, -1);
        const void *from = at >= 0 ? all[at].data : g->values[zt_graph_find(g, tie->to)]->data;
        all[(*count)++] = (struct zt_onnx_payload){ v->name, as_tied(g, v, tie, from) };
    }
    zt_map_finish(&by_name);
    zt_map_finish(&at_of);
    return all;
}

/* A hash of all trained tensors. */
static uint64_t hash_of(const struct zt_collected *weights) {
    uint64_t hash = ZT_HASH_START;
    for (int i = 0; i < weights->count; i++) {
        const struct zt_onnx_payload *p = &weights->payloads[i];
        hash = zt_hash(hash, p->name, strlen(p->name) + 1);
        hash = zt_hash(hash, p->data, (size_t)weights->elements[i] * sizeof(float));
    }
    return hash;
}

static bool has(const struct zt_collected *weights, const char *name) {
    for (int i = 0; i < weights->count; i++)
        if (strcmp(weights->payloads[i].name, name) == 0)
            return true;
    return false;
}

/* `weights` and the frozen contents of --load. */
static struct zt_collected with_loaded(const struct zt_job *job, struct zt_arena *arena,
                                       const struct zt_collected *weights) {
    const int room = weights->count + job->override_count + 1;
    struct zt_collected all = { .payloads = ZT_NEW_N(arena, struct zt_onnx_payload, room),
                                .elements = ZT_NEW_N(arena, int64_t, room),
                                .count = weights->count };
    if (weights->count) {
        memcpy(all.payloads, weights->payloads, (size_t)weights->count * sizeof *all.payloads);
        memcpy(all.elements, weights->elements, (size_t)weights->count * sizeof *all.elements);
    }
    for (int i = 0; i < job->override_count; i++) {
        const struct zt_override *o = &job->overrides[i];
        if (!o->frozen || has(weights, o->name))
            continue;
        all.elements[all.count] = o->elements;
        all.payloads[all.count++] = (struct zt_onnx_payload){ o->name, o->as_float };
    }
    return all;
}

static bool exports_halves(const struct zt_config *c) {
    return c->zero.half_export && (c->bf16 || c->fp16.enabled);
}

static bool is_statistic(const struct zt_job *job, const char *name) {
    int i = 0;
    while (i < job->statistic_count && strcmp(job->statistics[i], name) != 0)
        i++;
    return i < job->statistic_count;
}

/* Rounds the fp32 weights to the type of the run. Running statistics, constants of nodes and initializers that are
 * outputs of the graph keep their type. */
static void narrow_payloads(const struct zt_session *s, struct zt_graph *g, struct zt_onnx_changes *changes) {
    const enum zt_dtype half = s->config->bf16 ? ZT_BFLOAT16 : ZT_FLOAT16;
    struct zt_onnx_payload *payloads =
        zt_arena_copy(g->arena, changes->payloads, ((size_t)changes->payload_count + 1) * sizeof *payloads);
    for (int i = 0; i < changes->payload_count; i++) {
        const int id = zt_graph_find(g, payloads[i].name);
        const struct zt_value *v = g->values[id];
        if (v->dtype != ZT_FLOAT || v->origin != ZT_FROM_INITIALIZER || zt_graph_is_output(g, id) ||
            is_statistic(s->job, v->name) || zt_onnx_adds(s->model, v->name))
            continue;
        const int64_t count = zt_shape_count(&v->shape);
        uint16_t *to = zt_arena_alloc(g->arena, (size_t)count * sizeof *to);
        for (int64_t k = 0; k < count; k++)
            zt_store_double(half, to, k, (double)((const float *)payloads[i].data)[k]);
        payloads[i].data = to;
        payloads[i].half = half;
    }
    changes->payloads = payloads;
}

static bool write_trained(const struct zt_session *s, const char *folder, const struct zt_collected *weights,
                          struct zt_err *err) {
    struct zt_graph *g = zt_graph_clone(s->model->graph);
    struct zt_onnx_inference *nodes = zt_malloc(((size_t)g->node_count + 1) * sizeof *nodes);
    struct zt_onnx_changes changes = { .inference_nodes = nodes };
    changes.inference_node_count = s->config->export_train ? 0 : list_training_nodes(g, nodes);
    zt_pass_split_aliases(g, &zt_ops, s->model);
    const char **aliases = NULL;
    changes.alias_count = zt_trainable_aliases(s->model, g, &aliases);
    changes.aliases = aliases;
    const struct zt_collected all = with_loaded(s->job, g->arena, weights), merged = zt_adapters_merge(s->job, g, &all);
    changes.payload_count = merged.count;
    changes.payloads = all_payloads(s->job, g, merged.payloads, &changes.payload_count);
    zt_pairs_add(s, g, weights, &changes);
    char *path = zt_path_join(folder, "model.onnx"), *half_path = zt_path_join(folder, "model.16bit.onnx");
    bool ok = zt_onnx_write(s->model, path, &changes, err);
    if (ok && exports_halves(s->config)) {
        narrow_payloads(s, g, &changes);
        ok = zt_onnx_write(s->model, half_path, &changes, err);
    }
    free(half_path);
    free(path);
    free(nodes);
    zt_graph_destroy(g);
    return ok;
}

/* The model of the adapters: the file, with the weights of --load where there are any. */
static bool write_base(const struct zt_session *s, const char *path, struct zt_err *err) {
    struct zt_graph *g = zt_graph_clone(s->model->graph);
    const struct zt_collected none = { 0 }, loaded = with_loaded(s->job, g->arena, &none);
    struct zt_onnx_changes changes = { .payload_count = loaded.count };
    if (loaded.count)
        changes.payloads = all_payloads(s->job, g, loaded.payloads, &changes.payload_count);
    const bool ok = zt_onnx_write(s->model, path, &changes, err);
    zt_graph_destroy(g);
    return ok;
}

bool zt_export_model(const struct zt_session *s, const char *folder, const struct zt_collected *weights, uint64_t *hash,
                     struct zt_err *err) {
    const bool apart = s->config->lora.apart && s->job->adapter_count;
    *hash = hash_of(weights);
    if (!apart)
        return write_trained(s, folder, weights, err);
    char *path = zt_path_join(folder, "model.onnx");
    const bool ok = zt_adapters_write(s, folder, weights, err) && write_base(s, path, err);
    free(path);
    return ok;
}
