/* Parameters that the network does not use, as a layer that forward() skips. dynamo's exporter lists them in its
 * signature and writes no initializer, as of those that it merged or folded. The traced calls tell them apart: none
 * reads the parameter, and none reads anything that is gone from the file, which may have read it. */
#include "graph/ir/functions.h"
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"

#include <string.h>

struct trace {
    struct zt_map made, read; /* names of calls, and of what calls read */
    bool gaps;                /* a call reads what the file no longer has */
};

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
            t->gaps |= !zt_map_get(&t->made, name, 0) && zt_graph_find(model->graph, name) < 0;
        }
        for (int k = 0; k < g->nodes[i]->attr_count; k++)
            if (g->nodes[i]->attr[k].graph)
                read_arguments(model, g->nodes[i]->attr[k].graph, t);
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
}

int zt_trainable_drop_unread(const struct zt_onnx *model, const char **names, int count) {
    struct trace t = { 0 };
    struct zt_torch_state *states;
    int kept = 0;
    read_trace(model, &t);
    const int state_count = zt_torch_states(model->graph->arena, model->torch_signature, &states);
    for (int i = 0; i < count; i++) {
        bool unread = t.read.count > 0 && !t.gaps;
        for (int s = 0; s < state_count && unread; s++)
            unread = strcmp(states[s].target, names[i]) != 0 || !zt_map_get(&t.read, states[s].placeholder, 0);
        if (!unread)
            names[kept++] = names[i];
    }
    zt_map_finish(&t.made);
    zt_map_finish(&t.read);
    return kept;
}
