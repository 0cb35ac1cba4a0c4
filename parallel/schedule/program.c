#include "parallel/schedule/collectives.h"
#include "parallel/schedule/frozen_weights.h"
#include "parallel/schedule/stage_graph.h"
#include "parallel/schedule/program.h"

#include "base/align.h"
#include "graph/passes/memory.h"
#include "graph/ir/op.h"
#include "graph/passes/precision/half_precision.h"

#include <stdlib.h>
#include <string.h>

/* State while a program is laid out. Arrays are indexed by value unless noted and live in `scratch`. */
struct layout {
    struct zt_program *p;
    const struct zt_program_options *o;
    struct zt_graph *g;
    struct zt_arena *scratch;
    bool *derived, *skipped; /* by node */
    bool *live_out;          /* by value: read after the phase */
    bool *from_params;       /* made from parameters and constants alone */
    bool *frozen;            /* a frozen weight, or a view of one */
    int *parent;             /* the value whose memory a value uses: itself, or the source of its view; see root_of */
    bool *shared;            /* by root: another value takes over its memory */
    int *last;               /* by root: last node that reads it, node_count: the executor does */
    int *gradient_of;        /* by value: of how many parameters it is the gradient */
    struct zt_gradient *gradients;
    bool *direct; /* the kernel that makes it writes it into the gradient block */
    struct zt_flats flats;
    int *frozen_value; /* by tensor of flats.frozen; -1: this graph does not read it */
    struct zt_bucket_use *uses;
    struct zt_interval *intervals;
    int *owner; /* by interval: value, or -1 */
    int interval_count;
    int64_t *gathered[2], *reduced; /* by bucket: interval number first, offset in the end */
};

/* ---- which parameters a stage holds ---- */

/* Those of `values` that nodes of the stage read (zt_split_apply has seen to it that all readers are on one). */
static int read_on_stage(const struct zt_graph *g, const int *values, int value_count, int stage, int *indices) {
    bool *read = zt_calloc((size_t)g->value_count + 1, sizeof *read);
    int count = 0;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; g->nodes[n]->stage == stage && i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] >= 0)
                read[g->nodes[n]->in[i]] = true;
    for (int i = 0; i < value_count; i++)
        if (read[values[i]])
            indices[count++] = i;
    free(read);
    return count;
}

int zt_program_params(const struct zt_training_graph *training_graph, int stage, int *indices) {
    return read_on_stage(training_graph->graph, training_graph->params, training_graph->param_count, stage, indices);
}

int zt_program_statistics(const struct zt_training_graph *training_graph, int stage, int *indices) {
    return read_on_stage(training_graph->graph, training_graph->statistics, training_graph->statistic_count, stage,
                         indices);
}

static void take_training_graph(struct zt_program *p, const struct zt_training_graph *training_graph) {
    p->training_graph = *training_graph;
    struct zt_training_graph *j = &p->training_graph;
    int *indices = ZT_NEW_N(p->arena, int, training_graph->param_count + training_graph->statistic_count + 1);
    int *params = ZT_NEW_N(p->arena, int, training_graph->param_count + 1),
        *grads = ZT_NEW_N(p->arena, int, training_graph->param_count + 1);
    j->param_count = zt_program_params(training_graph, p->stage, indices);
    for (int i = 0; i < j->param_count; i++) {
        params[i] = training_graph->params[indices[i]];
        grads[i] = training_graph->training ? training_graph->grads[indices[i]] : -1;
    }
    int *statistics = ZT_NEW_N(p->arena, int, training_graph->statistic_count + 1);
    j->statistic_count = zt_program_statistics(training_graph, p->stage, indices);
    for (int i = 0; i < j->statistic_count; i++)
        statistics[i] = training_graph->statistics[indices[i]];
    j->columns =
        zt_arena_copy(p->arena, training_graph->columns, (size_t)training_graph->column_count * sizeof *j->columns);
    j->params = params;
    j->grads = grads;
    j->statistics = statistics;
}

/* ---- back ends and layouts ---- */

/* The ids of values that are read outside the graph's nodes. */
struct read {
    int **ids, count;
    int grads; /* the first so many are gradients */
};

static void add_read(struct read *r, int *id) {
    if (*id >= 0)
        r->ids[r->count++] = id;
}

static struct read read_by_others(struct zt_program *p) {
    struct zt_training_graph *j = &p->training_graph;
    struct zt_graph *g = j->graph;
    size_t room = (size_t)(j->param_count + g->write_back_count + p->send_act.count + p->send_grad.count + 4);
    struct read r = { zt_malloc(room * sizeof *r.ids), 0, 0 };
    for (int i = 0; i < j->param_count; i++)
        add_read(&r, &j->grads[i]);
    r.grads = r.count;
    for (int i = 0; i < g->write_back_count; i++)
        add_read(&r, &g->write_backs[i].value);
    for (int i = 0; i < p->send_act.count; i++)
        add_read(&r, &p->send_act.at[i].value);
    for (int i = 0; i < p->send_grad.count; i++)
        add_read(&r, &p->send_grad.at[i].value);
    add_read(&r, &j->loss);
    add_read(&r, &j->correct);
    add_read(&r, &j->counted);
    return r;
}

/* Assigns back ends. Values read outside the graph's nodes become plain, and their ids are updated. */
static bool assign(struct zt_program *p, const struct zt_program_options *o, struct zt_err *err) {
    struct read r = read_by_others(p);
    int *values = zt_malloc(((size_t)r.count + 1) * sizeof *values);
    for (int i = 0; i < r.count; i++)
        values[i] = *r.ids[i];
    bool ok =
        zt_pass_assign(p->training_graph.graph, &(struct zt_assign_options){ o->table, o->fast, o->threads, o->device },
                       values, r.count, &p->prepared, err);
    for (int i = 0; ok && i < r.count; i++)
        *r.ids[i] = values[i];
    free(values);
    free(r.ids);
    return ok;
}

/* Fuses nodes. Values that others than nodes read are outputs of the stage's graph, so that no pattern removes them. */
static bool fuse(struct zt_program *p, const struct zt_program_options *o, struct zt_err *err) {
    struct zt_graph *g = p->training_graph.graph;
    struct read r = read_by_others(p);
    g->outputs = ZT_NEW_N(p->arena, int, r.count + 1);
    g->output_count = r.count;
    for (int i = 0; i < r.count; i++)
        g->outputs[i] = *r.ids[i];
    free(r.ids);
    return !o->fusion ||
           zt_pass_fuse(g, o->table,
                        &(struct zt_fuse_options){ o->fusion, 1u << o->fast, NULL, p->training_graph.fused }, err);
}

/* After fusion, so that recomputed nodes equal the original ones, and before layouts and memory. */
static bool recompute(struct zt_program *p, const struct zt_program_options *o, struct zt_err *err) {
    if (!o->recompute || !p->training_graph.training)
        return true;
    struct read r = read_by_others(p);
    int *ids = zt_malloc(((size_t)r.count + 1) * sizeof *ids), count = 0;
    for (int i = r.grads; i < r.count; i++) /* gradients are read as soon as they are complete */
        ids[count++] = *r.ids[i];
    struct zt_graph_roots roots = { ids, count, p->training_graph.grads, p->training_graph.param_count };
    bool ok = zt_pass_recompute(p->training_graph.graph, o->recompute, &roots, &p->recomputed, err);
    free(ids);
    free(r.ids);
    return ok;
}

/* ---- sharing of memory, and lifetimes ---- */

static int root_of(const struct layout *l, int value) {
    while (l->parent[value] != value)
        value = l->parent[value] = l->parent[l->parent[value]]; /* path halving */
    return value;
}

/* Constant contents: neither a parameter nor a statistic. */
static bool is_constant(const struct layout *l, int value) {
    const struct zt_value *v = l->g->values[value];
    return v->data && !v->statistic && !l->from_params[value];
}

/* A derived node depends on parameters and constants alone: it runs once after an update, not in every micro-batch.
 * If parameters are gathered for each use, none is derived. Copies of frozen weights, packed or cast, are
 * made for each use too: kept, they would take more memory than all that trains. */
static bool is_derived(const struct layout *l, int n) {
    const struct zt_node *node = l->g->nodes[n];
    bool derived =
        !zt_sharding_gathers_for_use(l->o->sharding) && !(node->op->flags & ZT_OP_RANDOM) && node->in_count > 0;
    for (int i = 0; i < node->in_count; i++) {
        const struct zt_value *v = zt_in(l->g, n, i);
        derived &= !v || (!l->frozen[node->in[i]] && (l->from_params[node->in[i]] || is_constant(l, node->in[i])));
    }
    return derived;
}

/* The backward node behind which a gradient is whole; -1: it is before the phase begins. */
static int gradient_node(const struct zt_graph *g, int value) {
    int n = g->values[value]->producer;
    return n >= 0 && g->nodes[n]->phase == ZT_BACKWARD ? n : -1;
}

static void mark_live_out(struct layout *l, int value) {
    if (value >= 0)
        l->live_out[value] = true;
}

static void mark_kept(struct layout *l) {
    const struct zt_program *p = l->p;
    mark_live_out(l, p->training_graph.loss);
    mark_live_out(l, p->training_graph.correct);
    mark_live_out(l, p->training_graph.counted);
    for (int i = 0; i < l->g->write_back_count; i++)
        mark_live_out(l, l->g->write_backs[i].value);
    for (int i = 0; i < p->send_act.count; i++)
        mark_live_out(l, p->send_act.at[i].value);
    for (int i = 0; i < p->send_grad.count; i++)
        mark_live_out(l, p->send_grad.at[i].value);
    for (int t = 0; p->training_graph.training && t < p->training_graph.param_count; t++)
        if (p->training_graph.grads[t] >= 0 && gradient_node(l->g, p->training_graph.grads[t]) < 0)
            mark_live_out(l, p->training_graph.grads[t]);
}

static void mark_skipped(struct layout *l) {
    for (int v = 0; v < l->g->value_count; v++) {
        l->parent[v] = v;
        l->frozen[v] = zt_value_is_frozen(l->g->values[v]);
    }
    for (int i = 0; i < l->p->training_graph.param_count; i++)
        l->from_params[l->p->training_graph.params[i]] = true;
    if (l->o->frozen) /* gathered like parameters */
        zt_frozen_weights_find(l->o->frozen, l->g, l->frozen_value, l->from_params);
    for (int n = 0; n < l->g->node_count; n++) {
        const struct zt_node *node = l->g->nodes[n];
        bool view = node->op->flags & ZT_OP_VIEW && !zt_in(l->g, n, 0)->layout && !zt_out(l->g, n, 0)->layout;
        if (view && l->live_out[node->out[0]] && zt_sharding_gathers_for_use(l->o->sharding) &&
            l->from_params[node->in[0]])
            view = false; /* the gathered parameter is released by then */
        if (view)
            l->frozen[node->out[0]] = l->frozen[node->in[0]];
        if (view && is_constant(l, node->in[0]))
            zt_out(l->g, n, 0)->data = zt_in(l->g, n, 0)->data;
        else if (view)
            l->parent[node->out[0]] = root_of(l, node->in[0]);
        l->derived[n] = !view && is_derived(l, n);
        l->skipped[n] = view || l->derived[n];
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                l->from_params[node->out[i]] = l->derived[n] || (view && l->from_params[node->in[0]]);
    }
}

static void find_last_readers(struct layout *l) {
    for (int v = 0; v < l->g->value_count; v++)
        l->last[v] = -1;
    for (int n = 0; n < l->g->node_count; n++) {
        const struct zt_node *node = l->g->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0)
                l->last[root_of(l, node->in[i])] = n;
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                l->last[root_of(l, node->out[i])] = n;
    }
    for (int v = 0; v < l->g->value_count; v++)
        if (l->live_out[v])
            l->last[root_of(l, v)] = l->g->node_count;
}

static void count_gradients(struct layout *l) {
    const struct zt_training_graph *j = &l->p->training_graph;
    for (int t = 0; j->training && t < j->param_count; t++)
        if (j->grads[t] >= 0)
            l->gradient_of[j->grads[t]]++;
}

/* Output 0 takes over the memory of an input that dies here. A gradient has a better place: its own in the gradient
 * block. */
static void mark_in_place(struct layout *l) {
    for (int n = 0; n < l->g->node_count; n++) {
        const struct zt_node *node = l->g->nodes[n];
        const int on = zt_op_in_place(node);
        if (on < 0 || l->skipped[n] || l->gradient_of[node->out[0]])
            continue;
        int from = root_of(l, on), to = node->out[0], uses = 0;
        for (int i = 0; i < node->in_count; i++)
            uses += node->in[i] >= 0 && root_of(l, node->in[i]) == from;
        const struct zt_value *v = l->g->values[from];
        if (uses != 1 || l->last[from] != n || v->producer < 0 || l->from_params[from] || v->statistic ||
            zt_value_bytes(v) != zt_value_bytes(l->g->values[to]) || v->layout != l->g->values[to]->layout)
            continue;
        l->parent[to] = from;
        l->last[from] = l->last[to];
    }
}

/* ---- gradients ---- */

static int output_index(const struct zt_node *node, int value) {
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i] == value)
            return i;
    return -1;
}

/* The kernel writes the gradient where it belongs when nothing else reads the value, it belongs to one parameter, and
 * the kernel can add to what is there if that may be asked of it. */
static bool writes_direct(const struct layout *l, int value) {
    int n = l->g->values[value]->producer;
    const bool in_place = zt_sharding_reduces_in_place(l->o->sharding);
    if (l->o->rounds && in_place)
        return false;
    if (l->gradient_of[value] != 1 || n < 0 || l->derived[n] || root_of(l, value) != value || l->shared[value] ||
        l->last[value] != n || l->g->values[value]->dtype != ZT_FLOAT)
        return false;
    return !l->o->accumulates || !in_place ||
           (output_index(l->g->nodes[n], value) == 0 && l->p->prepared[n].can_accumulate);
}

static void place_gradients(struct layout *l) {
    const struct zt_training_graph *j = &l->p->training_graph;
    l->gradients = ZT_NEW_N(l->scratch, struct zt_gradient, j->param_count + 1);
    for (int v = 0; v < l->g->value_count; v++)
        if (root_of(l, v) != v)
            l->shared[root_of(l, v)] = true;
    for (int t = 0; j->training && t < j->param_count; t++) {
        int value = j->grads[t];
        struct zt_gradient *to = &l->gradients[t];
        *to = (struct zt_gradient){ value, -1, false };
        if (value < 0)
            continue;
        to->node = gradient_node(l->g, value);
        to->direct = l->direct[value] = writes_direct(l, value);
    }
}

/* ---- memory ---- */

static int add_interval(struct layout *l, int64_t bytes, int first, int last, int owner) {
    l->intervals[l->interval_count] = (struct zt_interval){ bytes, first, last, 0 };
    l->owner[l->interval_count] = owner;
    return l->interval_count++;
}

static void add_bucket_intervals(struct layout *l) {
    for (int b = 0; b < zt_flats_buckets(&l->flats); b++) {
        int64_t bytes = zt_flats_elems(&l->flats, b) * (int64_t)sizeof(float);
        const struct zt_bucket_use *u = &l->uses[b];
        for (int phase = 0; phase < 2; phase++) {
            if (u->gather[phase] >= 0)
                l->gathered[phase][b] =
                    add_interval(l, bytes, u->gather[phase], zt_collectives_gathered_until(u, phase), -1);
        }
        if (u->transient)
            l->reduced[b] = add_interval(l, bytes, u->grad_first, u->reduced, -1);
    }
}

static void add_received(struct layout *l, const struct zt_boundary_tensors *c, int first) {
    for (int i = 0; i < c->count; i++)
        add_interval(l, (int64_t)c->at[i].bytes, first, l->last[root_of(l, c->at[i].value)], c->at[i].value);
}

static void add_value_intervals(struct layout *l) {
    int first_backward = 0;
    while (first_backward < l->g->node_count && l->g->nodes[first_backward]->phase == ZT_FORWARD)
        first_backward++;
    add_received(l, &l->p->recv_act, 0);
    add_received(l, &l->p->recv_grad, first_backward);
    for (int n = 0; n < l->g->node_count; n++) {
        for (int i = 0; !l->skipped[n] && i < l->g->nodes[n]->out_count; i++) {
            int v = l->g->nodes[n]->out[i];
            if (v >= 0 && root_of(l, v) == v && !l->direct[v])
                add_interval(l, zt_value_bytes(l->g->values[v]), n, l->last[v], v);
        }
    }
}

static void set_place(struct layout *l, int value, enum zt_storage in, int64_t offset) {
    for (int phase = 0; phase < 2; phase++)
        l->p->place[phase][value] = (struct zt_place){ in, offset };
}

static void place_frozen(struct layout *l) {
    const struct zt_flat *flat = l->flats.frozen;
    for (int t = 0; flat && t < flat->tensor_count; t++) {
        const int bucket = flat->tensors[t].bucket, number = l->flats.trained->bucket_count + bucket;
        for (int phase = 0; l->frozen_value[t] >= 0 && phase < 2; phase++)
            l->p->place[phase][l->frozen_value[t]] =
                (struct zt_place){ ZT_ACTIVATIONS,
                                   l->gathered[phase][number] +
                                       (flat->tensors[t].offset - flat->bucket[bucket]) * (int64_t)sizeof(float) };
    }
}

static void place_parameters(struct layout *l) {
    const struct zt_flat *flat = l->o->flat;
    const struct zt_training_graph *j = &l->p->training_graph;
    for (int t = 0; t < j->param_count; t++) {
        const struct zt_flat_tensor *tensor = &flat->tensors[t];
        int64_t in_bucket = (tensor->offset - flat->bucket[tensor->bucket]) * (int64_t)sizeof(float);
        set_place(l, j->params[t], ZT_PARAMETERS, tensor->offset * (int64_t)sizeof(float));
        for (int phase = 0; zt_sharding_gathers_for_use(l->o->sharding) && phase < 2; phase++)
            l->p->place[phase][j->params[t]] =
                (struct zt_place){ ZT_ACTIVATIONS, l->gathered[phase][tensor->bucket] + in_bucket };
        if (tensor->persistent >= 0)
            set_place(l, j->params[t], ZT_DERIVED, tensor->persistent * (int64_t)sizeof(float));
        if (j->training && l->gradients[t].direct) {
            struct zt_place to = { ZT_GRADIENTS, tensor->offset * (int64_t)sizeof(float) };
            if (l->uses[tensor->bucket].transient)
                to = (struct zt_place){ ZT_ACTIVATIONS, l->reduced[tensor->bucket] + in_bucket };
            set_place(l, l->gradients[t].value, to.in, to.offset);
        }
    }
    for (int i = 0; i < j->statistic_count; i++)
        set_place(l, j->statistics[i], ZT_STATISTICS, l->o->statistic_offset[i]);
}

static void place_fed(struct layout *l) {
    const struct zt_training_graph *j = &l->p->training_graph;
    for (int i = 0; i < j->column_count; i++)
        if (j->columns[i] >= 0 && l->p->place[0][j->columns[i]].in == ZT_NOWHERE)
            set_place(l, j->columns[i], ZT_FED, i);
    if (j->seed >= 0)
        set_place(l, j->seed, ZT_FED, j->column_count);
    if (j->row_weight >= 0)
        set_place(l, j->row_weight, ZT_FED, j->column_count + 1);
}

static void place_derived(struct layout *l) {
    struct zt_program *p = l->p;
    p->derive = ZT_NEW_N(p->arena, struct zt_command, l->g->node_count + 2);
    if (l->o->flat->persistent) { /* the tensors, and behind them their pieces as they travel */
        p->derive[p->derive_count++] = (struct zt_command){ .kind = ZT_GATHER_PERSISTENT };
        p->derived_bytes = zt_align_64(2 * l->o->flat->persistent * (int64_t)sizeof(float));
    }
    for (int n = 0; n < l->g->node_count; n++) {
        if (!l->derived[n])
            continue;
        p->derive[p->derive_count++] = (struct zt_command){ .kind = ZT_RUN_NODE, .node = n };
        for (int i = 0; i < l->g->nodes[n]->out_count; i++) {
            int v = l->g->nodes[n]->out[i];
            if (v < 0)
                continue;
            set_place(l, v, ZT_DERIVED, p->derived_bytes);
            p->derived_bytes += zt_align_64(zt_value_bytes(l->g->values[v]));
        }
    }
}

static void plan_memory(struct layout *l) {
    struct zt_program *p = l->p;
    const int buckets = zt_flats_buckets(&l->flats);
    size_t room = (size_t)l->g->value_count + 3 * (size_t)buckets + 1;
    l->intervals = ZT_NEW_N(l->scratch, struct zt_interval, room);
    l->owner = ZT_NEW_N(l->scratch, int, room);
    add_bucket_intervals(l);
    add_value_intervals(l);
    p->activation_bytes = zt_memory_plan(l->intervals, l->interval_count);
    for (int i = 0; i < l->interval_count; i++)
        if (l->owner[i] >= 0)
            set_place(l, l->owner[i], ZT_ACTIVATIONS, l->intervals[i].offset);
    for (int b = 0; b < buckets; b++) {
        for (int phase = 0; phase < 2; phase++) {
            if (l->uses[b].gather[phase] >= 0)
                l->gathered[phase][b] = l->intervals[l->gathered[phase][b]].offset;
            else if (phase == 1 && l->uses[b].first[1] >= 0)
                l->gathered[1][b] = l->gathered[0][b];
        }
        if (l->uses[b].transient)
            l->reduced[b] = l->intervals[l->reduced[b]].offset;
    }
}

static void follow_roots(struct layout *l) {
    for (int v = 0; v < l->g->value_count; v++) {
        for (int phase = 0; phase < 2; phase++) {
            if (root_of(l, v) != v)
                l->p->place[phase][v] = l->p->place[phase][root_of(l, v)];
            if (l->p->place[phase][v].in == ZT_NOWHERE && l->g->values[v]->data)
                l->p->place[phase][v].in = ZT_CONSTANT;
        }
    }
}

static void measure_workspace(struct layout *l) {
    for (int n = 0; n < l->g->node_count; n++)
        if ((int64_t)l->p->prepared[n].workspace_bytes > l->p->workspace_bytes)
            l->p->workspace_bytes = (int64_t)l->p->prepared[n].workspace_bytes;
}

static void lay_out(struct zt_program *p, const struct zt_program_options *o) {
    struct zt_graph *g = p->training_graph.graph;
    struct layout l = { .p = p, .o = o, .g = g, .scratch = zt_arena_create() };
    l.derived = ZT_NEW_N(l.scratch, bool, g->node_count + 1);
    l.skipped = ZT_NEW_N(l.scratch, bool, g->node_count + 1);
    l.live_out = ZT_NEW_N(l.scratch, bool, g->value_count + 1);
    l.from_params = ZT_NEW_N(l.scratch, bool, g->value_count + 1);
    l.frozen = ZT_NEW_N(l.scratch, bool, g->value_count + 1);
    l.parent = ZT_NEW_N(l.scratch, int, g->value_count + 1);
    l.shared = ZT_NEW_N(l.scratch, bool, g->value_count + 1);
    l.gradient_of = ZT_NEW_N(l.scratch, int, g->value_count + 1);
    l.direct = ZT_NEW_N(l.scratch, bool, g->value_count + 1);
    l.last = ZT_NEW_N(l.scratch, int, g->value_count + 1);
    l.flats = (struct zt_flats){ o->flat, o->frozen ? o->frozen->flat : NULL };
    l.frozen_value = ZT_NEW_N(l.scratch, int, l.flats.frozen ? l.flats.frozen->tensor_count + 1 : 1);
    const int buckets = zt_flats_buckets(&l.flats);
    l.uses = ZT_NEW_N(l.scratch, struct zt_bucket_use, buckets + 1);
    for (int phase = 0; phase < 2; phase++) {
        l.gathered[phase] = ZT_NEW_N(l.scratch, int64_t, buckets + 1);
        p->place[phase] = ZT_NEW_N(p->arena, struct zt_place, g->value_count + 1);
    }
    l.reduced = ZT_NEW_N(l.scratch, int64_t, buckets + 1);
    mark_kept(&l);
    mark_skipped(&l);
    find_last_readers(&l);
    count_gradients(&l);
    mark_in_place(&l);
    place_gradients(&l);
    zt_collectives_uses(p, o->flat, l.derived, p->training_graph.params,
                        p->training_graph.training ? l.gradients : NULL, l.uses);
    if (l.flats.frozen)
        zt_collectives_uses(p, l.flats.frozen, l.derived, l.frozen_value, NULL, l.uses + o->flat->bucket_count);
    zt_collectives_shard(p, &l.flats, o->sharding, o->traffic, l.uses);
    plan_memory(&l);
    place_frozen(&l);
    place_parameters(&l);
    place_derived(&l);
    place_fed(&l);
    follow_roots(&l);
    measure_workspace(&l);
    struct zt_collectives_input in = { &l.flats,    o->sharding, l.skipped,
                                       l.gradients, l.uses,      { l.gathered[0], l.gathered[1] },
                                       l.reduced };
    zt_collectives_emit(p, &in);
    zt_arena_destroy(l.scratch);
}

struct zt_program *zt_program_create(const struct zt_training_graph *training_graph, const struct zt_program_options *o,
                                     struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_program *p = ZT_NEW(arena, struct zt_program);
    p->arena = arena;
    p->stage = o->stage;
    take_training_graph(p, training_graph);
    if (p->training_graph.param_count != o->flat->tensor_count) {
        zt_fail(err, ZT_EXIT_MODEL, "stage %d has %d parameters for one batch size or graph, %d for another", o->stage,
                o->flat->tensor_count, p->training_graph.param_count);
        zt_program_destroy(p);
        return NULL;
    }
    if (!zt_program_stage_graph(p, o->stages, err) ||
        !zt_pass_compute_in_float(p->training_graph.graph, o->table, o->fast, err) || !fuse(p, o, err) ||
        !recompute(p, o, err) || !assign(p, o, err)) {
        zt_program_destroy(p);
        return NULL;
    }
    lay_out(p, o);
    return p;
}

void zt_program_destroy(struct zt_program *p) {
    if (!p)
        return;
    zt_assign_release(p->training_graph.graph, p->prepared);
    zt_graph_destroy(p->training_graph.graph);
    zt_arena_destroy(p->arena);
}
