/* The layout of a stage: its tensors, their order, and the gathers of ZeRO stage 3. */
#include "plan/rank_layout.h"

#include "base/align.h"
#include "plan/matrices.h"
#include "plan/rank_plan.h"

#include <stdlib.h>
#include <string.h>

/* The location of a parameter of the training graph. */
struct seat {
    int stage, tensor;
};

/* The hidden size h in DeepSpeed's formulas for "auto": the most frequent trailing dimension of the weight matrices
 * (the larger one of two equally frequent), 0 without matrices. */
static int64_t hidden_size(const struct zt_training_graph *training_graph) {
    int64_t best = 0;
    int best_count = 0;
    for (int i = 0; i < training_graph->param_count; i++) {
        const struct zt_shape *shape = &training_graph->graph->values[training_graph->params[i]]->shape;
        int count = 0;
        for (int k = 0; shape->rank == 2 && k < training_graph->param_count; k++) {
            const struct zt_shape *other = &training_graph->graph->values[training_graph->params[k]]->shape;
            count += other->rank == 2 && other->dim[1] == shape->dim[1];
        }
        if (count > best_count || (count && count == best_count && shape->dim[1] > best)) {
            best_count = count;
            best = shape->dim[1];
        }
    }
    return best;
}

/* The key of that name for zt_flat_make(). "auto" is Hugging Face's h^2, but at least a block of each rank, so that
 * ZeRO has something to divide. */
static int64_t reduce_bucket_size(const struct zt_rank_plan *p) {
    const int64_t given = p->job->config->zero.reduce_bucket_size, square = p->traffic.hidden * p->traffic.hidden,
                  blocks = (int64_t)p->grid.data * ZT_SLICE_BLOCK;
    return given >= 0 || square == 0 ? (given > 0 ? given : 0) : square > blocks ? square : blocks;
}

static struct zt_flat *lay_out_stage(struct zt_rank_plan *p, const struct zt_training_graph *training_graph, int stage,
                                     int *indices, struct seat *seats) {
    struct zt_arena *arena = p->arena;
    const struct zt_graph *g = training_graph->graph;
    int count = zt_program_params(training_graph, stage, indices);
    struct zt_flat_tensor *tensors = ZT_NEW_N(arena, struct zt_flat_tensor, count + 1);
    for (int i = 0; i < count; i++) {
        const struct zt_value *v = g->values[training_graph->params[indices[i]]];
        seats[indices[i]] = (struct seat){ stage, i };
        tensors[i] = (struct zt_flat_tensor){ .name = zt_arena_strdup(arena, v->copy_of ? v->copy_of : v->name),
                                              .count = zt_shape_count(&v->shape),
                                              .copy = v->copy_of != NULL };
    }
    struct zt_flat *flat = zt_flat_make(arena, tensors, count, p->grid.data, reduce_bucket_size(p));
    zt_collectives_assign(flat, p->sharding);
    return flat;
}

/* Lists what this rank exchanges with stages that share tied weights with it. */
static void tie_stages(struct zt_rank_plan *p, const struct zt_training_graph *training_graph, const struct seat *seats,
                       struct zt_flat *const *flats) {
    struct zt_tie_pair *pairs = ZT_NEW_N(p->arena, struct zt_tie_pair, training_graph->param_count + 1);
    int count = 0;
    for (int i = 0; i < training_graph->param_count; i++) {
        if (training_graph->home[i] < 0)
            continue;
        const struct seat *home = &seats[training_graph->home[i]];
        pairs[count++] = (struct zt_tie_pair){ home->stage, home->tensor, seats[i].stage, seats[i].tensor };
    }
    p->tensors.tie_count =
        zt_tie_runs(p->arena, &p->grid, &(struct zt_ties){ p->sharding, flats, pairs, count }, &p->tensors.ties);
}

/* Appends the parameters or statistics of all stages to the plan's `model`. own[i] becomes the index of the i-th one of
 * this stage; for a copy of a tied weight, the index of the original. */
static void list_model(struct zt_rank_plan *p, const struct zt_training_graph *training_graph, bool params, int *own) {
    int total = params ? training_graph->param_count : training_graph->statistic_count;
    int *indices = zt_malloc(((size_t)total + 1) * sizeof *indices),
        *stage = zt_malloc(((size_t)total + 1) * sizeof *stage), *at = zt_malloc(((size_t)total + 1) * sizeof *at);
    for (int i = 0; i < total; i++)
        stage[i] = -1;
    for (int s = p->grid.stages - 1; s >= 0; s--) {
        int count =
            params ? zt_program_params(training_graph, s, indices) : zt_program_statistics(training_graph, s, indices);
        for (int i = 0; i < count; i++)
            stage[indices[i]] = s;
    }
    struct zt_model_tensor *all = ZT_NEW_N(p->arena, struct zt_model_tensor, p->tensors.model_count + total + 1);
    if (p->tensors.model_count)
        memcpy(all, p->tensors.model, (size_t)p->tensors.model_count * sizeof *all);
    for (int i = 0; i < total; i++) {
        const struct zt_value *v =
            training_graph->graph->values[params ? training_graph->params[i] : training_graph->statistics[i]];
        at[i] = p->tensors.model_count;
        if (params && training_graph->home[i] >= 0)
            at[i] = at[training_graph->home[i]];
        else if (stage[i] >= 0)
            all[p->tensors.model_count++] =
                (struct zt_model_tensor){ zt_arena_strdup(p->arena, v->name), v->shape, stage[i] };
    }
    int count = params ? zt_program_params(training_graph, p->grid.stage, indices)
                       : zt_program_statistics(training_graph, p->grid.stage, indices);
    for (int i = 0; i < count; i++)
        own[i] = at[indices[i]];
    p->tensors.model = all;
    p->tensors.model_params = params ? p->tensors.model_count : p->tensors.model_params;
    free(at);
    free(stage);
    free(indices);
}

static void lay_out_parameters(struct zt_rank_plan *p, const struct zt_training_graph *training_graph) {
    const struct zt_graph *g = training_graph->graph;
    int *indices = zt_malloc(((size_t)training_graph->param_count + (size_t)training_graph->statistic_count + 1) *
                             sizeof *indices);
    struct seat *seats = zt_calloc((size_t)training_graph->param_count + 1, sizeof *seats);
    struct zt_flat **flats = ZT_NEW_N(p->arena, struct zt_flat *, p->grid.stages);
    for (int s = 0; s < p->grid.stages; s++)
        flats[s] = lay_out_stage(p, training_graph, s, indices, seats);
    p->tensors.flat = flats[p->grid.stage];
    p->tensors.param_initial = ZT_NEW_N(p->arena, const void *, p->tensors.flat->tensor_count + 1);
    p->tensors.matrices = ZT_NEW_N(p->arena, struct zt_matrix, p->tensors.flat->tensor_count + 1);
    for (int i = 0; i < training_graph->param_count; i++) {
        if (seats[i].stage != p->grid.stage)
            continue;
        p->tensors.param_initial[seats[i].tensor] = g->values[training_graph->params[i]]->data;
        p->tensors.matrices[seats[i].tensor] =
            zt_plan_matrix(p->job->config, training_graph, training_graph->params[i]);
    }
    tie_stages(p, training_graph, seats, flats);
    free(seats);
    list_model(p, training_graph, true,
               p->tensors.param_model = ZT_NEW_N(p->arena, int, p->tensors.flat->tensor_count + 1));
    p->stage_bounds =
        zt_arena_copy(p->arena, training_graph->bounds, ((size_t)p->grid.stages + 1) * sizeof *p->stage_bounds);
    const int layers = training_graph->layers ? p->stage_bounds[p->grid.stages].layer : 0;
    p->layers = layers ? ZT_NEW_N(p->arena, const char *, layers) : NULL;
    for (int i = 0; i < layers; i++)
        p->layers[i] = zt_arena_strdup(p->arena, training_graph->layers[i]);
    p->tensors.statistic_total = zt_program_statistics(training_graph, p->grid.stage, indices);
    list_model(p, training_graph, false,
               p->tensors.statistic_model = ZT_NEW_N(p->arena, int, p->tensors.statistic_total + 1));
    p->tensors.statistic_offset = ZT_NEW_N(p->arena, int64_t, p->tensors.statistic_total + 1);
    p->tensors.statistic_count = ZT_NEW_N(p->arena, int64_t, p->tensors.statistic_total + 1);
    p->tensors.statistic_name = ZT_NEW_N(p->arena, const char *, p->tensors.statistic_total + 1);
    p->tensors.statistic_initial = ZT_NEW_N(p->arena, const void *, p->tensors.statistic_total + 1);
    for (int i = 0; i < p->tensors.statistic_total; i++) {
        const struct zt_value *v = g->values[training_graph->statistics[indices[i]]];
        p->tensors.statistic_offset[i] = p->tensors.statistic_bytes;
        p->tensors.statistic_count[i] = zt_shape_count(&v->shape);
        p->tensors.statistic_name[i] = zt_arena_strdup(p->arena, v->name);
        p->tensors.statistic_initial[i] = v->data;
        p->tensors.statistic_bytes += zt_align_64(p->tensors.statistic_count[i] * (int64_t)sizeof(float));
    }
    free(indices);
}

/* Elements of tensors that every rank holds whole: of one, and of all. */
struct small {
    int64_t each, together;
};

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t largest_bucket(const struct zt_flat *flat) {
    int64_t largest = 0;
    for (int b = 0; b < flat->bucket_count; b++)
        if (flat->bucket[b + 1] - flat->bucket[b] > largest)
            largest = flat->bucket[b + 1] - flat->bucket[b];
    return largest;
}

/* Sets the keys of stage 3 that are "auto" so that the stage still saves memory: prefetch at most the largest bucket,
 * and keep at most a hundredth of the rank's elements persistent, or none if that is less than a block. */
static void plan_traffic(struct zt_rank_plan *p) {
    const struct zt_zero_config *c = &p->job->config->zero;
    const double h = (double)p->traffic.hidden;
    p->traffic.limits = (struct zt_traffic){ .overlap = c->overlap_comm,
                                             .prefetch = c->prefetch_bucket_size,
                                             .max_live = c->max_live_parameters,
                                             .reuse_distance = c->max_reuse_distance };
    p->traffic.largest_bucket = largest_bucket(p->tensors.flat);
    if (c->prefetch_bucket_size < 0)
        p->traffic.limits.prefetch = lesser((int64_t)(0.9 * h * h), p->traffic.largest_bucket);
    int64_t each = c->param_persistence_threshold, together = c->model_persistence_threshold;
    if (each < 0) {
        int64_t hundredth = p->tensors.flat->count / p->tensors.flat->ranks / 100;
        each = (int64_t)(10 * h);
        together = lesser(together, hundredth < ZT_SLICE_BLOCK ? 0 : hundredth);
    }
    p->traffic.persistent_each = each;
    p->traffic.persistent_together = together;
    if (zt_sharding_gathers_for_use(p->sharding))
        zt_flat_persistent(p->arena, p->tensors.flat, each, together);
}

/* ---- frozen weights ---- */

/* The keys of stage 3 that keep small parameters whole do so with frozen weights too, in what persistent parameters
 * leave of their sum. */
static void limit_frozen(const struct zt_rank_plan *p, const struct zt_graph *g, const int *values, int count,
                         struct small *to) {
    const struct zt_zero_config *c = &p->job->config->zero;
    *to =
        (struct small){ c->param_persistence_threshold, c->model_persistence_threshold - p->tensors.flat->persistent };
    if (to->each >= 0)
        return;
    int64_t elems = 0;
    for (int i = 0; i < count; i++)
        elems += zt_shape_count(&g->values[values[i]]->shape);
    const int64_t hundredth = elems / p->grid.data / 100;
    to->each = 10 * p->traffic.hidden;
    to->together = lesser(to->together, hundredth < ZT_SLICE_BLOCK ? 0 : hundredth);
}

/* Takes out of `values` what stays whole; returns how many remain. */
static int leave_small(const struct zt_graph *g, struct small small, int *values, int count) {
    int64_t together = 0;
    int left = 0;
    for (int i = 0; i < count; i++) {
        const int64_t elems = zt_shape_count(&g->values[values[i]]->shape);
        if (g->values[values[i]]->shape.rank < 2 || (elems <= small.each && together + elems <= small.together))
            together += elems;
        else
            values[left++] = values[i];
    }
    return left;
}

static void lay_out_frozen(struct zt_rank_plan *p, const struct zt_training_graph *training_graph) {
    const struct zt_graph *g = training_graph->graph;
    int *values = ZT_NEW_N(p->arena, int, g->value_count + 1);
    int count = zt_frozen_weights_read(training_graph, p->grid.stage, values);
    struct small small;
    limit_frozen(p, g, values, count, &small);
    count = leave_small(g, small, values, count);
    if (!count)
        return;
    struct zt_flat_tensor *tensors = ZT_NEW_N(p->arena, struct zt_flat_tensor, count);
    struct zt_frozen_weight *weights = ZT_NEW_N(p->arena, struct zt_frozen_weight, count);
    p->tensors.frozen_source = ZT_NEW_N(p->arena, struct zt_frozen_source, count);
    p->tensors.frozen_elems = ZT_NEW_N(p->arena, int64_t, count);
    for (int i = 0; i < count; i++) {
        const struct zt_value *v = g->values[values[i]];
        weights[i] = zt_frozen_weight_of(v);
        weights[i].name = zt_arena_strdup(p->arena, weights[i].name);
        tensors[i] = (struct zt_flat_tensor){ .name = weights[i].name, .count = zt_frozen_units(v) };
        p->tensors.frozen_elems[i] = zt_shape_count(&v->shape);
        p->tensors.frozen_source[i] = zt_frozen_source(p->job->frozen, v);
    }
    p->tensors.frozen = ZT_NEW(p->arena, struct zt_frozen_layout);
    p->tensors.frozen->weights = weights;
    p->tensors.frozen->flat = zt_flat_make(p->arena, tensors, count, p->grid.data, reduce_bucket_size(p));
}

void zt_rank_plan_lay_out(struct zt_rank_plan *p, const struct zt_training_graph *training_graph) {
    p->traffic.hidden = hidden_size(training_graph);
    lay_out_parameters(p, training_graph);
    plan_traffic(p);
    if (zt_sharding_gathers_for_use(p->sharding) && p->grid.data > 1)
        lay_out_frozen(p, training_graph);
}
