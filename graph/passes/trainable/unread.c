/* Parameters that the network does not use, as a layer that forward() skips. dynamo's exporter lists them in its
 * signature and writes no initializer, as of those that it merged or folded. The traced calls tell them apart: none
 * reads the parameter, and none reads anything that is gone from the file, which may have read it.
 *
 * A module that is registered under two names is listed under both, and calls read the last one. The names of its
 * parameters are the same below both, and none of the first ones is read. Of two modules with equal tensors the
 * exporter would have kept those that are listed first, and a call of the same kind may be gone as a copy of another;
 * what is folded into a layer is a normalization with statistics. */
#include "graph/ir/functions.h"
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"

#include <string.h>

struct trace {
    struct zt_map made, read; /* names of calls, and of what calls read */
    struct zt_map lost;       /* kinds of calls that are gone, "linear" of linear_1, whose results are read */
    struct zt_map doubtful;   /* what calls of such a kind read */
    bool gaps;                /* a call reads what the file no longer has */
};

/* The name of a call without its number. */
static const char *kind_of(struct zt_arena *arena, const char *call) {
    size_t length = strlen(call);
    while (length && call[length - 1] >= '0' && call[length - 1] <= '9')
        length--;
    const bool numbered = call[length] && length && call[length - 1] == '_';
    return numbered ? zt_arena_strndup(arena, call, length - 1) : call;
}

static void read_names(const struct zt_onnx *model, const struct zt_graph *g, struct trace *t) {
    const char *at;
    for (int i = 0; i < g->node_count; i++) {
        const char *name = zt_torch_call(model->graph->arena, g->nodes[i], &at);
        if (name)
            zt_map_put(&t->made, name, 1);
        for (int k = 0; k < g->nodes[i]->attr_count; k++)
            if (g->nodes[i]->attr[k].graph)
                read_names(model, g->nodes[i]->attr[k].graph, t);
    }
}

static void read_arguments(const struct zt_onnx *model, const struct zt_graph *g, struct trace *t) {
    const char *name, *at;
    for (int i = 0; i < g->node_count; i++) {
        zt_torch_call(model->graph->arena, g->nodes[i], &at);
        while (at && (name = zt_torch_next_argument(model->graph->arena, &at))) {
            zt_map_put(&t->read, name, 1);
            if (zt_map_get(&t->made, name, 0) || zt_graph_find(model->graph, name) >= 0)
                continue;
            t->gaps = true;
            zt_map_put(&t->lost, kind_of(model->graph->arena, name), 1);
        }
        for (int k = 0; k < g->nodes[i]->attr_count; k++)
            if (g->nodes[i]->attr[k].graph)
                read_arguments(model, g->nodes[i]->attr[k].graph, t);
    }
}

static void read_doubtful(const struct zt_onnx *model, const struct zt_graph *g, struct trace *t) {
    struct zt_arena *arena = model->graph->arena;
    const char *name, *at;
    for (int i = 0; i < g->node_count; i++) {
        const char *call = zt_torch_call(arena, g->nodes[i], &at);
        while (call && zt_map_get(&t->lost, kind_of(arena, call), 0) && at &&
               (name = zt_torch_next_argument(arena, &at)))
            zt_map_put(&t->doubtful, name, 1);
        for (int k = 0; k < g->nodes[i]->attr_count; k++)
            if (g->nodes[i]->attr[k].graph)
                read_doubtful(model, g->nodes[i]->attr[k].graph, t);
    }
}

/* Of the model's graph and its functions, with the graphs inside of their nodes. */
static void read_trace(const struct zt_onnx *model, struct trace *t) {
    struct zt_graph *g = model->graph;
    struct zt_torch_state *states;
    const int count = zt_torch_states(g->arena, model->torch_signature, &states),
              functions = g->functions ? g->functions->count : 0;
    zt_torch_read_signature(g->arena, model->torch_signature, &t->made); /* inputs, which the export may rename */
    for (int i = 0; i < count; i++)
        zt_map_put(&t->made, states[i].placeholder, 1);
    read_names(model, g, t);
    for (int i = 0; i < functions; i++)
        read_names(model, g->functions->at[i].body, t);
    read_arguments(model, g, t);
    for (int i = 0; i < functions; i++)
        read_arguments(model, g->functions->at[i].body, t);
    read_doubtful(model, g, t);
    for (int i = 0; i < functions; i++)
        read_doubtful(model, g->functions->at[i].body, t);
}

/* What is listed, in order, and read. */
struct list {
    const struct zt_torch_state *states;
    int count;
    const struct zt_map *read, *doubtful;
};

/* Whether the state belongs to module [name, name + length). */
static bool is_of(const struct zt_torch_state *s, const char *name, size_t length) {
    return strncmp(s->target, name, length) == 0 && s->target[length] == '.';
}

/* The state of this name below module [name, name + length); -1: none. */
static int find_below(const struct list *l, const char *name, size_t length, const char *rest) {
    for (int i = 0; i < l->count; i++)
        if (is_of(&l->states[i], name, length) && strcmp(l->states[i].target + length, rest) == 0)
            return i;
    return -1;
}

/* Whether no call reads a state of module [name, name + length), and none is a statistic. */
static bool is_unread(const struct list *l, const char *name, size_t length) {
    for (int i = 0; i < l->count; i++)
        if (is_of(&l->states[i], name, length) &&
            (zt_map_get(l->read, l->states[i].placeholder, 0) || strstr(l->states[i].target + length, ".running_mean")))
            return false;
    return true;
}

/* Whether module a, of which no call reads a state, is b under an earlier name: both have the same names, of two
 * parameters or more, and a call reads one of b, of whose kind none is gone. */
static bool is_first_name(const struct list *l, const char *a, size_t a_length, const char *b, size_t b_length) {
    int count = 0, others = 0, reads = 0;
    for (int i = 0; i < l->count; i++) {
        const struct zt_torch_state *s = &l->states[i];
        const bool parameter = s->kind == ZT_TORCH_PARAMETER;
        others += parameter && is_of(s, b, b_length);
        if (!is_of(s, a, a_length))
            continue;
        const int other = find_below(l, b, b_length, s->target + a_length);
        if (other < i)
            return false;
        const char *placeholder = l->states[other].placeholder;
        reads += zt_map_get(l->read, placeholder, 0) && !zt_map_get(l->doubtful, placeholder, 0);
        count += parameter;
    }
    return count > 1 && count == others && reads > 0;
}

/* Whether a module that holds the parameter has another name further on in the list. */
static bool is_under_two_names(const struct list *l, const char *parameter) {
    for (const char *dot = parameter; (dot = strchr(dot, '.')); dot++) {
        const size_t length = (size_t)(dot - parameter), rest = strlen(dot);
        const bool unread = is_unread(l, parameter, length);
        for (int i = 0; i < l->count && unread; i++) {
            const char *other = l->states[i].target;
            const size_t all = strlen(other);
            if (all > rest && strcmp(other + all - rest, dot) == 0 && strcmp(other, parameter) != 0 &&
                is_first_name(l, parameter, length, other, all - rest))
                return true;
        }
    }
    return false;
}

int zt_trainable_drop_unread(const struct zt_onnx *model, const char **names, int count) {
    struct trace t = { 0 };
    struct zt_torch_state *states;
    int kept = 0;
    read_trace(model, &t);
    const int state_count = zt_torch_states(model->graph->arena, model->torch_signature, &states);
    const struct list all = { states, state_count, &t.read, &t.doubtful };
    for (int i = 0; i < count; i++) {
        bool unread = t.read.count > 0 && (!t.gaps || is_under_two_names(&all, names[i]));
        for (int s = 0; s < state_count && unread; s++)
            unread = strcmp(states[s].target, names[i]) != 0 || !zt_map_get(&t.read, states[s].placeholder, 0);
        if (!unread)
            names[kept++] = names[i];
    }
    zt_map_finish(&t.made);
    zt_map_finish(&t.read);
    zt_map_finish(&t.lost);
    zt_map_finish(&t.doubtful);
    return kept;
}
