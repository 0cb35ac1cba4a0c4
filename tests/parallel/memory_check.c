#include "memory_check.h"
#include "parallel/schedule/collectives.h"

#include <check.h>
#include <string.h>

/* Names: value ids; behind them the gradients of the tensors; behind them what a collective is still moving. */
struct walk {
    const struct zt_program *p;
    const struct zt_graph *g;
    const struct zt_flat *flat;
    const struct zt_sharding *sharding;
    struct zt_arena *arena;
    int *block;    /* by four bytes: the name of what is there, -1 */
    int *contents; /* by value: whose contents it has (a view: its source's) */
    bool *is_param;
    const char *now; /* what runs, for messages */
};

static void check_inside(const struct walk *w, int64_t offset, int64_t bytes) {
    ck_assert_msg(offset >= 0 && offset % 4 == 0 && offset + bytes <= w->p->activation_bytes, "%s: bytes %lld of %lld",
                  w->now, (long long)(offset + bytes), (long long)w->p->activation_bytes);
}

static void write_name(const struct walk *w, int64_t offset, int64_t bytes, int name) {
    check_inside(w, offset, bytes);
    for (int64_t i = offset / 4; i < (offset + bytes + 3) / 4; i++)
        w->block[i] = name;
}

static void expect_name(const struct walk *w, int64_t offset, int64_t bytes, int name, const char *what) {
    check_inside(w, offset, bytes);
    const int64_t end = (offset + bytes + 3) / 4;
    int64_t i = offset / 4;
    while (i < end && w->block[i] == name) /* an assertion that passes costs a write to Check's pipe */
        i++;
    ck_assert_msg(i == end, "%s reads \"%s\", but \"%s\" is there", w->now, what,
                  i == end || w->block[i] < 0       ? "nothing"
                  : w->block[i] < w->g->value_count ? w->g->values[w->block[i]]->name
                                                    : "a gradient or a bucket underway");
}

static void expect_value(const struct walk *w, int phase, int value) {
    const struct zt_place *place = &w->p->place[phase][value];
    const struct zt_value *v = w->g->values[value];
    ck_assert_msg(place->in != ZT_NOWHERE, "%s reads \"%s\", which is nowhere", w->now, v->name);
    ck_assert_msg(place->in != ZT_CONSTANT || v->data, "%s reads constant \"%s\" without contents", w->now, v->name);
    if (place->in == ZT_ACTIVATIONS)
        expect_name(w, place->offset, zt_value_bytes(v), w->contents[value], v->name);
}

static bool overlap(const struct walk *w, int phase, int a, int b) {
    const struct zt_place *x = &w->p->place[phase][a], *y = &w->p->place[phase][b];
    return x->in == y->in && x->offset < y->offset + zt_value_bytes(w->g->values[b]) &&
           y->offset < x->offset + zt_value_bytes(w->g->values[a]);
}

static void run_node(const struct walk *w, int n) {
    const struct zt_node *node = w->g->nodes[n];
    int phase = (int)node->phase;
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0)
            expect_value(w, phase, node->in[i]);
    for (int o = 0; o < node->out_count; o++) {
        int v = node->out[o];
        if (v < 0)
            continue;
        ck_assert_int_ne(w->p->place[phase][v].in, ZT_NOWHERE);
        for (int i = 0; i < node->in_count; i++) { /* it may write over one input alone, and only from its start */
            const int on = zt_op_in_place(node);
            bool in_place = o == 0 && i == node->op->in_place && on >= 0 &&
                            w->p->place[phase][v].offset == w->p->place[phase][on].offset;
            ck_assert_msg(node->in[i] < 0 || in_place || !overlap(w, phase, v, node->in[i]), "%s writes over its input",
                          w->now);
        }
        for (int k = 0; k < o; k++)
            ck_assert_msg(node->out[k] < 0 || !overlap(w, phase, v, node->out[k]), "outputs of %s overlap", w->now);
        if (w->p->place[phase][v].in == ZT_ACTIVATIONS)
            write_name(w, w->p->place[phase][v].offset, zt_value_bytes(w->g->values[v]), w->contents[v]);
    }
}

static int gradient_name(const struct walk *w, int tensor) {
    return w->g->value_count + tensor;
}

static int underway_name(const struct walk *w, int tensor) {
    return w->g->value_count + w->flat->tensor_count + tensor;
}

static void put_gradient(const struct walk *w, const struct zt_command *c) {
    const struct zt_flat_tensor *t = &w->flat->tensors[c->tensor];
    if (c->kind == ZT_ADD_GRAD)
        expect_value(w, ZT_BACKWARD, c->value);
    ck_assert_int_eq(c->at.in, zt_sharding_reduces_in_place(w->sharding) ? ZT_GRADIENTS : ZT_ACTIVATIONS);
    if (c->at.in == ZT_ACTIVATIONS)
        write_name(w, c->at.offset, t->count * 4, gradient_name(w, c->tensor));
    else
        ck_assert_int_eq(c->at.offset, t->offset * 4);
}

/* All gradients of the bucket are in place when it is reduced. */
static void reduce(const struct walk *w, const struct zt_command *c) {
    for (int t = 0; c->at.in == ZT_ACTIVATIONS && t < w->flat->tensor_count; t++) {
        const struct zt_flat_tensor *tensor = &w->flat->tensors[t];
        if (tensor->bucket != c->bucket)
            continue;
        int value = w->p->training_graph.grads[t];
        int64_t at = c->at.offset + (tensor->offset - w->flat->bucket[c->bucket]) * 4;
        bool direct = value >= 0 && w->p->place[ZT_BACKWARD][value].in == ZT_ACTIVATIONS &&
                      w->p->place[ZT_BACKWARD][value].offset == at;
        expect_name(w, at, tensor->count * 4, direct ? value : gradient_name(w, t), tensor->name);
        write_name(w, at, tensor->count * 4, underway_name(w, t));
    }
}

/* Nobody has written where the bucket was summed. */
static void reduced(const struct walk *w, const struct zt_command *c) {
    for (int t = 0; c->at.in == ZT_ACTIVATIONS && t < w->flat->tensor_count; t++) {
        const struct zt_flat_tensor *tensor = &w->flat->tensors[t];
        if (tensor->bucket == c->bucket)
            expect_name(w, c->at.offset + (tensor->offset - w->flat->bucket[c->bucket]) * 4, tensor->count * 4,
                        underway_name(w, t), tensor->name);
    }
}

/* A bucket's parameters begin to come into place, are there, or go. */
static void gather(const struct walk *w, const struct zt_command *c) {
    for (int t = 0; t < w->flat->tensor_count; t++) {
        const struct zt_flat_tensor *tensor = &w->flat->tensors[t];
        int64_t at = c->at.offset + (tensor->offset - w->flat->bucket[c->bucket]) * 4, bytes = tensor->count * 4;
        if (tensor->bucket != c->bucket)
            continue;
        if (c->kind == ZT_GATHERED)
            expect_name(w, at, bytes, underway_name(w, t), tensor->name);
        write_name(w, at, bytes,
                   c->kind == ZT_GATHER     ? underway_name(w, t)
                   : c->kind == ZT_GATHERED ? w->p->training_graph.params[t]
                                            : -1);
    }
}

static void walk_phase(struct walk *w, const struct zt_command *at, int count) {
    for (int i = 0; i < count; i++) {
        const struct zt_command *c = &at[i];
        w->now = c->kind == ZT_RUN_NODE ? w->g->nodes[c->node]->name : "a command";
        if (c->kind == ZT_RUN_NODE)
            run_node(w, c->node);
        else if (c->kind == ZT_ADD_GRAD || c->kind == ZT_ZERO_GRAD)
            put_gradient(w, c);
        else if (c->kind == ZT_REDUCE)
            reduce(w, c);
        else if (c->kind == ZT_REDUCED)
            reduced(w, c);
        else
            gather(w, c);
    }
}

static void receive(const struct walk *w, const struct zt_boundary_tensors *c) {
    for (int i = 0; i < c->count; i++) {
        const struct zt_place *place = &w->p->place[0][c->at[i].value];
        ck_assert_int_eq(place->in, ZT_ACTIVATIONS);
        write_name(w, place->offset, (int64_t)c->at[i].bytes, w->contents[c->at[i].value]);
    }
}

static void send(struct walk *w, const struct zt_boundary_tensors *c) {
    w->now = "a send";
    for (int i = 0; i < c->count; i++) {
        ck_assert_int_eq((int64_t)c->at[i].bytes, zt_value_bytes(w->g->values[c->at[i].value]));
        ck_assert_ptr_null(w->g->values[c->at[i].value]->layout);
        expect_value(w, 0, c->at[i].value);
    }
}

static void find_contents(struct walk *w) {
    bool *runs = ZT_NEW_N(w->arena, bool, w->g->node_count + 1);
    for (int i = 0; i < w->p->forward_count; i++)
        runs[w->p->forward[i].node] |= w->p->forward[i].kind == ZT_RUN_NODE;
    for (int i = 0; i < w->p->backward_count; i++)
        runs[w->p->backward[i].node] |= w->p->backward[i].kind == ZT_RUN_NODE;
    for (int i = 0; i < w->p->derive_count; i++)
        runs[w->p->derive[i].node] |= w->p->derive[i].kind == ZT_RUN_NODE;
    for (int v = 0; v < w->g->value_count; v++)
        w->contents[v] = v;
    for (int n = 0; n < w->g->node_count; n++) {
        const struct zt_node *node = w->g->nodes[n];
        if (runs[n])
            continue;
        ck_assert_msg(node->op->flags & ZT_OP_VIEW, "%s (%s) is never run", node->name, node->op_type);
        w->contents[node->out[0]] = w->contents[node->in[0]];
    }
}

/* Derived values lie apart in their own block. */
static void check_derived(struct walk *w) {
    int *block = ZT_NEW_N(w->arena, int, w->p->derived_bytes / 4 + 1);
    for (int i = 0; i < w->p->derive_count; i++) {
        if (w->p->derive[i].kind != ZT_RUN_NODE)
            continue;
        const struct zt_node *node = w->g->nodes[w->p->derive[i].node];
        for (int o = 0; o < node->out_count; o++) {
            const struct zt_place *place = &w->p->place[0][node->out[o]];
            ck_assert_int_eq(place->in, ZT_DERIVED);
            ck_assert_int_le(place->offset + zt_value_bytes(w->g->values[node->out[o]]), w->p->derived_bytes);
            for (int64_t k = place->offset / 4; k < (place->offset + zt_value_bytes(w->g->values[node->out[o]])) / 4;
                 k++)
                ck_assert_int_eq(block[k]++, 0);
        }
    }
}

void check_program_memory(const struct zt_program *p, const struct zt_flat *flat, const struct zt_sharding *sharding) {
    struct zt_arena *arena = zt_arena_create();
    struct walk w = { .p = p, .g = p->training_graph.graph, .flat = flat, .sharding = sharding, .arena = arena };
    w.block = ZT_NEW_N(arena, int, p->activation_bytes / 4 + 16);
    memset(w.block, -1, ((size_t)p->activation_bytes / 4 + 16) * sizeof *w.block);
    w.contents = ZT_NEW_N(arena, int, w.g->value_count + 1);
    find_contents(&w);
    check_derived(&w);
    receive(&w, &p->recv_act);
    walk_phase(&w, p->forward, p->forward_count);
    w.now = "the end of forward";
    const int kept[3] = { p->training_graph.loss, p->training_graph.correct, p->training_graph.counted };
    for (int i = 0; i < 3; i++)
        if (kept[i] >= 0)
            expect_value(&w, 0, kept[i]);
    for (int i = 0; i < w.g->write_back_count; i++)
        expect_value(&w, 0, w.g->write_backs[i].value);
    send(&w, &p->send_act);
    if (p->training_graph.training) {
        receive(&w, &p->recv_grad);
        walk_phase(&w, p->backward, p->backward_count);
        send(&w, &p->send_grad);
    }
    zt_arena_destroy(arena);
}
