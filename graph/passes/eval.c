#include "graph/passes/eval.h"

#include "base/align.h"
#include "base/process_memory.h"
#include "graph/passes/eval_fast.h"
#include "graph/passes/lower.h"

#include <limits.h>
#include <stdlib.h>

struct zt_eval {
    struct zt_graph *g;
    struct zt_arena *arena;
    const struct zt_random *random;
    int threads;
    bool borrows_arena, results_alone, fast;
    void *fast_memory; /* zt_eval_use_fast */
    size_t fast_bytes;
    struct zt_eval_kept kept; /* zt_eval_keep; without the memory that is taken */
    /* Where values are freed behind their last reader, by value; otherwise NULL: */
    int *last;               /* the last node that reads it, -1: none, INT_MAX: it is a result */
    struct zt_arena **owned; /* its memory */
    int owned_count;
    size_t owned_bytes;
};

static struct zt_eval *create(const struct zt_eval *from) {
    struct zt_eval *eval = zt_malloc(sizeof *eval);
    *eval = *from;
    return eval;
}

struct zt_eval *zt_eval_create(struct zt_graph *g, const struct zt_random *random, int threads) {
    return create(&(struct zt_eval){ .g = g, .arena = zt_arena_create(), .random = random, .threads = threads });
}

struct zt_eval *zt_eval_create_within(struct zt_graph *g, const struct zt_random *random, int threads) {
    return create(
        &(struct zt_eval){ .g = g, .arena = g->arena, .random = random, .threads = threads, .borrows_arena = true });
}

void zt_eval_destroy(struct zt_eval *eval) {
    if (!eval)
        return;
    if (!eval->borrows_arena)
        zt_arena_destroy(eval->arena);
    for (int v = 0; v < eval->owned_count; v++)
        zt_arena_destroy(eval->owned[v]);
    free(eval->owned);
    free(eval->last);
    free(eval);
}

void zt_eval_results_alone(struct zt_eval *eval) {
    eval->results_alone = true;
}

void zt_eval_use_fast(struct zt_eval *eval, void *memory, size_t bytes) {
    eval->fast = true;
    eval->fast_memory = memory;
    eval->fast_bytes = bytes;
}

void zt_eval_keep(struct zt_eval *eval, const struct zt_eval_kept *kept) {
    eval->kept = *kept;
}

/* Whether computing the node again takes longer than its results are worth memory: products and convolutions. */
static bool is_worth_keeping(const struct zt_graph *g, int node) {
    const double least = 16; /* operations an element */
    double elements = 1;
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        elements += zt_out(g, node, i) ? (double)zt_shape_count(&zt_out(g, node, i)->shape) : 0;
    return zt_op_flops(g, node) >= least * elements;
}

size_t zt_eval_kept_bytes(const struct zt_graph *g, int last, size_t limit) {
    size_t left = limit;
    for (int n = 0; n < last; n++)
        for (int i = 0; !zt_op_expands(g, n) && is_worth_keeping(g, n) && i < g->nodes[n]->out_count; i++) {
            const size_t room = zt_out(g, n, i) ? zt_align_64((size_t)zt_value_bytes(zt_out(g, n, i))) : 0;
            left -= room <= left ? room : 0;
        }
    return limit - left;
}

void zt_eval_feed(struct zt_eval *eval, int value, const struct zt_tensor *tensor) {
    struct zt_value *v = eval->g->values[value];
    v->dtype = tensor->dtype;
    v->shape = tensor->shape;
    v->data = tensor->data;
}

static size_t bytes_of(const struct zt_eval *eval) {
    return zt_arena_bytes(eval->arena) + eval->owned_bytes;
}

/* Values that memory, or that of the control group, cannot hold together are the model's fault, said with the name of
 * the one that is too much; asking for it might have the system end the process. Values below a megabyte are not held
 * against it. */
static bool fits_machine(const struct zt_eval *eval, double own) {
    enum { SMALL = 1 << 20 };
    const int64_t memory = own < SMALL ? 0 : zt_host_memory_bytes();
    return memory == 0 || (double)bytes_of(eval) + own < (double)memory;
}

/* Memory of a value among those that are kept; NULL: it does not fit. */
static void *take_kept(struct zt_eval *eval, size_t bytes) {
    const size_t room = zt_align_64(bytes);
    char *at = eval->kept.at;
    if (!room || room > eval->kept.bytes)
        return NULL;
    eval->kept.at = at + room;
    eval->kept.bytes -= room;
    return at;
}

/* Memory of a value: of its own where values are freed before the end. */
static void *take(struct zt_eval *eval, int value, size_t bytes) {
    if (!eval->last)
        return zt_arena_block(eval->arena, bytes);
    eval->owned[value] = zt_arena_create();
    eval->owned_bytes += bytes;
    return zt_arena_block(eval->owned[value], bytes);
}

static void give_back(struct zt_eval *eval, int value) {
    if (!eval->owned[value])
        return;
    eval->owned_bytes -= (size_t)zt_value_bytes(eval->g->values[value]);
    zt_arena_destroy(eval->owned[value]);
    eval->owned[value] = NULL;
    eval->g->values[value]->data = NULL;
}

/* *kept: whether all of them that have elements are among what is kept. */
static bool allocate_outputs(struct zt_eval *eval, int node, bool *kept, struct zt_err *err) {
    struct zt_graph *g = eval->g;
    *kept = eval->kept.bytes > 0 && is_worth_keeping(g, node);
    const bool keeps = *kept;
    for (int i = 0; i < g->nodes[node]->out_count; i++) {
        struct zt_value *v = zt_out(g, node, i);
        if (!v)
            continue;
        const int64_t count = zt_shape_count(&v->shape);
        const size_t each = zt_dtype_bytes(v->dtype);
        char text[ZT_SHAPE_TEXT];
        if (count < 0 || !fits_machine(eval, (double)count * (double)each))
            return zt_node_fail(
                g, node, err,
                "output \"%s\" has shape %s, which is too large for this machine beside %.3g GB of other "
                "values",
                v->name, zt_shape_text(&v->shape, text), 1e-9 * (double)bytes_of(eval));
        v->data = keeps ? take_kept(eval, (size_t)count * each) : NULL;
        *kept &= v->data || !count;
        if (!v->data)
            v->data = take(eval, v->id, (size_t)count * each);
    }
    return true;
}

/* Prepares the reference kernel. release() frees what this took, also where it failed. */
static bool prepare(struct zt_graph *g, int node, int threads, struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_kernel *kernel = &n->op->kernel[ZT_REF];
    const struct zt_layout **layouts = zt_calloc((size_t)(n->in_count + n->out_count), sizeof *layouts);
    *p = (struct zt_prepare){ .graph = g,
                              .node = node,
                              .backend = ZT_REF,
                              .threads = threads,
                              .in_layout = layouts,
                              .out_layout = layouts + n->in_count };
    return !kernel->prepare || kernel->prepare(p, err);
}

static void release(struct zt_prepare *p) {
    const struct zt_kernel *kernel = &p->graph->nodes[p->node]->op->kernel[ZT_REF];
    if (kernel->release)
        kernel->release(p->state);
    free(p->in_layout);
}

static bool measure_node(struct zt_graph *g, int node, int threads, struct zt_eval_room *room, struct zt_err *err) {
    struct zt_prepare p;
    bool good = prepare(g, node, threads, &p, err);
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        room->arena += zt_out(g, node, i) ? zt_arena_object((size_t)zt_value_bytes(zt_out(g, node, i))) : 0;
    room->arena += p.workspace_bytes ? zt_arena_object(p.workspace_bytes) : 0;
    release(&p);
    if (good && zt_eval_is_fast(g, node)) {
        size_t bytes;
        good = zt_eval_fast_bytes(g, node, threads, &bytes, err);
        room->fast = bytes > room->fast ? bytes : room->fast;
    }
    return good;
}

bool zt_eval_measure(struct zt_graph *g, int threads, struct zt_eval_room *room, struct zt_err *err) {
    *room = (struct zt_eval_room){ 0 };
    for (int n = 0; n < g->node_count; n++)
        if (!zt_op_expands(g, n) && !measure_node(g, n, threads, room, err))
            return false;
    return true;
}

static bool run_reference(struct zt_eval *eval, int node, struct zt_err *err) {
    struct zt_arena *own = eval->last ? zt_arena_create() : NULL;
    struct zt_prepare p;
    bool ok = prepare(eval->g, node, eval->threads, &p, err);
    if (ok) {
        const struct zt_call call = { .state = p.state,
                                      .workspace = p.workspace_bytes
                                                       ? zt_arena_block(own ? own : eval->arena, p.workspace_bytes)
                                                       : NULL,
                                      .threads = eval->threads,
                                      .random = eval->random };
        ok = zt_eval_run_kernel(eval->g, node, ZT_REF, &call, err);
    }
    release(&p);
    zt_arena_destroy(own);
    return ok;
}

/* Whether the node's tensors fit a second time, as copies in the layouts that its fast kernel wants. */
static bool fits_twice(const struct zt_eval *eval, int node) {
    const struct zt_node *n = eval->g->nodes[node];
    double bytes = 0;
    for (int i = 0; i < n->in_count; i++)
        bytes += (double)zt_value_bytes(zt_in(eval->g, node, i));
    for (int i = 0; i < n->out_count; i++)
        bytes += (double)zt_value_bytes(zt_out(eval->g, node, i));
    return fits_machine(eval, bytes);
}

static bool run_node(struct zt_eval *eval, int node, struct zt_err *err) {
    bool kept;
    if (!zt_op_infer(eval->g, node, err) || !allocate_outputs(eval, node, &kept, err))
        return false;
    if (kept && eval->kept.filled)
        return true;
    if (eval->fast && zt_eval_is_fast(eval->g, node) && fits_twice(eval, node))
        return zt_eval_fast_node(
            eval->g, node, &(struct zt_eval_fast){ eval->random, eval->threads, eval->fast_memory, eval->fast_bytes },
            err);
    return run_reference(eval, node, err);
}

bool zt_eval_node(struct zt_graph *g, int node, struct zt_arena *arena, const struct zt_random *random, int threads,
                  struct zt_err *err) {
    return run_node(&(struct zt_eval){ .g = g, .arena = arena, .random = random, .threads = threads }, node, err);
}

static bool run_nodes(void *with, int first, int last, struct zt_err *err);

/* A graph beside the run's own, as part of it. */
static bool run_beside(void *with, struct zt_graph *g, struct zt_err *err) {
    struct zt_eval *eval = with, beside = *eval;
    beside.g = g;
    beside.arena = g->arena;
    return run_nodes(&beside, 0, g->node_count, err);
}

/* Frees what nothing reads behind the node. */
static void give_back_read(struct zt_eval *eval, int node) {
    const struct zt_node *n = eval->g->nodes[node];
    for (int i = 0; eval->last && i < n->in_count; i++)
        if (n->in[i] >= 0 && eval->last[n->in[i]] <= node)
            give_back(eval, n->in[i]);
    for (int i = 0; eval->last && i < n->out_count; i++)
        if (n->out[i] >= 0 && eval->last[n->out[i]] < 0)
            give_back(eval, n->out[i]);
}

static bool run_nodes(void *with, int first, int last, struct zt_err *err) {
    struct zt_eval *eval = with;
    const struct zt_settler settler = { eval, run_nodes, eval->results_alone ? run_beside : NULL };
    for (int n = first; n < last; n++) {
        zt_op_join(eval->g, n);
        if (zt_op_expands(eval->g, n) ? !zt_expand(eval->g, n, &settler, err) : !run_node(eval, n, err))
            return false;
        give_back_read(eval, n);
    }
    return true;
}

/* Lists and subgraphs read values that are no inputs of their nodes, and nodes that replace others read them later. */
static bool frees_values(const struct zt_eval *eval) {
    bool plain = eval->results_alone && !eval->last;
    for (int n = 0; plain && n < eval->g->node_count; n++)
        plain = !eval->g->nodes[n]->op->expand && !eval->g->nodes[n]->captured;
    return plain;
}

static void find_last_readers(struct zt_eval *eval) {
    const struct zt_graph *g = eval->g;
    eval->owned_count = g->value_count;
    eval->owned = zt_calloc((size_t)g->value_count + 1, sizeof *eval->owned);
    eval->last = zt_malloc(((size_t)g->value_count + 1) * sizeof *eval->last);
    for (int v = 0; v < g->value_count; v++)
        eval->last[v] = -1;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] >= 0)
                eval->last[g->nodes[n]->in[i]] = n;
    for (int i = 0; i < g->output_count; i++)
        eval->last[g->outputs[i]] = INT_MAX;
}

bool zt_eval_run(struct zt_eval *eval, int first, int last, struct zt_err *err) {
    int nodes = eval->g->node_count;
    if (frees_values(eval))
        find_last_readers(eval);
    return run_nodes(eval, first, last, err) && (eval->g->node_count == nodes || zt_graph_sort(eval->g, err));
}
