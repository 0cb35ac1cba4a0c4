/* Positions of collectives and releases among the nodes, and the table of what each ZeRO stage shards. No other file
 * depends on the stage.
 *
 *     ddp    backward  ... dw2 dw1 REDUCE(b0, all)                 last micro-batch only; every rank holds the sum
 *     dp     backward  ... dw2 dw1 REDUCE(b0)                      as zero1, where rank 0 owns everything
 *     zero1  backward  ... dw2 dw1 REDUCE(b0)                      last micro-batch only; the owner holds the sum
 *     zero2  backward  ... dw2 dw1 REDUCE(b0, to shard)            every micro-batch; the bucket's memory is free again
 *            without reduce_scatter: as above, but REDUCE(b0, all), from which the owner takes its slice
 *     zero3  forward   GATHER(b0) n1 n2 RELEASE(b0) GATHER(b1) n3 ...
 *            backward  GATHER(b1) n3' RELEASE(b1) GATHER(b0) n2' n1' RELEASE(b0) REDUCE(b0, to shard)
 *            Buckets of frozen weights are gathered and released in the same way. Nothing reduces them.
 *
 * GATHER and REDUCE begin a collective, GATHERED and REDUCED wait for it. Spread over time (zt_traffic):
 *
 *     overlap, zero2   dw3 REDUCE(b1) dw2 dw1 REDUCED(b1) REDUCE(b0) ... REDUCED(b0)    two buckets in memory
 *     overlap, ddp     dw3 REDUCE(b1) dw2 dw1 REDUCE(b0) REDUCED(b0) REDUCED(b1)        in the gradient block
 *     prefetch         GATHER(b0) GATHER(b1) GATHERED(b0) n1 n2 RELEASE(b0) GATHER(b2) GATHERED(b1) n3 ... */
#include "parallel/schedule/collectives.h"

#include "graph/ir/op.h"

#include <stdlib.h>
#include <string.h>

struct zt_sharding {
    const char *name;
    bool optimizer, gradients, parameters;
    bool first_owns;  /* rank 0 owns everything (zt_flat_give_to_first) */
    bool all_reduces; /* every rank gets the sums of gradients, though it uses its own slices alone */
};

static const struct zt_sharding rows[] = {
    { .name = "ddp" },
    { .name = "zero1", .optimizer = true },
    { .name = "zero2", .optimizer = true, .gradients = true },
    { .name = "zero3", .optimizer = true, .gradients = true, .parameters = true },
};

/* Stages 1 and 2 without reduce_scatter. */
static const struct zt_sharding all_reducing[] = {
    { .name = "zero1", .optimizer = true, .all_reduces = true },
    { .name = "zero2", .optimizer = true, .gradients = true, .all_reduces = true },
};

/* One rank has no gradients or states of others. */
static const struct zt_sharding streamed = { .name = "zero3", .parameters = true };

static const struct zt_sharding of_replicas = { .name = "dp", .optimizer = true, .first_owns = true };

const struct zt_sharding *zt_sharding_of(int zero_stage) {
    return &rows[zero_stage];
}

const struct zt_sharding *zt_sharding_of_run(const struct zt_sharding_wish *wish) {
    if (wish->replicas)
        return &of_replicas;
    if (wish->data_ranks == 1)
        return wish->offloads_parameters ? &streamed : zt_sharding_of(0);
    if (!wish->reduce_scatter && (wish->zero_stage == 1 || wish->zero_stage == 2))
        return &all_reducing[wish->zero_stage - 1];
    return zt_sharding_of(wish->zero_stage);
}

const char *zt_sharding_name(const struct zt_sharding *s) {
    return s->name;
}

bool zt_sharding_splits_update(const struct zt_sharding *s) {
    return s->optimizer;
}

bool zt_sharding_gathers_for_use(const struct zt_sharding *s) {
    return s->parameters;
}

bool zt_sharding_gathers_after_step(const struct zt_sharding *s) {
    return s->optimizer && !s->parameters;
}

bool zt_sharding_reduces_in_place(const struct zt_sharding *s) {
    return !s->gradients;
}

void zt_collectives_assign(struct zt_flat *flat, const struct zt_sharding *s) {
    if (s->first_owns)
        zt_flat_give_to_first(flat);
}

int64_t zt_collectives_held_params(const struct zt_flat *flat, const struct zt_sharding *s, int rank) {
    return s->parameters ? flat->owned[rank] : flat->count;
}

int64_t zt_collectives_held_gradients(const struct zt_flat *flat, const struct zt_sharding *s, int rank) {
    return s->gradients ? flat->owned[rank] : flat->count;
}

int64_t zt_collectives_updated(const struct zt_flat *flat, const struct zt_sharding *s, int rank) {
    return s->optimizer ? zt_flat_stepped_by(flat, rank) : zt_flat_stepped(flat);
}

int64_t zt_collectives_param_at(const struct zt_flat *flat, const struct zt_sharding *s, int bucket, int rank) {
    return s->parameters ? zt_shard_offset(flat, bucket, rank) : zt_slice_first(flat, bucket, rank);
}

static void widen(int *first, int *last, int position) {
    if (*first < 0 || position < *first)
        *first = position;
    if (position > *last)
        *last = position;
}

void zt_collectives_uses(const struct zt_program *p, const struct zt_flat *flat, const bool *derived,
                         const int *param_value, const struct zt_gradient *gradients, struct zt_bucket_use *use) {
    const struct zt_graph *g = p->training_graph.graph;
    int *tensor_of = zt_malloc(((size_t)g->value_count + 1) * sizeof *tensor_of);
    memset(tensor_of, -1, ((size_t)g->value_count + 1) * sizeof *tensor_of);
    for (int b = 0; b < flat->bucket_count; b++)
        use[b] = (struct zt_bucket_use){ { -1, -1 }, { -1, -1 }, { -1, -1 }, -1, -1, -1, false };
    for (int t = 0; t < flat->tensor_count; t++)
        if (param_value[t] >= 0)
            tensor_of[param_value[t]] = t;
    for (int n = 0; n < g->node_count; n++) {
        /* a view of a parameter is the parameter: its readers use it too */
        for (int i = 0; !derived[n] && i < g->nodes[n]->in_count; i++) {
            int t = g->nodes[n]->in[i] < 0 ? -1 : tensor_of[g->nodes[n]->in[i]];
            if (t < 0 || flat->tensors[t].persistent >= 0)
                continue;
            struct zt_bucket_use *u = &use[flat->tensors[t].bucket];
            int phase = g->nodes[n]->phase;
            widen(&u->first[phase], &u->last[phase], n);
            if (i == 0 && g->nodes[n]->op->flags & ZT_OP_VIEW)
                tensor_of[g->nodes[n]->out[0]] = t;
        }
    }
    int first_backward = 0;
    while (first_backward < g->node_count && g->nodes[first_backward]->phase == ZT_FORWARD)
        first_backward++;
    for (int t = 0; gradients && t < flat->tensor_count; t++) {
        struct zt_bucket_use *u = &use[flat->tensors[t].bucket];
        int at = gradients[t].node < first_backward ? first_backward : gradients[t].node;
        widen(&u->grad_first, &u->grad_last, at);
    }
    free(tensor_of);
}

/* Elements of the parameters that nodes start to read behind node `after` and before node `before`. */
static int64_t used_between(const struct zt_flats *flats, const struct zt_bucket_use *use, int after, int before) {
    int64_t elems = 0;
    for (int b = 0; b < zt_flats_buckets(flats); b++)
        for (int phase = 0; phase < 2; phase++)
            if (use[b].first[phase] > after && use[b].first[phase] < before)
                elems += zt_flats_elems(flats, b);
    return elems;
}

int zt_collectives_gathered_until(const struct zt_bucket_use *u, int phase) {
    return phase == 0 && u->first[1] >= 0 && u->gather[1] < 0 ? u->last[1] : u->last[phase];
}

static int64_t live_at(const struct zt_flats *flats, const struct zt_bucket_use *use, int node) {
    int64_t elems = 0;
    for (int b = 0; b < zt_flats_buckets(flats); b++)
        for (int phase = 0; phase < 2; phase++)
            if (use[b].gather[phase] >= 0 && use[b].gather[phase] <= node &&
                zt_collectives_gathered_until(&use[b], phase) >= node)
                elems += zt_flats_elems(flats, b);
    return elems;
}

/* The bucket of `phase` that is read first from node `from` on, buckets of one node by number; -1: none. `behind` is
 * the one before it at the same node, or -1. */
static int next_read(const struct zt_flats *flats, const struct zt_bucket_use *use, int phase, int from, int behind) {
    int next = -1;
    for (int b = 0; b < zt_flats_buckets(flats); b++) {
        int first = use[b].first[phase];
        if (use[b].gather[phase] < 0 || first < from || (first == from && b <= behind))
            continue;
        if (next < 0 || first < use[next].first[phase])
            next = b;
    }
    return next;
}

/* Each gathering also begins those that follow in the order of use, while they stay within the prefetch and with what
 * is in place within max_live. A phase begins with its first gathering: nothing is ahead over the border of phases. */
static void prefetch(const struct zt_flats *flats, const struct zt_traffic *traffic, int phase,
                     struct zt_bucket_use *use) {
    for (int b = next_read(flats, use, phase, 0, -1), now; b >= 0; b = next_read(flats, use, phase, now, b)) {
        now = use[b].first[phase];
        int64_t ahead = 0;
        for (int n = next_read(flats, use, phase, now, b); n >= 0;
             n = next_read(flats, use, phase, use[n].first[phase], n)) {
            int64_t elems = zt_flats_elems(flats, n);
            bool begun = use[n].gather[phase] < use[n].first[phase];
            if (ahead >= traffic->prefetch || (!begun && live_at(flats, use, now) + elems > traffic->max_live))
                break;
            ahead += elems;
            if (!begun)
                use[n].gather[phase] = now;
        }
    }
}

/* Sums that lie where they were made are waited for at the end; others until the next bucket's is about to begin. */
static void spread_sums(const struct zt_flat *flat, const struct zt_sharding *sharding, bool overlap, int end,
                        struct zt_bucket_use *use) {
    for (int b = 0; b < flat->bucket_count; b++) {
        use[b].transient = sharding->gradients && use[b].grad_first >= 0;
        use[b].reduced = overlap ? end : use[b].grad_last;
        for (int other = 0; overlap && sharding->gradients && other < flat->bucket_count; other++)
            if (use[other].grad_last > use[b].grad_last && use[other].grad_last < use[b].reduced)
                use[b].reduced = use[other].grad_last;
    }
}

void zt_collectives_shard(const struct zt_program *p, const struct zt_flats *flats, const struct zt_sharding *sharding,
                          const struct zt_traffic *traffic, struct zt_bucket_use *use) {
    spread_sums(flats->trained, sharding, traffic->overlap, p->training_graph.graph->node_count, use);
    if (!sharding->parameters)
        return;
    for (int b = 0; b < zt_flats_buckets(flats); b++) {
        bool stays = use[b].first[0] >= 0 && use[b].first[1] >= 0 &&
                     used_between(flats, use, use[b].last[0], use[b].first[1]) < traffic->reuse_distance;
        use[b].gather[0] = use[b].first[0];
        use[b].gather[1] = stays ? -1 : use[b].first[1];
    }
    for (int phase = 0; phase < 2; phase++)
        prefetch(flats, traffic, phase, use);
}

int zt_collectives_slices(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, int first_bucket,
                          int end_bucket, struct zt_range *to) {
    int count = 0;
    for (int b = first_bucket; b < end_bucket; b++) {
        for (int r = 0; r < flat->ranks; r++) {
            int64_t first = zt_slice_first(flat, b, r), last = zt_slice_first(flat, b, r + 1);
            if (first == last || (sharding->optimizer && r != rank))
                continue;
            int64_t in_shard = zt_shard_offset(flat, b, r);
            to[count++] = (struct zt_range){ .first = first,
                                             .last = last,
                                             .param_at = zt_collectives_param_at(flat, sharding, b, r),
                                             .grad_at = sharding->gradients ? in_shard : first,
                                             .state_at = sharding->optimizer ? in_shard : first,
                                             .rank = r };
        }
    }
    return count;
}

int zt_collectives_owned(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank,
                         struct zt_range *to) {
    return zt_collectives_slices(flat, sharding, rank, 0, flat->own_buckets, to);
}

int zt_collectives_held(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, struct zt_range *to) {
    if (sharding->parameters)
        return zt_collectives_slices(flat, sharding, rank, 0, flat->bucket_count, to);
    to[0] = (struct zt_range){ .first = 0, .last = flat->count, .rank = rank };
    return 1;
}

int zt_collectives_after_step(const struct zt_flat *flat, const struct zt_sharding *sharding, struct zt_command *to) {
    int count = 0;
    for (int kind = ZT_GATHER; kind <= ZT_GATHERED; kind++)
        for (int b = 0; zt_sharding_gathers_after_step(sharding) && b < flat->bucket_count; b++)
            to[count++] = (struct zt_command){ .kind = (enum zt_command_kind)kind,
                                               .bucket = b,
                                               .at = { ZT_PARAMETERS, flat->bucket[b] * (int64_t)sizeof(float) } };
    return count;
}

/* Lists of tensors or buckets by node, in ascending order. Position -1 is before the backward phase. */
struct chain {
    int *first, *next; /* by position + 1; by number */
};

static struct chain make_chain(struct zt_arena *arena, int nodes, int count) {
    struct chain c = { ZT_NEW_N(arena, int, nodes + 2), ZT_NEW_N(arena, int, count + 1) };
    memset(c.first, -1, ((size_t)nodes + 2) * sizeof *c.first);
    return c;
}

/* Numbers are to be put in from the highest to the lowest. */
static void chain_put(struct chain *c, int position, int number) {
    c->next[number] = c->first[position + 1];
    c->first[position + 1] = number;
}

struct emitter {
    struct zt_program *p;
    const struct zt_collectives_input *in;
    /* by node; of tensors, of buckets by phase, of buckets */
    struct chain gradients, gathers[2], gathered[2], releases[2], reduces, reduced;
    struct zt_command *at;
    int count;
};

static void make_chains(struct emitter *e, struct zt_arena *scratch) {
    const struct zt_flat *flat = e->in->flats->trained;
    const int buckets = zt_flats_buckets(e->in->flats);
    int nodes = e->p->training_graph.graph->node_count + 1; /* one more: behind the last node */
    e->gradients = make_chain(scratch, nodes, flat->tensor_count);
    e->reduces = make_chain(scratch, nodes, flat->bucket_count);
    e->reduced = make_chain(scratch, nodes, flat->bucket_count);
    for (int t = flat->tensor_count - 1; e->p->training_graph.training && t >= 0; t--)
        chain_put(&e->gradients, e->in->gradients[t].node, t);
    for (int b = flat->bucket_count - 1; flat->ranks > 1 && b >= 0; b--) {
        chain_put(&e->reduces, e->in->use[b].grad_last, b);
        chain_put(&e->reduced, e->in->use[b].reduced, b);
    }
    for (int phase = 0; phase < 2; phase++) {
        e->gathers[phase] = make_chain(scratch, nodes, buckets);
        e->gathered[phase] = make_chain(scratch, nodes, buckets);
        e->releases[phase] = make_chain(scratch, nodes, buckets);
        for (int b = buckets - 1; e->in->sharding->parameters && b >= 0; b--) {
            const struct zt_bucket_use *u = &e->in->use[b];
            chain_put(&e->gathered[phase], u->gather[phase] < 0 ? -1 : u->first[phase], b);
            chain_put(&e->releases[phase],
                      zt_collectives_gathered_until(u, phase) == u->last[phase] ? u->last[phase] : -1, b);
        }
    } /* in the order of use: backward comes to the last bucket first */
    for (int b = buckets - 1; e->in->sharding->parameters && b >= 0; b--) {
        chain_put(&e->gathers[0], e->in->use[b].gather[0], b);
        chain_put(&e->gathers[1], e->in->use[buckets - 1 - b].gather[1], buckets - 1 - b);
    }
}

static struct zt_place gradient_place(const struct zt_collectives_input *in, int bucket) {
    if (in->sharding->gradients)
        return (struct zt_place){ ZT_ACTIVATIONS, in->reduced[bucket] };
    return (struct zt_place){ ZT_GRADIENTS, in->flats->trained->bucket[bucket] * (int64_t)sizeof(float) };
}

static void emit(struct emitter *e, struct zt_command command) {
    e->at[e->count++] = command;
}

static void emit_gather(struct emitter *e, int b, enum zt_phase phase, enum zt_command_kind kind) {
    emit(e, (struct zt_command){
                .kind = kind, .bucket = b, .shard = true, .at = { ZT_ACTIVATIONS, e->in->gathered[phase][b] } });
}

static void emit_gathers(struct emitter *e, int node, enum zt_phase phase, const struct chain *c,
                         enum zt_command_kind kind) {
    for (int b = c->first[node + 1]; b >= 0; b = c->next[b])
        emit_gather(e, b, phase, kind);
}

/* Those that the node waits for go before those that are fetched ahead. */
static void begin_gathers(struct emitter *e, int node, enum zt_phase phase) {
    const struct chain *c = &e->gathers[phase];
    for (int ahead = 0; ahead < 2; ahead++)
        for (int b = c->first[node + 1]; b >= 0; b = c->next[b])
            if ((e->in->use[b].first[phase] > node) == ahead)
                emit_gather(e, b, phase, ZT_GATHER);
}

static void emit_gradients(struct emitter *e, int node) {
    const struct zt_flat *flat = e->in->flats->trained;
    for (int t = e->gradients.first[node + 1]; t >= 0; t = e->gradients.next[t]) {
        const struct zt_gradient *gradient = &e->in->gradients[t];
        if (gradient->direct)
            continue;
        struct zt_command c = { .kind = gradient->value < 0 ? ZT_ZERO_GRAD : ZT_ADD_GRAD,
                                .tensor = t,
                                .value = gradient->value,
                                .accumulate = !e->in->sharding->gradients };
        c.at = gradient_place(e->in, flat->tensors[t].bucket);
        c.at.offset += (flat->tensors[t].offset - flat->bucket[flat->tensors[t].bucket]) * (int64_t)sizeof(float);
        emit(e, c);
    }
}

/* Whether the node adds into the gradient block itself. */
static bool accumulates(const struct emitter *e, int node) {
    bool direct = false;
    for (int t = e->gradients.first[node + 1]; t >= 0; t = e->gradients.next[t])
        direct |= e->in->gradients[t].direct;
    return direct && !e->in->sharding->gradients;
}

static void emit_reduce(struct emitter *e, int b, enum zt_command_kind kind) {
    emit(e, (struct zt_command){ .kind = kind,
                                 .bucket = b,
                                 .at = gradient_place(e->in, b),
                                 .last_only = !e->in->sharding->gradients,
                                 .shard = e->in->sharding->gradients,
                                 .all = !e->in->sharding->optimizer || e->in->sharding->all_reduces });
}

/* Emits the reductions at a node; those that began earlier end before new ones begin. */
static void emit_reduces(struct emitter *e, int node) {
    const struct zt_bucket_use *use = e->in->use;
    for (int b = e->reduced.first[node + 1]; b >= 0; b = e->reduced.next[b])
        if (use[b].grad_last < node)
            emit_reduce(e, b, ZT_REDUCED);
    for (int b = e->reduces.first[node + 1]; b >= 0; b = e->reduces.next[b]) {
        emit_reduce(e, b, ZT_REDUCE);
        if (use[b].reduced == node)
            emit_reduce(e, b, ZT_REDUCED);
    }
}

static void emit_node(struct emitter *e, int n, enum zt_phase phase) {
    begin_gathers(e, n, phase);
    emit_gathers(e, n, phase, &e->gathered[phase], ZT_GATHERED);
    if (!e->in->skipped[n])
        emit(e, (struct zt_command){
                    .kind = ZT_RUN_NODE, .node = n, .accumulate = phase == ZT_BACKWARD && accumulates(e, n) });
    emit_gathers(e, n, phase, &e->releases[phase], ZT_RELEASE);
    if (phase == ZT_BACKWARD) {
        emit_gradients(e, n);
        emit_reduces(e, n);
    }
}

void zt_collectives_emit(struct zt_program *p, const struct zt_collectives_input *in) {
    const struct zt_graph *g = p->training_graph.graph;
    int room = g->node_count + 6 * zt_flats_buckets(in->flats) + in->flats->trained->tensor_count + 1, n = 0;
    struct zt_arena *scratch = zt_arena_create();
    struct emitter e = { .p = p, .in = in };
    make_chains(&e, scratch);
    e.at = p->forward = ZT_NEW_N(p->arena, struct zt_command, room);
    for (; n < g->node_count && g->nodes[n]->phase == ZT_FORWARD; n++)
        emit_node(&e, n, ZT_FORWARD);
    p->forward_count = e.count;
    e.at = p->backward = ZT_NEW_N(p->arena, struct zt_command, room);
    e.count = 0;
    if (p->training_graph.training)
        emit_gradients(&e, -1);
    for (; p->training_graph.training && n < g->node_count; n++)
        emit_node(&e, n, ZT_BACKWARD);
    if (p->training_graph.training) /* buckets that no backward node has to do with where there is none */
        emit_reduces(&e, g->node_count);
    p->backward_count = e.count;
    zt_arena_destroy(scratch);
}
