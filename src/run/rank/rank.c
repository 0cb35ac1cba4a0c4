#include "run/rank/rank.h"

#include "base/align.h"
#include "base/mapped.h"
#include "base/text.h"
#include "device/threads.h"
#include "optim/types/types.h"
#include "plan/rank_bytes.h"
#include "run/rank/blocks.h"
#include "run/rank/captured.h"
#include "run/rank/derive.h"
#include "run/rank/device_memory.h"
#include "run/rank/device_step.h"
#include "run/rank/before_update.h"
#include "run/rank/node_hashes.h"
#include "run/rank/offload.h"
#include "run/rank/passes.h"
#include "run/rank/shards.h"
#include "run/rank/stored_data.h"
#include "run/rank/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

enum { LAYER_SEED = 1234 }; /* DeepSpeed's PipelineModule.base_seed */

static void make_ready(struct zt_rank *r, struct zt_run_program *rp, int n) {
    const struct zt_program *p = rp->program;
    struct zt_graph *g = p->training_graph.graph;
    const struct zt_node *node = g->nodes[n];
    struct zt_ready *ready = &rp->ready[n];
    int total = node->in_count + node->out_count;
    ready->views = ZT_NEW_N(r->arena, struct zt_view, total + 1);
    ready->place = ZT_NEW_N(r->arena, const struct zt_place *, total + 1);
    ready->constant = ZT_NEW_N(r->arena, const void *, total + 1);
    for (int i = 0; i < total; i++) {
        int v = i < node->in_count ? node->in[i] : node->out[i - node->in_count];
        if (v < 0)
            continue;
        const struct zt_value *value = g->values[v];
        ready->views[i] = (struct zt_view){ value->dtype, value->shape, NULL, value->layout };
        ready->place[i] = &p->place[node->phase][v];
        ready->constant[i] = value->data;
    }
    ready->run = node->op->kernel[node->backend].run;
    ready->name = node->name;
    ready->call = (struct zt_call){ .graph = g,
                                    .node = node,
                                    .in = ready->views,
                                    .out = ready->views + node->in_count,
                                    .in_count = node->in_count,
                                    .out_count = node->out_count,
                                    .state = p->prepared[n].state,
                                    .workspace = r->workspace,
                                    .threads = r->device->threads,
                                    .random = &r->random,
                                    .group = &r->group,
                                    .device = r->device,
                                    .path = &ready->path };
    ready->path = p->prepared[n].path;
}

static void make_programs(struct zt_rank *r) {
    const struct zt_rank_plan *p = r->plan;
    const struct zt_program_set *sets[4] = { &p->programs.train, &p->programs.evaluation, &p->programs.loss_train,
                                             &p->programs.loss_evaluation };
    int count = sets[0]->count + sets[1]->count + sets[2]->count + sets[3]->count;
    r->programs = ZT_NEW_N(r->arena, struct zt_run_program, count + 1);
    for (int s = 0; s < 4; s++) {
        for (int i = 0; i < sets[s]->count; i++) {
            struct zt_run_program *rp = &r->programs[r->program_count++];
            rp->program = sets[s]->at[i];
            rp->chunk = s / 2;
            rp->ready = ZT_NEW_N(r->arena, struct zt_ready, rp->program->training_graph.graph->node_count + 1);
            for (int n = 0; n < rp->program->training_graph.graph->node_count; n++)
                make_ready(r, rp, n);
            zt_rank_derive_create(rp);
        }
    }
}

static void tell(const struct zt_rank_progress *progress, enum zt_rank_point point) {
    if (progress)
        progress->at(progress->with, point);
}

static bool allocate(struct zt_rank *r, const struct zt_rank_progress *progress, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    int64_t start = zt_align_64(p->memory.parameter_bytes);
    size_t activations = (size_t)(p->memory.activation_bytes + r->feed_bytes * p->steps.slots);
    r->parameters = zt_device_allocate(r->device, (size_t)(start + p->memory.derived_bytes), "parameters", err);
    if (!r->parameters)
        return false;
    tell(progress, ZT_RANK_HAS_PARAMETERS);
    r->gradients = zt_device_allocate(r->device, (size_t)p->memory.gradient_bytes, "gradients", err);
    r->activations = r->gradients ? zt_device_allocate(r->device, activations, "activations", err) : NULL;
    r->workspace =
        r->activations ? zt_device_allocate(r->device, (size_t)p->memory.workspace_bytes, "workspace", err) : NULL;
    if (!r->workspace)
        return false;
    r->derived = r->parameters + start;
    r->shard = (float *)r->parameters;
    r->matrix_space = r->workspace;
    return true;
}

/* Shares the blocks in which collectives run in place. */
static bool share(struct zt_rank *r, struct zt_err *err) {
    const struct zt_comm_api *api = r->data->api;
    const struct zt_sharding *s = r->plan->sharding;
    bool here = !r->device->module && r->plan->programs.train.count > 0;
    bool gathers = here && zt_sharding_gathers_after_step(s), reduces = here && zt_sharding_reduces_in_place(s);
    return (!gathers || api->share(r->data, r->parameters, (size_t)r->plan->memory.parameter_bytes, err)) &&
           (!reduces || api->share(r->data, r->gradients, (size_t)r->plan->memory.gradient_bytes, err));
}

static int64_t largest_rows(const struct zt_rank_plan *p) {
    const struct zt_program_set *sets[4] = { &p->programs.train, &p->programs.evaluation, &p->programs.loss_train,
                                             &p->programs.loss_evaluation };
    int64_t rows = 0;
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < sets[s]->count; i++)
            if (sets[s]->at[i]->training_graph.rows > rows)
                rows = sets[s]->at[i]->training_graph.rows;
    return rows;
}

static void make_slots(struct zt_rank *r) {
    const struct zt_rank_plan *p = r->plan;
    int64_t model = p->memory.activation_bytes - p->memory.loss_activation_bytes;
    int in_flight = p->steps.slots - (p->programs.loss_train.count + p->programs.loss_evaluation.count > 0);
    int64_t each = model / in_flight / 64 * 64;
    r->slots = ZT_NEW_N(r->arena, struct zt_slot, p->steps.slots);
    for (int i = 0; i < p->steps.slots; i++) {
        struct zt_slot *s = &r->slots[i];
        s->activations = r->activations + (i < in_flight ? each * i : model);
        s->feed = r->feed_bytes ? r->activations + p->memory.activation_bytes + r->feed_bytes * i : NULL;
        s->row_weight = ZT_NEW_N(r->arena, float, r->feed_rows + 1);
        s->fed[p->job->want_count] = &s->seed;
        s->fed[p->job->want_count + 1] = s->row_weight;
        if (r->device->module)
            zt_rank_device_slot(r, s);
    }
}

static int64_t sample_bytes(const struct zt_source *source, int column) {
    return source && column < source->column_count ? (int64_t)source->column[column].sample_bytes : 0;
}

/* Bytes of a slot's copy of the input columns. With several micro-batches in flight, or with device memory, the
 * loader's buffer is reused before the backward phase reads it, so each slot keeps a copy. */
static int64_t feed_bytes(const struct zt_rank_plan *p, const struct zt_device *device) {
    bool copies = p->steps.keeps_input || device->module;
    int64_t bytes = 0;
    for (int i = 0; copies && i < ZT_COLUMNS; i++) {
        int64_t train = sample_bytes(p->source, i), evaluation = sample_bytes(p->eval_source, i);
        bytes += zt_align_64((train > evaluation ? train : evaluation) * largest_rows(p));
    }
    return device->module ? zt_rank_device_feed_bytes(bytes, largest_rows(p)) : bytes;
}

/* Returns the first tensor that ends after flat index `at`. */
static int tensor_at(const struct zt_flat *flat, int64_t at) {
    int low = 0, high = flat->tensor_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (flat->tensors[middle].offset + flat->tensors[middle].count > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The place of state element `at` of the rank in the optimizer block, which holds the last ones if some are offloaded.
 * Pieces that are offloaded get other pointers (offload.h). */
static int64_t resident_at(const struct zt_rank *r, int64_t at) {
    int64_t elems = zt_rank_plan_stepped(r->plan, r->plan->grid.data_rank),
            first = elems - zt_offload_resident(&r->plan->offload, elems);
    return at < first ? 0 : at - first;
}

static void add_pieces(struct zt_rank *r, int range) {
    const struct zt_flat *flat = r->plan->tensors.flat;
    const struct zt_range *o = &r->owned[range];
    const int64_t states = /* elements of an array in the rank's block */
        zt_offload_resident(&r->plan->offload, zt_rank_plan_stepped(r->plan, r->plan->grid.data_rank));
    for (int t = tensor_at(flat, o->first); t < flat->tensor_count && flat->tensors[t].offset < o->last; t++) {
        int64_t first = flat->tensors[t].offset, last = first + flat->tensors[t].count;
        first = first > o->first ? first : o->first;
        last = last < o->last ? last : o->last;
        while (first < last) {
            int64_t cut = (first / ZT_PIECE + 1) * ZT_PIECE, end = cut < last ? cut : last;
            struct zt_piece *piece = &r->pieces[r->piece_count++];
            *piece = (struct zt_piece){ .tensor = t, .range = range, .first = first, .count = end - first };
            piece->param = r->shard + o->param_at + (first - o->first);
            piece->grad = (float *)r->gradients + o->grad_at + (first - o->first);
            for (int s = 0; s < r->plan->memory.optimizer_states; s++)
                piece->state[s] = (float *)r->optimizer + s * states + resident_at(r, o->state_at + (first - o->first));
            first = end;
        }
    }
}

static void make_pieces(struct zt_rank *r) {
    const struct zt_flat *flat = r->plan->tensors.flat;
    int most = flat->bucket_count * flat->ranks + 1;
    r->owned = ZT_NEW_N(r->arena, struct zt_range, most);
    r->held = ZT_NEW_N(r->arena, struct zt_range, most);
    r->owned_count = zt_collectives_owned(flat, r->plan->sharding, r->plan->grid.data_rank, r->owned);
    r->held_count = zt_collectives_held(flat, r->plan->sharding, r->plan->grid.data_rank, r->held);
    r->pieces =
        ZT_NEW_N(r->arena, struct zt_piece, flat->count / ZT_PIECE + r->owned_count + flat->tensor_count * 2 + 1);
    for (int i = 0; i < r->owned_count; i++)
        add_pieces(r, i);
    r->after_step = ZT_NEW_N(r->arena, struct zt_command, 2 * flat->bucket_count + 1);
    r->after_step_count = zt_collectives_after_step(flat, r->plan->sharding, r->after_step);
    const struct zt_flats flats = zt_rank_flats(&r->plan->tensors);
    r->bound = ZT_NEW_N(r->arena, int64_t, (zt_flats_buckets(&flats) + 1) * (flat->ranks + 1));
    for (int number = 0, b; number < zt_flats_buckets(&flats); number++) {
        const struct zt_flat *of = zt_flats_of(&flats, number, &b);
        for (int k = 0; k <= flat->ranks; k++)
            r->bound[number * (flat->ranks + 1) + k] = zt_slice_first(of, b, k) - of->bucket[b];
    }
}

/* Divides buckets for all_gathers of at most allgather_bucket_size elements (whole blocks; 0: whole buckets). */
static void make_moving(struct zt_rank *r) {
    const struct zt_flat *flat = r->plan->tensors.flat;
    const struct zt_flats flats = zt_rank_flats(&r->plan->tensors);
    int64_t most = r->plan->job->config->zero.allgather_bucket_size, stride = flat->ranks + 1;
    most = (most + ZT_SLICE_BLOCK - 1) / ZT_SLICE_BLOCK * ZT_SLICE_BLOCK;
    r->moving = ZT_NEW_N(r->arena, struct zt_moving, zt_flats_buckets(&flats) + 1);
    for (int b = 0; b < zt_flats_buckets(&flats); b++) {
        struct zt_moving *m = &r->moving[b];
        int64_t elems = zt_flats_elems(&flats, b), part = most ? most : elems;
        m->parts = elems ? (int)((elems + part - 1) / part) : 0; /* tensors without elements may fill a bucket */
        m->at = ZT_NEW_N(r->arena, struct zt_transfer, m->parts + 1);
        m->bound = ZT_NEW_N(r->arena, int64_t, m->parts * stride);
        m->first = ZT_NEW_N(r->arena, int64_t, m->parts);
        for (int i = 0; i < m->parts; i++) {
            m->first[i] = i * part;
            int64_t length = elems - m->first[i] < part ? elems - m->first[i] : part;
            for (int k = 0; k <= flat->ranks; k++) {
                int64_t at = r->bound[b * stride + k] - m->first[i];
                m->bound[i * stride + k] = at < 0 ? 0 : at > length ? length : at;
            }
        }
    }
}

static bool place_piece(void *with, const struct zt_piece *piece, struct zt_err *err) {
    const struct zt_rank *r = with;
    const int64_t first = piece->first - r->plan->tensors.flat->tensors[piece->tensor].offset;
    const char *from = (const char *)r->plan->tensors.param_initial[piece->tensor] + first * (int64_t)sizeof(float);
    const size_t bytes = (size_t)piece->count * sizeof(float);
    (void)err;
    if (piece->on_host || !r->device_memory) {
        memcpy(piece->param, from, bytes);
        zt_mapped_give_back(from, bytes);
    }
    return true;
}

static bool place_held(struct zt_rank *r, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    const struct zt_device_api *api = r->device->api;
    for (int i = 0; i < r->held_count; i++) {
        for (int t = tensor_at(p->tensors.flat, r->held[i].first); t < p->tensors.flat->tensor_count; t++) {
            const struct zt_flat_tensor *tensor = &p->tensors.flat->tensors[t];
            if (tensor->offset >= r->held[i].last)
                break;
            int64_t first = r->held[i].first, last = r->held[i].last;
            if (!zt_flat_cut(tensor, &first, &last))
                continue;
            const char *from =
                (const char *)p->tensors.param_initial[t] + (first - tensor->offset) * (int64_t)sizeof(float);
            const size_t bytes = (size_t)(last - first) * sizeof(float);
            if (!api->to_device(r->device, r->shard + r->held[i].param_at + (first - r->held[i].first), from, bytes,
                                err))
                return false;
            zt_mapped_give_back(from, bytes);
        }
    }
    return true;
}

static bool place_weights(struct zt_rank *r, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    const struct zt_device_api *api = r->device->api;
    const bool held = p->offload.parameters == ZT_HOME_DEVICE;
    if (!zt_rank_place_frozen(r, err) || (held && !place_held(r, err)) ||
        ((r->offload || !held) && !zt_rank_each_piece(r, ZT_WRITES_PARAMS, place_piece, r, err)))
        return false;
    for (int i = 0; i < p->tensors.statistic_total; i++) {
        struct zt_place place = { ZT_STATISTICS, p->tensors.statistic_offset[i] };
        if (!api->to_device(r->device, zt_rank_at(r, NULL, &place, NULL), p->tensors.statistic_initial[i],
                            (size_t)p->tensors.statistic_count[i] * sizeof(float), err))
            return false;
    }
    return true;
}

/* The average starts from the initial weights. */
static bool start_average(void *with, const struct zt_piece *piece, struct zt_err *err) {
    const struct zt_rank *r = with;
    const size_t bytes = (size_t)piece->count * sizeof(float);
    float *average = zt_piece_average(r, piece);
    if (!piece->on_host)
        return r->device->api->copy(r->device, average, piece->param, bytes, err);
    memcpy(average, piece->param, bytes);
    return true;
}

static bool start_averages(struct zt_rank *r, struct zt_err *err) {
    return !r->plan->memory.averages || zt_rank_each_piece(r, ZT_READS_ALL | ZT_WRITES_STATES, start_average, r, err);
}

/* Whether a pattern matches a parameter by its name in the file or in the module it comes from. */
static bool is_matched(const struct zt_graph *model, const char *pattern, const char *name) {
    const int value = zt_graph_find(model, name);
    return value >= 0 ? zt_parameter_fits(model->values[value], &pattern, 1) : zt_glob(pattern, name);
}

/* param_groups: the last group whose pattern matches is used. Where the schedule has lists of rates, a group's `lr`
 * does not apply; where it lowers each group's rate, the factor is relative to that. */
static void make_groups(struct zt_rank *r) {
    const struct zt_config *c = r->plan->job->config;
    const struct zt_flat *flat = r->plan->tensors.flat;
    r->tensor_lr = ZT_NEW_N(r->arena, double, flat->tensor_count + 1);
    r->tensor_decay = ZT_NEW_N(r->arena, double, flat->tensor_count + 1);
    r->tensor_group = ZT_NEW_N(r->arena, int, flat->tensor_count + 1);
    const bool by_group = zt_lr_by_group(c);
    for (int t = 0; t < flat->tensor_count; t++) {
        double lr = c->optimizer.lr;
        if (r->row && r->row->rate)
            lr = r->row->rate(&c->optimizer, r->plan->tensors.matrices[t].rows > 0);
        r->tensor_decay[t] = c->optimizer.weight_decay;
        for (int i = 0; i < c->group_count; i++) {
            if (!is_matched(r->plan->job->model->graph, c->groups[i].match, flat->tensors[t].name))
                continue;
            r->tensor_group[t] = by_group ? i + 1 : 0;
            if (!isnan(c->groups[i].lr))
                lr = c->groups[i].lr;
            if (!isnan(c->groups[i].weight_decay))
                r->tensor_decay[t] = c->groups[i].weight_decay;
        }
        const bool listed = r->tensor_group[t] > 0 && !zt_lr_observes(c);
        const double base = zt_lr_of_group(c, r->tensor_group[t]);
        r->tensor_lr[t] = base > 0 && !listed ? lr / base : 1;
    }
}

static bool sum_over_ranks(void *with, double *values, int count, struct zt_err *err) {
    struct zt_comm *data = ((struct zt_rank *)with)->data;
    return data->api->sum(data, values, count, err);
}

/* Each rank adds its values to places of its own, which are 0 elsewhere. */
static bool max_over_ranks(void *with, double *values, int count, struct zt_err *err) {
    struct zt_rank *r = with;
    const int size = r->data->size;
    double *all = r->group_values;
    memset(all, 0, (size_t)(size * count) * sizeof *all);
    memcpy(all + r->data->rank * count, values, (size_t)count * sizeof *all);
    if (!r->data->api->sum(r->data, all, size * count, err))
        return false;
    for (int i = 0; i < size * count; i++)
        if (all[i] > values[i % count] || isnan(all[i]))
            values[i % count] = all[i];
    return true;
}

/* Opens the state of the optimizer step on a device. */
static bool open_step(struct zt_rank *r, struct zt_err *err) {
    if (!r->device_memory || !r->plan->programs.train.count)
        return true;
    zt_rank_graphs_create(r);
    return zt_rank_stepping_create(r, err);
}

/* Creates the optimizer's states and what divides them. */
static bool create_states(struct zt_rank *r, const struct zt_rank_progress *progress, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->tensors.flat;
    tell(progress, ZT_RANK_LACKS_STATES);
    r->optimizer = zt_device_allocate(r->device, (size_t)r->plan->memory.optimizer_bytes, "optimizer state", err);
    if (!r->optimizer)
        return false;
    make_pieces(r);
    make_moving(r);
    make_groups(r);
    zt_rank_list_matrices(r);
    r->scalars = ZT_NEW_N(r->arena, double, r->world->size + 1 + ZT_REQUESTS);
    r->tensor_norms = ZT_NEW_N(r->arena, double, 2 * flat->tensor_count * flat->ranks + 1);
    r->ratios = ZT_NEW_N(r->arena, double, flat->tensor_count + 1);
    if (!zt_rank_offload_create(r, err))
        return false;
    tell(progress, ZT_RANK_HAS_STATES);
    return true;
}

/* Creates all that the rank works with, and places the weights. */
static bool create(struct zt_rank *r, const struct zt_rank_progress *progress, struct zt_err *err) {
    tell(progress, ZT_RANK_BEGINS);
    if (!allocate(r, progress, err) || !share(r, err) || !zt_rank_offload_shard(r, err))
        return false;
    make_slots(r);
    make_programs(r);
    if (!create_states(r, progress, err) || !zt_rank_shards_create(r, err) || !zt_rank_device_create(r, err) ||
        !zt_rank_one_bit_create(r, err) || !open_step(r, err) || (r->device_memory && !zt_rank_stored_create(r, err)) ||
        !place_weights(r, err) || !start_averages(r, err))
        return false;
    tell(progress, ZT_RANK_READY);
    return true;
}

struct zt_rank *zt_rank_create(const struct zt_rank_plan *plan, struct zt_device *device, struct zt_comm *world,
                               struct zt_comm *data, const struct zt_rank_progress *progress, struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_rank *r = ZT_NEW(arena, struct zt_rank);
    *r = (struct zt_rank){ .plan = plan,
                           .device = device,
                           .world = world,
                           .data = data,
                           .arena = arena,
                           .grad_scale = 1,
                           .sharing = { .reduced = true },
                           .scaling = zt_scaling_of(plan->job->config),
                           .lr_state = zt_lr_state_of(plan->job->config, arena) };
    r->bulk_world = world;
    r->bulk_data = data;
    r->group = (struct zt_group){ r, sum_over_ranks, max_over_ranks };
    r->group_values = ZT_NEW_N(arena, double, data->size *ZT_GROUP_VALUES);
    r->feed_bytes = feed_bytes(plan, device);
    r->feed_rows = largest_rows(plan);
    r->random.seed = plan->job->config->parallel.seed_layers ? LAYER_SEED : (uint64_t)plan->job->config->seed;
    r->row = zt_optimizer_find(plan->job->config->optimizer.type);
    if (create(r, progress, err))
        return r;
    zt_rank_destroy(r);
    return NULL;
}

void zt_rank_watch(struct zt_rank *r, struct zt_stop *stop) {
    r->stop = stop;
}

void zt_rank_follow(struct zt_rank *r, const struct zt_rank_progress *progress) {
    r->progress = progress;
}

void zt_rank_use_timers(struct zt_rank *r, struct zt_timers *timers) {
    r->timers = timers;
}

void zt_rank_warn_paths(const struct zt_rank *r, const struct zt_log *log) {
    for (int i = 0; i < r->program_count; i++) {
        const struct zt_program *p = r->programs[i].program;
        for (int n = 0; n < p->training_graph.graph->node_count; n++) {
            const struct zt_path *ran = &r->programs[i].ready[n].path, *planned = &p->prepared[n].path;
            if (ran->name == planned->name && ran->note == planned->note)
                continue;
            zt_say(log, ZT_LOG_WARNING, "%s (%s): planned with %s, runs with %s: %s", r->programs[i].ready[n].name,
                   p->training_graph.graph->nodes[n]->op_type, planned->name, ran->name, ran->note);
        }
    }
}

int64_t zt_rank_updates(const struct zt_rank *r) {
    return r->updates;
}

void zt_rank_destroy(struct zt_rank *r) {
    if (!r)
        return;
    const struct zt_rank_plan *p = r->plan;
    int64_t start = zt_align_64(p->memory.parameter_bytes);
    zt_rank_hashes_destroy(r);
    zt_rank_time_end(r);
    zt_rank_stored_destroy(r);
    zt_rank_graphs_destroy(r);
    zt_rank_stepping_destroy(r);
    zt_rank_device_destroy(r);
    zt_rank_shards_destroy(r);
    zt_rank_offload_destroy(r);
    r->data->api->unshare(r->data, r->parameters);
    r->data->api->unshare(r->data, r->gradients);
    zt_device_free(r->device, r->parameters, (size_t)(start + p->memory.derived_bytes));
    zt_device_free(r->device, r->gradients, (size_t)p->memory.gradient_bytes);
    zt_device_free(r->device, r->optimizer, (size_t)p->memory.optimizer_bytes);
    zt_device_free(r->device, r->activations, (size_t)(p->memory.activation_bytes + r->feed_bytes * p->steps.slots));
    zt_device_free(r->device, r->workspace, (size_t)p->memory.workspace_bytes);
    zt_arena_destroy(r->arena);
}
