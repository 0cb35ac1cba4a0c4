#include "graph/passes/eval.h"

#include "base/process_memory.h"
#include "graph/passes/lower.h"

#include <stdlib.h>

struct zt_eval {
    struct zt_graph *g;
    struct zt_arena *arena;
    const struct zt_random *random;
    int threads;
    bool borrows_arena, results_alone;
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
    free(eval);
}

void zt_eval_results_alone(struct zt_eval *eval) {
    eval->results_alone = true;
}

void zt_eval_feed(struct zt_eval *eval, int value, const struct zt_tensor *tensor) {
    struct zt_value *v = eval->g->values[value];
    v->dtype = tensor->dtype;
    v->shape = tensor->shape;
    v->data = tensor->data;
}

/* Values that memory, or that of the control group, cannot hold together are the model's fault, said with the name of
 * the one that is too much; asking for it might have the system end the process. Values below a megabyte are not held
 * against it. */
static bool fits_machine(const struct zt_arena *arena, int64_t count, size_t each) {
    enum { SMALL = 1 << 20 };
    const double own = (double)count * (double)each;
    if (count < 0 || own < SMALL)
        return count >= 0;
    const int64_t memory = zt_host_memory_bytes();
    return memory == 0 || (double)zt_arena_bytes(arena) + own < (double)memory;
}

static bool allocate_outputs(struct zt_graph *g, int node, struct zt_arena *arena, struct zt_err *err) {
    for (int i = 0; i < g->nodes[node]->out_count; i++) {
        struct zt_value *v = zt_out(g, node, i);
        if (!v)
            continue;
        int64_t count = zt_shape_count(&v->shape);
        char text[ZT_SHAPE_TEXT];
        if (!fits_machine(arena, count, zt_dtype_bytes(v->dtype)))
            return zt_node_fail(
                g, node, err,
                "output \"%s\" has shape %s, which is too large for this machine beside %.3g GB of other "
                "values",
                v->name, zt_shape_text(&v->shape, text), 1e-9 * (double)zt_arena_bytes(arena));
        v->data = zt_arena_alloc(arena, (size_t)count * zt_dtype_bytes(v->dtype));
    }
    return true;
}

static void fill_views(const struct zt_graph *g, const int *ids, int count, struct zt_view *to) {
    for (int i = 0; i < count; i++) {
        const struct zt_value *v = ids[i] >= 0 ? g->values[ids[i]] : NULL;
        to[i] = v ? (struct zt_view){ v->dtype, v->shape, (void *)v->data, NULL } : (struct zt_view){ 0 };
    }
}

/* Prepares the reference kernel. release() frees what this took, also where it failed. */
static bool prepare(struct zt_graph *g, int node, int threads, struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_kernel *kernel = &n->op->kernel[ZT_REF];
    const struct zt_layout **layouts = zt_calloc((size_t)(n->in_count + n->out_count), sizeof *layouts);
    *p = (struct zt_prepare){
        .graph = g, .node = node, .threads = threads, .in_layout = layouts, .out_layout = layouts + n->in_count
    };
    return !kernel->prepare || kernel->prepare(p, err);
}

static void release(struct zt_prepare *p) {
    const struct zt_kernel *kernel = &p->graph->nodes[p->node]->op->kernel[ZT_REF];
    if (kernel->release)
        kernel->release(p->state);
    free(p->in_layout);
}

static bool add_node_bytes(struct zt_graph *g, int node, int threads, size_t *bytes, struct zt_err *err) {
    struct zt_prepare p;
    const bool good = prepare(g, node, threads, &p, err);
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        *bytes += zt_out(g, node, i) ? zt_arena_object((size_t)zt_value_bytes(zt_out(g, node, i))) : 0;
    *bytes += p.workspace_bytes ? zt_arena_object(p.workspace_bytes) : 0;
    release(&p);
    return good;
}

bool zt_eval_bytes(struct zt_graph *g, int threads, size_t *bytes, struct zt_err *err) {
    *bytes = 0;
    for (int n = 0; n < g->node_count; n++)
        if (!zt_op_expands(g, n) && !add_node_bytes(g, n, threads, bytes, err))
            return false;
    return true;
}

bool zt_eval_node(struct zt_graph *g, int node, struct zt_arena *arena, const struct zt_random *random, int threads,
                  struct zt_err *err) {
    if (!zt_op_infer(g, node, err) || !allocate_outputs(g, node, arena, err))
        return false;
    struct zt_node *n = g->nodes[node];
    struct zt_view *views = zt_calloc((size_t)(n->in_count + n->out_count), sizeof *views);
    struct zt_prepare p;
    bool ok = prepare(g, node, threads, &p, err);
    if (ok) {
        fill_views(g, n->in, n->in_count, views);
        fill_views(g, n->out, n->out_count, views + n->in_count);
        struct zt_call call = { .graph = g,
                                .node = n,
                                .in = views,
                                .out = views + n->in_count,
                                .in_count = n->in_count,
                                .out_count = n->out_count,
                                .state = p.state,
                                .workspace = p.workspace_bytes ? zt_arena_alloc(arena, p.workspace_bytes) : NULL,
                                .threads = threads,
                                .random = random };
        ok = n->op->kernel[ZT_REF].run(&call, err);
    }
    release(&p);
    free(views);
    return ok;
}

static bool run_nodes(void *with, int first, int last, struct zt_err *err);

/* A graph beside the run's own, as part of it. */
static bool run_beside(void *with, struct zt_graph *g, struct zt_err *err) {
    struct zt_eval *eval = with, beside = *eval;
    beside.g = g;
    beside.arena = g->arena;
    return run_nodes(&beside, 0, g->node_count, err);
}

static bool run_nodes(void *with, int first, int last, struct zt_err *err) {
    struct zt_eval *eval = with;
    const struct zt_settler settler = { eval, run_nodes, eval->results_alone ? run_beside : NULL };
    for (int n = first; n < last; n++) {
        zt_op_join(eval->g, n);
        if (zt_op_expands(eval->g, n) ? !zt_expand(eval->g, n, &settler, err)
                                      : !zt_eval_node(eval->g, n, eval->arena, eval->random, eval->threads, err))
            return false;
    }
    return true;
}

bool zt_eval_run(struct zt_eval *eval, int first, int last, struct zt_err *err) {
    int nodes = eval->g->node_count;
    return run_nodes(eval, first, last, err) && (eval->g->node_count == nodes || zt_graph_sort(eval->g, err));
}
