/* Where collectives and releases stand among the nodes: the only file with a condition on how ZeRO spreads things.
 *
 *     ddp    backward  ... dw2 dw1 REDUCE(b0, all)                 last micro-batch only; every rank holds the sum
 *     zero1  backward  ... dw2 dw1 REDUCE(b0)                      last micro-batch only; the owner holds the sum
 *     zero2  backward  ... dw2 dw1 REDUCE(b0, to shard)            every micro-batch; the bucket's memory is free again
 *     zero3  forward   GATHER(b0) n1 n2 RELEASE(b0) GATHER(b1) n3 ...
 *            backward  GATHER(b1) n3' RELEASE(b1) GATHER(b0) n2' n1' RELEASE(b0) REDUCE(b0, to shard) */
#include "parallel/program.h"

#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

static const struct zt_sharding rows[] = {
    { .name = "ddp" },
    { .name = "zero1", .optimizer = true },
    { .name = "zero2", .optimizer = true, .gradients = true },
    { .name = "zero3", .optimizer = true, .gradients = true, .parameters = true },
};

const struct zt_sharding *zt_sharding_of(int zero_stage) {
    return &rows[zero_stage];
}

static void widen(int *first, int *last, int position) {
    if (*first < 0 || position < *first)
        *first = position;
    if (position > *last)
        *last = position;
}

void zt_hooks_uses(const struct zt_program *p, const struct zt_flat *flat, const bool *derived, const int *param_value,
                   const struct zt_gradient *gradients, struct zt_bucket_use *use) {
    const struct zt_graph *g = p->joint.graph;
    int *tensor_of = zt_malloc(((size_t)g->value_count + 1) * sizeof *tensor_of);
    memset(tensor_of, -1, ((size_t)g->value_count + 1) * sizeof *tensor_of);
    for (int b = 0; b < flat->bucket_count; b++)
        use[b] = (struct zt_bucket_use){ { -1, -1 }, { -1, -1 }, -1, -1 };
    for (int t = 0; t < flat->tensor_count; t++)
        tensor_of[param_value[t]] = t;
    for (int n = 0; n < g->node_count; n++) {
        /* a view of a parameter is the parameter: its readers use it too */
        for (int i = 0; !derived[n] && i < g->nodes[n].in_count; i++) {
            int t = g->nodes[n].in[i] < 0 ? -1 : tensor_of[g->nodes[n].in[i]];
            if (t < 0)
                continue;
            struct zt_bucket_use *u = &use[flat->tensors[t].bucket];
            int phase = g->nodes[n].phase;
            widen(&u->first[phase], &u->last[phase], n);
            if (i == 0 && g->nodes[n].op->flags & ZT_OP_VIEW)
                tensor_of[g->nodes[n].out[0]] = t;
        }
    }
    int first_backward = 0;
    while (first_backward < g->node_count && g->nodes[first_backward].phase == ZT_FORWARD)
        first_backward++;
    for (int t = 0; gradients && t < flat->tensor_count; t++) {
        struct zt_bucket_use *u = &use[flat->tensors[t].bucket];
        int at = gradients[t].node < first_backward ? first_backward : gradients[t].node;
        widen(&u->grad_first, &u->grad_last, at);
    }
    free(tensor_of);
}

int zt_hooks_owned(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, struct zt_range *to) {
    int count = 0;
    for (int b = 0; b < flat->bucket_count; b++) {
        for (int r = 0; r < flat->ranks; r++) {
            int64_t first = zt_slice_first(flat, b, r), last = zt_slice_first(flat, b, r + 1);
            if (first == last || (sharding->optimizer && r != rank))
                continue;
            int64_t in_shard = zt_shard_offset(flat, b, r);
            to[count++] = (struct zt_range){ .first = first,
                                             .last = last,
                                             .param_at = sharding->parameters ? in_shard : first,
                                             .grad_at = sharding->gradients ? in_shard : first,
                                             .state_at = sharding->optimizer ? in_shard : first,
                                             .rank = r };
        }
    }
    return count;
}

int zt_hooks_held(const struct zt_flat *flat, const struct zt_sharding *sharding, int rank, struct zt_range *to) {
    if (sharding->parameters)
        return zt_hooks_owned(flat, sharding, rank, to);
    to[0] = (struct zt_range){ .first = 0, .last = flat->count, .rank = rank };
    return 1;
}

int zt_hooks_after_step(const struct zt_flat *flat, const struct zt_sharding *sharding, struct zt_command *to) {
    int count = 0;
    for (int b = 0; sharding->optimizer && !sharding->parameters && b < flat->bucket_count; b++)
        to[count++] = (struct zt_command){ .kind = ZT_GATHER,
                                           .bucket = b,
                                           .at = { ZT_PARAMETERS, flat->bucket[b] * (int64_t)sizeof(float) } };
    return count;
}

struct emitter {
    struct zt_program *p;
    const struct zt_hook_input *in;
    struct zt_command *at;
    int count;
};

static struct zt_place gradient_place(const struct zt_hook_input *in, int bucket) {
    if (in->sharding->gradients)
        return (struct zt_place){ ZT_ACTIVATIONS, in->reduced[bucket] };
    return (struct zt_place){ ZT_GRADIENTS, in->flat->bucket[bucket] * (int64_t)sizeof(float) };
}

static void emit(struct emitter *e, struct zt_command command) {
    e->at[e->count++] = command;
}

static void emit_gathers(struct emitter *e, int node, enum zt_phase phase, enum zt_command_kind kind) {
    for (int b = 0; e->in->sharding->parameters && b < e->in->flat->bucket_count; b++) {
        const struct zt_bucket_use *u = &e->in->use[b];
        if ((kind == ZT_GATHER ? u->first[phase] : u->last[phase]) == node)
            emit(e, (struct zt_command){ .kind = kind,
                                         .bucket = b,
                                         .shard = true,
                                         .at = { ZT_ACTIVATIONS, e->in->gathered[phase][b] } });
    }
}

static void emit_gradients(struct emitter *e, int node) {
    const struct zt_flat *flat = e->in->flat;
    for (int t = 0; t < flat->tensor_count; t++) {
        const struct zt_gradient *gradient = &e->in->gradients[t];
        if (gradient->node != node || gradient->direct)
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
    for (int t = 0; !e->in->sharding->gradients && t < e->in->flat->tensor_count; t++)
        if (e->in->gradients[t].node == node && e->in->gradients[t].direct)
            return true;
    return false;
}

static void emit_reduces(struct emitter *e, int node) {
    for (int b = 0; e->in->flat->ranks > 1 && b < e->in->flat->bucket_count; b++)
        if (e->in->use[b].grad_last == node)
            emit(e, (struct zt_command){ .kind = ZT_REDUCE,
                                         .bucket = b,
                                         .at = gradient_place(e->in, b),
                                         .last_only = !e->in->sharding->gradients,
                                         .shard = e->in->sharding->gradients,
                                         .all = !e->in->sharding->optimizer });
}

void zt_hooks_emit(struct zt_program *p, const struct zt_hook_input *in) {
    const struct zt_graph *g = p->joint.graph;
    int room = g->node_count + 4 * in->flat->bucket_count + in->flat->tensor_count + 1;
    for (int phase = ZT_FORWARD; phase <= (p->joint.training ? ZT_BACKWARD : ZT_FORWARD); phase++) {
        struct emitter e = { p, in, ZT_NEW_N(p->arena, struct zt_command, room), 0 };
        bool begun = false;
        for (int n = 0; n < g->node_count; n++) {
            if ((int)g->nodes[n].phase != phase)
                continue;
            if (phase == ZT_BACKWARD && !begun)
                emit_gradients(&e, -1);
            begun = true;
            emit_gathers(&e, n, (enum zt_phase)phase, ZT_GATHER);
            if (!in->skipped[n])
                emit(&e, (struct zt_command){ .kind = ZT_RUN_NODE,
                                              .node = n,
                                              .accumulate = phase == ZT_BACKWARD && accumulates(&e, n) });
            emit_gathers(&e, n, (enum zt_phase)phase, ZT_RELEASE);
            if (phase == ZT_BACKWARD) {
                emit_gradients(&e, n);
                emit_reduces(&e, n);
            }
        }
        *(phase == ZT_FORWARD ? &p->forward : &p->backward) = e.at;
        *(phase == ZT_FORWARD ? &p->forward_count : &p->backward_count) = e.count;
    }
}
