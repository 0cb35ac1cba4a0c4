#include "ops/control/loop_iteration.h"

#include "base/align.h"
#include "graph/passes/memory.h"
#include "graph/passes/assign/assign.h"

#include <stdlib.h>
#include <string.h>

/* Location of a value. */
struct spot {
    enum { NOWHERE, CONSTANT, INPUT, LOCAL } in;
    const void *data; /* CONSTANT */
    int input;        /* INPUT: number of the graph's input */
    int64_t offset;   /* LOCAL: in the block */
};

struct zt_loop_iteration {
    struct zt_graph *g;
    struct zt_prepared *prepared; /* by node */
    struct zt_arena *arena;
    int *order, order_count; /* nodes that have a kernel to run, those of all iterations first */
    int once;                /* how many these are */
    int *first_view;         /* by node: its inputs' views, behind them its outputs' */
    struct spot *spots;      /* by value */
    int view_count;
    int64_t block_bytes, workspace_bytes;
};

struct zt_loop_at {
    const struct zt_loop_iteration *iteration;
    struct zt_view *views;
    char *block, *workspace;
    int threads;
};

/* ---- preparing ---- */

/* While an iteration is laid out; arrays by value unless said otherwise. */
struct layout {
    struct zt_loop_iteration *t;
    const struct zt_graph *g;
    struct zt_arena *scratch;
    bool *stays;
    int *parent;       /* whose memory a value shares: what it is a view of */
    int *first, *last; /* positions in the order */
    struct zt_interval *intervals;
    int *owner, count; /* by interval: value */
};

static int root_of(const struct layout *l, int value) {
    while (l->parent[value] != value)
        value = l->parent[value];
    return value;
}

static bool is_view(const struct layout *l, const struct zt_node *n) {
    return n->op->flags & ZT_OP_VIEW && !zt_in(l->g, n->index, 0)->layout && !zt_out(l->g, n->index, 0)->layout;
}

static void mark_what_stays(struct layout *l, const bool *stays) {
    for (int v = 0; v < l->g->value_count; v++) {
        l->parent[v] = v;
        l->stays[v] = l->g->values[v]->data != NULL;
    }
    for (int i = 0; i < l->g->input_count; i++)
        l->stays[l->g->inputs[i]] = stays[i];
    for (int n = 0; n < l->g->node_count; n++) {
        const struct zt_node *node = l->g->nodes[n];
        bool all = true;
        for (int i = 0; i < node->in_count; i++)
            all &= node->in[i] < 0 || l->stays[node->in[i]];
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                l->stays[node->out[i]] = all;
        if (is_view(l, node))
            l->parent[node->out[0]] = root_of(l, node->in[0]);
    }
}

static bool node_stays(const struct layout *l, const struct zt_node *n) {
    bool stays = true;
    for (int i = 0; i < n->out_count; i++)
        stays &= n->out[i] < 0 || l->stays[n->out[i]];
    return stays;
}

static void put_in_order(struct layout *l) {
    struct zt_loop_iteration *t = l->t;
    t->order = ZT_NEW_N(t->arena, int, l->g->node_count + 1);
    for (int once = 1; once >= 0; once--) {
        for (int n = 0; n < l->g->node_count; n++)
            if (!is_view(l, l->g->nodes[n]) && node_stays(l, l->g->nodes[n]) == once)
                t->order[t->order_count++] = n;
        if (once)
            t->once = t->order_count;
    }
}

static void find_lives(struct layout *l) {
    const struct zt_loop_iteration *t = l->t;
    for (int k = 0; k < t->order_count; k++) {
        const struct zt_node *n = l->g->nodes[t->order[k]];
        for (int i = 0; i < n->in_count; i++)
            if (n->in[i] >= 0)
                l->last[root_of(l, n->in[i])] = k;
        for (int i = 0; i < n->out_count; i++)
            if (n->out[i] >= 0)
                l->first[n->out[i]] = l->last[n->out[i]] = k;
    }
    for (int i = 0; i < l->g->output_count; i++)
        l->last[root_of(l, l->g->outputs[i])] = t->order_count;
}

/* Results that stay are read in every iteration. */
static void place_locals(struct layout *l) {
    for (int v = 0; v < l->g->value_count; v++) {
        if (l->g->values[v]->producer < 0 || root_of(l, v) != v)
            continue;
        l->intervals[l->count] = (struct zt_interval){ .bytes = zt_value_bytes(l->g->values[v]),
                                                       .first = l->first[v],
                                                       .last = l->stays[v] ? l->t->order_count : l->last[v] };
        l->owner[l->count++] = v;
    }
    l->t->block_bytes = zt_memory_plan(l->intervals, l->count);
    for (int i = 0; i < l->count; i++)
        l->t->spots[l->owner[i]] = (struct spot){ .in = LOCAL, .offset = l->intervals[i].offset };
}

static void place_all(struct layout *l) {
    struct spot *spots = l->t->spots = ZT_NEW_N(l->t->arena, struct spot, l->g->value_count + 1);
    for (int v = 0; v < l->g->value_count; v++)
        if (l->g->values[v]->data)
            spots[v] = (struct spot){ .in = CONSTANT, .data = l->g->values[v]->data };
    for (int i = 0; i < l->g->input_count; i++)
        spots[l->g->inputs[i]] = (struct spot){ .in = INPUT, .input = i };
    place_locals(l);
    for (int v = 0; v < l->g->value_count; v++)
        spots[v] = spots[root_of(l, v)];
}

static void count_views(struct zt_loop_iteration *t) {
    t->first_view = ZT_NEW_N(t->arena, int, t->g->node_count + 1);
    for (int n = 0; n < t->g->node_count; n++) {
        t->first_view[n] = t->view_count;
        t->view_count += t->g->nodes[n]->in_count + t->g->nodes[n]->out_count;
        if ((int64_t)t->prepared[n].workspace_bytes > t->workspace_bytes)
            t->workspace_bytes = (int64_t)t->prepared[n].workspace_bytes;
    }
}

static void lay_out(struct zt_loop_iteration *t, const bool *stays) {
    struct layout l = { .t = t, .g = t->g, .scratch = zt_arena_create() };
    const int values = t->g->value_count + 1;
    l.stays = ZT_NEW_N(l.scratch, bool, values);
    l.parent = ZT_NEW_N(l.scratch, int, values);
    l.first = ZT_NEW_N(l.scratch, int, values);
    l.last = ZT_NEW_N(l.scratch, int, values);
    l.intervals = ZT_NEW_N(l.scratch, struct zt_interval, values);
    l.owner = ZT_NEW_N(l.scratch, int, values);
    mark_what_stays(&l, stays);
    put_in_order(&l);
    find_lives(&l);
    place_all(&l);
    count_views(t);
    zt_arena_destroy(l.scratch);
}

struct zt_loop_iteration *zt_loop_iteration_create(const struct zt_graph *body, const bool *stays, enum zt_backend fast,
                                                   int threads, struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_loop_iteration *t = ZT_NEW(arena, struct zt_loop_iteration);
    *t = (struct zt_loop_iteration){ .g = zt_graph_clone(body), .arena = arena };
    if (!zt_graph_prune(t->g, t->g->outputs, t->g->output_count, err) ||
        !zt_pass_assign(t->g, &(struct zt_assign_options){ t->g->table, fast, threads, NULL }, t->g->outputs,
                        t->g->output_count, &t->prepared, err)) {
        zt_loop_iteration_destroy(t);
        return NULL;
    }
    lay_out(t, stays);
    return t;
}

void zt_loop_iteration_destroy(struct zt_loop_iteration *t) {
    if (!t)
        return;
    if (t->prepared)
        zt_assign_release(t->g, t->prepared);
    zt_graph_destroy(t->g);
    zt_arena_destroy(t->arena);
}

/* ---- running ---- */

size_t zt_loop_iteration_bytes(const struct zt_loop_iteration *t) {
    return zt_align_64(sizeof(struct zt_loop_at)) + zt_align_64((size_t)t->view_count * sizeof(struct zt_view)) +
           (size_t)zt_align_64(t->block_bytes) + (size_t)zt_align_64(t->workspace_bytes);
}

static const void *address_of(const struct zt_loop_at *at, const struct spot *spot, const void *const *in) {
    switch (spot->in) {
    case CONSTANT:
        return spot->data;
    case INPUT:
        return in[spot->input];
    case LOCAL:
        return at->block + spot->offset;
    default:
        return NULL;
    }
}

static bool run_node(struct zt_loop_at *at, int node, const void *const *in, struct zt_err *err) {
    const struct zt_loop_iteration *t = at->iteration;
    const struct zt_node *n = t->g->nodes[node];
    struct zt_view *views = at->views + t->first_view[node];
    for (int i = 0; i < n->in_count + n->out_count; i++) {
        const int v = i < n->in_count ? n->in[i] : n->out[i - n->in_count];
        if (v >= 0)
            views[i].data = (void *)address_of(at, &t->spots[v], in);
    }
    const struct zt_call call = { .graph = t->g,
                                  .node = n,
                                  .in = views,
                                  .out = views + n->in_count,
                                  .in_count = n->in_count,
                                  .out_count = n->out_count,
                                  .state = t->prepared[node].state,
                                  .workspace = at->workspace,
                                  .threads = at->threads };
    return n->op->kernel[n->backend].run(&call, err);
}

struct zt_loop_at *zt_loop_iteration_begin(const struct zt_loop_iteration *t, const struct zt_call *like,
                                           void *workspace, const void *const *in, struct zt_err *err) {
    struct zt_loop_at *at = workspace;
    char *views = (char *)workspace + zt_align_64(sizeof *at);
    *at = (struct zt_loop_at){ .iteration = t, .views = (struct zt_view *)(void *)views, .threads = like->threads };
    at->block = views + zt_align_64((size_t)t->view_count * sizeof(struct zt_view));
    at->workspace = at->block + zt_align_64(t->block_bytes);
    for (int n = 0; n < t->g->node_count; n++) {
        const struct zt_node *node = t->g->nodes[n];
        for (int i = 0; i < node->in_count + node->out_count; i++) {
            const int id = i < node->in_count ? node->in[i] : node->out[i - node->in_count];
            const struct zt_value *v = id >= 0 ? t->g->values[id] : NULL;
            at->views[t->first_view[n] + i] =
                v ? (struct zt_view){ v->dtype, v->shape, NULL, v->layout } : (struct zt_view){ 0 };
        }
    }
    for (int k = 0; k < t->once; k++)
        if (!run_node(at, t->order[k], in, err))
            return NULL;
    return at;
}

bool zt_loop_iteration_run(struct zt_loop_at *at, const void *const *in, struct zt_err *err) {
    const struct zt_loop_iteration *t = at->iteration;
    for (int k = t->once; k < t->order_count; k++)
        if (!run_node(at, t->order[k], in, err))
            return false;
    return true;
}

const void *zt_loop_iteration_out(const struct zt_loop_at *at, const void *const *in, int i) {
    return address_of(at, &at->iteration->spots[at->iteration->g->outputs[i]], in);
}
