#include "graph/passes/eval.h"

#include "graph/passes/lower.h"

#include <stdlib.h>
#include <unistd.h>

struct zt_eval {
    struct zt_graph *g;
    struct zt_arena *arena;
    const struct zt_random *random;
    int threads;
    bool results_alone;
};

struct zt_eval *zt_eval_create(struct zt_graph *g, const struct zt_random *random, int threads) {
    struct zt_eval *eval = zt_malloc(sizeof *eval);
    *eval = (struct zt_eval){ g, zt_arena_create(), random, threads, false };
    return eval;
}

void zt_eval_destroy(struct zt_eval *eval) {
    if (!eval)
        return;
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

/* A value larger than the machine's memory is the model's fault, said with its name; asking for it might end the
 * process. */
static bool fits_machine(int64_t count, size_t each) {
    return count >= 0 && (double)count * (double)each < (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

static bool allocate_outputs(struct zt_graph *g, int node, struct zt_arena *arena, struct zt_err *err) {
    for (int i = 0; i < g->nodes[node]->out_count; i++) {
        struct zt_value *v = zt_out(g, node, i);
        if (!v)
            continue;
        int64_t count = zt_shape_count(&v->shape);
        char text[ZT_SHAPE_TEXT];
        if (!fits_machine(count, zt_dtype_bytes(v->dtype)))
            return zt_node_fail(g, node, err, "output \"%s\" has shape %s, which is too large for this machine",
                                v->name, zt_shape_text(&v->shape, text));
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

bool zt_eval_node(struct zt_graph *g, int node, struct zt_arena *arena, const struct zt_random *random, int threads,
                  struct zt_err *err) {
    const struct zt_kernel *kernel = &g->nodes[node]->op->kernel[ZT_REF];
    if (!zt_op_infer(g, node, err) || !allocate_outputs(g, node, arena, err))
        return false;
    struct zt_node *n = g->nodes[node];
    const struct zt_layout **layouts = zt_calloc((size_t)(n->in_count + n->out_count), sizeof *layouts);
    struct zt_view *views = zt_calloc((size_t)(n->in_count + n->out_count), sizeof *views);
    struct zt_prepare p = {
        .graph = g, .node = node, .threads = threads, .in_layout = layouts, .out_layout = layouts + n->in_count
    };
    bool ok = !kernel->prepare || kernel->prepare(&p, err);
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
        ok = kernel->run(&call, err);
    }
    if (kernel->release)
        kernel->release(p.state);
    free(views);
    free(layouts);
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
