/* Memory of a rank by lifetime. */
#include "plan/rank_bytes.h"

#include "base/align.h"
#include "base/map.h"
#include "optim/one_bit/trust.h"
#include "optim/types/types.h"
#include "plan/matrices.h"

int64_t zt_rank_bytes_total(const struct zt_rank_bytes *b) {
    return b->parameters + b->gradients + b->optimizer + b->activations + b->workspace;
}

static void widen(int64_t *to, int64_t value) {
    if (value > *to)
        *to = value;
}

static int64_t gradient_bytes(const struct zt_rank_plan *p, int data_rank) {
    return zt_collectives_held_gradients(p->tensors.flat, p->sharding, data_rank) * (int64_t)sizeof(float);
}

/* Units of 4 bytes of the frozen weights that a rank holds of those shared out. */
static int64_t frozen_held(const struct zt_rank_plan *p, int data_rank) {
    return p->tensors.frozen ? p->tensors.frozen->flat->owned[data_rank] : 0;
}

int64_t zt_rank_plan_stepped(const struct zt_rank_plan *p, int data_rank) {
    return zt_collectives_updated(p->tensors.flat, p->sharding, data_rank);
}

/* Divides the optimizer states among the device's memory, host memory and files. Buffers of files are in the memory of
 * a CPU, beside a GPU in host memory, where also the master weights of states are. */
static void divide_states(const struct zt_rank_plan *p, int data_rank, struct zt_rank_bytes *b) {
    const struct zt_offload *o = &p->offload;
    const int64_t elems = zt_rank_plan_stepped(p, data_rank), one = (int64_t)sizeof(float),
                  away = zt_offload_away(o, elems), buffers = zt_offload_buffer_bytes(o, elems);
    const bool masters = o->parameters == ZT_HOME_DEVICE;
    const int64_t mine =
        zt_offload_resident(o, zt_rank_plan_stepped(p, p->grid.data_rank)) * one * p->memory.optimizer_states;
    b->optimizer = zt_offload_resident(o, elems) * one * p->memory.optimizer_states;
    b->optimizer += p->memory.optimizer_bytes - mine; /* what 1-bit optimizers have behind the states */
    if (o->beside_gpu)
        b->host += buffers + p->memory.matrix_bytes;
    else
        b->optimizer += buffers;
    if (o->optimizer == ZT_HOME_HOST)
        b->host += away * one * (p->memory.optimizer_states + masters);
    else
        b->nvme += away * one * p->memory.optimizer_states;
}

static int64_t largest_slice(const struct zt_flat *flat, int data_rank) {
    int64_t largest = 0;
    for (int i = 0; i < flat->bucket_count; i++)
        widen(&largest, zt_slice_first(flat, i, data_rank + 1) - zt_slice_first(flat, i, data_rank));
    return largest;
}

/* The same for parameters, with buffers of slices that are read. */
static void divide_parameters(const struct zt_rank_plan *p, int data_rank, struct zt_rank_bytes *b) {
    const struct zt_offload *o = &p->offload;
    const int64_t elems = p->tensors.flat->owned[data_rank], kept = zt_offload_kept(o, elems),
                  one = (int64_t)sizeof(float);
    int64_t memory = kept * one;
    if (o->parameters == ZT_HOME_DEVICE)
        return;
    if (kept < elems)
        memory += o->shelves * zt_offload_shelf_elems(largest_slice(p->tensors.flat, data_rank)) * one;
    b->parameters += (o->beside_gpu ? 0 : memory) - elems * one;
    b->host += o->beside_gpu ? memory : 0;
    b->nvme += (elems - kept) * one;
}

struct zt_rank_bytes zt_rank_plan_bytes(const struct zt_rank_plan *p, int data_rank) {
    struct zt_rank_bytes bytes = {
        .parameters =
            (zt_collectives_held_params(p->tensors.flat, p->sharding, data_rank) + frozen_held(p, data_rank)) *
                (int64_t)sizeof(float) +
            p->tensors.statistic_bytes + p->memory.derived_bytes + p->memory.frozen_bytes,
        .gradients = p->trains ? gradient_bytes(p, data_rank) : 0,
        .activations = p->memory.activation_bytes - (data_rank == 0 ? 0 : p->memory.loss_activation_bytes),
        .workspace = p->memory.workspace_bytes,
    };
    if (p->trains) {
        divide_states(p, data_rank, &bytes);
        divide_parameters(p, data_rank, &bytes);
    }
    return bytes;
}

int zt_rank_plan_largest(const struct zt_rank_plan *p) {
    int largest = 0;
    for (int r = 1; r < p->tensors.flat->ranks; r++)
        if (p->tensors.flat->owned[r] + frozen_held(p, r) > p->tensors.flat->owned[largest] + frozen_held(p, largest))
            largest = r;
    return largest;
}

/* Adds the frozen weights that a program reads whole, and that no program before it reads. */
static int64_t count_frozen(const struct zt_program *p, struct zt_arena *names, struct zt_map *seen) {
    const struct zt_graph *g = p->training_graph.graph;
    int64_t bytes = 0;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            const struct zt_value *v = zt_in(g, n, i);
            if (!v || !zt_value_is_frozen(v) || p->place[ZT_FORWARD][v->id].in == ZT_ACTIVATIONS)
                continue;
            const char *key = v->data ? zt_arena_printf(names, "%p", v->data) : v->name;
            if (!zt_map_get(seen, key, 0))
                bytes += zt_align_64(zt_value_bytes(v));
            zt_map_put(seen, key, 1);
        }
    return bytes;
}

static int64_t frozen_bytes(const struct zt_rank_plan *p) {
    const struct zt_program_set *sets[] = { &p->programs.train, &p->programs.evaluation };
    struct zt_arena *names = zt_arena_create();
    struct zt_map seen = { 0 };
    int64_t bytes = 0;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < sets[s]->count; i++)
            bytes += count_frozen(sets[s]->at[i], names, &seen);
    zt_map_finish(&seen);
    zt_arena_destroy(names);
    return bytes;
}

/* The next `bytes` of the optimizer block. */
static int64_t add(struct zt_rank_plan *p, int64_t bytes) {
    const int64_t at = zt_align_64(p->memory.optimizer_bytes);
    p->memory.optimizer_bytes = at + bytes;
    return at;
}

static void add_one_bit(struct zt_rank_plan *p, const struct zt_one_bit *one_bit) {
    const struct zt_flat *f = p->tensors.flat;
    if (one_bit->norms)
        p->memory.trust_at = add(p, f->tensor_count * (int64_t)sizeof(struct zt_trust));
    if (p->grid.data == 1)
        return;
    int64_t *bound = ZT_NEW_N(p->arena, int64_t, f->tensor_count + 1);
    for (int t = 0; t < f->tensor_count; t++)
        bound[t + 1] = one_bit->fused ? f->count : f->tensors[t].offset + f->tensors[t].count;
    p->memory.compressed = zt_compressed_make(p->arena, bound, f->tensor_count, p->grid.data);
    for (int side = 0; side < ZT_COMPRESSED_SIDES; side++)
        p->memory.error_at[side] = add(p, p->memory.compressed->errors[side] * (int64_t)sizeof(float));
    p->memory.compressed_at = add(p, zt_compressed_bytes(p->memory.compressed));
}

enum zt_dtype zt_rank_plan_wire(const struct zt_rank_plan *p) {
    static const enum zt_dtype types[] = {
        [ZT_GRADIENTS_FP32] = ZT_FLOAT, [ZT_GRADIENTS_FP16] = ZT_FLOAT16, [ZT_GRADIENTS_BF16] = ZT_BFLOAT16
    };
    return p->grid.data > 1 ? types[p->job->config->communication_type] : ZT_FLOAT;
}

void zt_rank_plan_count(struct zt_rank_plan *p, const struct zt_config *c) {
    const struct zt_optimizer *optimizer = zt_optimizer_find(c->optimizer.type);
    int me = p->grid.data_rank;
    p->memory.optimizer_states = optimizer->states_used ? optimizer->states_used(&c->optimizer) : optimizer->states;
    p->memory.averages = p->trains && c->ema > 0;
    p->memory.optimizer_states += p->memory.averages;
    p->memory.shard_elems = p->offload.parameters == ZT_HOME_DEVICE
                                ? zt_collectives_held_params(p->tensors.flat, p->sharding, me)
                                : zt_offload_kept(&p->offload, p->tensors.flat->owned[me]);
    const bool beside = p->offload.beside_gpu && p->offload.parameters != ZT_HOME_DEVICE;
    p->memory.frozen_shard_bytes = zt_align_64(frozen_held(p, me) * (int64_t)sizeof(float));
    p->memory.parameter_bytes =
        p->tensors.statistic_bytes + (beside ? 0 : p->memory.shard_elems * (int64_t)sizeof(float));
    if (p->memory.frozen_shard_bytes) /* they begin at a multiple of 64 */
        p->memory.parameter_bytes = zt_align_64(p->memory.parameter_bytes - p->tensors.statistic_bytes) +
                                    p->memory.frozen_shard_bytes + p->tensors.statistic_bytes;
    p->memory.frozen_bytes = frozen_bytes(p);
    if (p->trains) {
        zt_offload_fit(&p->offload, c, p->arena, p->tensors.flat->bucket_count, largest_slice(p->tensors.flat, me));
        p->memory.gradient_bytes = gradient_bytes(p, me);
        p->memory.optimizer_bytes = zt_offload_resident(&p->offload, zt_rank_plan_stepped(p, me)) *
                                    (int64_t)sizeof(float) * p->memory.optimizer_states;
        if (optimizer->one_bit)
            add_one_bit(p, optimizer->one_bit);
        for (int b = 0; b < p->tensors.flat->bucket_count && zt_dtype_is_half(zt_rank_plan_wire(p)); b++)
            widen(&p->memory.workspace_bytes,
                  (p->tensors.flat->bucket[b + 1] - p->tensors.flat->bucket[b]) * (int64_t)sizeof(uint16_t));
        for (int i = 0; i < p->tensors.tie_count; i++)
            widen(&p->memory.workspace_bytes,
                  p->tensors.ties[i].home ? p->tensors.ties[i].count * (int64_t)sizeof(float) : 0);
        for (int t = 0; t < p->tensors.flat->tensor_count; t++)
            if (p->tensors.matrices[t].rows)
                widen(zt_plan_matrices_on_host(p) ? &p->memory.matrix_bytes : &p->memory.workspace_bytes,
                      zt_plan_matrix_workspace(p, &p->tensors.matrices[t]).bytes);
    }
    const struct zt_program_set *sets[2] = { &p->programs.train, &p->programs.evaluation };
    int in_flight = p->replicas ? 1 : p->steps.slots;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < sets[s]->count; i++) {
            widen(&p->memory.derived_bytes, sets[s]->at[i]->derived_bytes);
            widen(&p->memory.activation_bytes, sets[s]->at[i]->activation_bytes * (s == 0 ? in_flight : 1));
            widen(&p->memory.workspace_bytes, sets[s]->at[i]->workspace_bytes);
        }
    }
    const struct zt_program_set *loss[2] = { &p->programs.loss_train, &p->programs.loss_evaluation };
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < loss[s]->count; i++) {
            widen(&p->memory.loss_activation_bytes, loss[s]->at[i]->activation_bytes);
            widen(&p->memory.workspace_bytes, loss[s]->at[i]->workspace_bytes);
        }
    }
    p->memory.activation_bytes = zt_align_64(p->memory.activation_bytes) + p->memory.loss_activation_bytes;
    const struct zt_graph *g = p->programs.train.count ? p->programs.train.at[0]->training_graph.graph : NULL;
    for (int n = 0; g && n < g->node_count; n++)
        p->flops += zt_op_flops(g, n);
}
