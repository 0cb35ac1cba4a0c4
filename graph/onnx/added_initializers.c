/* Initializers that the file lacks: an input of a node gets one of its own, in the graph and in what is written. */
#include "graph/onnx/writer.h"

#include <string.h>

void zt_onnx_own(struct zt_onnx *model, const struct zt_onnx_own *own) {
    struct zt_onnx_file *file = model->file;
    struct zt_graph *g = model->graph;
    struct zt_node *n = g->nodes[own->node];
    struct zt_onnx_own added = *own;
    int id = zt_onnx_adds(model, own->name) ? zt_graph_find(g, own->name) : -1;
    if (id < 0) {
        id = zt_graph_add_value(g, own->name, own->tensor.dtype, &own->tensor.shape);
        g->values[id]->origin = ZT_FROM_INITIALIZER;
        g->values[id]->data = own->tensor.data;
        g->values[id]->torch_kind = own->kind;
        g->values[id]->torch_folded_from = own->folded_from;
        added.name = zt_arena_strdup(file->arena, g->values[id]->name);
        zt_map_put(&file->stored_by_name, added.name, file->stored.count);
        zt_vec_push(&file->stored, (struct zt_onnx_stored){ added.name, -1, own->tensor });
    }
    zt_vec_push(&file->owned, added);
    if (own->in == n->in_count) {
        int *in = ZT_NEW_N(g->arena, int, n->in_count + 1);
        memcpy(in, n->in, (size_t)n->in_count * sizeof *in);
        n->in = in;
        n->in_count++;
    }
    n->in[own->in] = id;
}

int zt_onnx_owned(const struct zt_onnx *model, const struct zt_onnx_own **list) {
    *list = model->file ? model->file->owned.at : NULL;
    return model->file ? model->file->owned.count : 0;
}

bool zt_onnx_adds(const struct zt_onnx *model, const char *name) {
    const int i = zt_map_get(&model->file->stored_by_name, name, -1);
    return i >= 0 && model->file->stored.at[i].message < 0;
}

bool zt_onnx_is_owned(const struct zt_onnx_writer *w, int node, int in) {
    for (int i = 0; i < w->file->owned.count; i++)
        if (w->nodes.at[w->file->owned.at[i].node] == node && w->file->owned.at[i].in == in)
            return true;
    return false;
}

static void insert_one(struct zt_onnx_writer *w, const struct zt_onnx_own *own) {
    const int at = zt_map_get(&w->payload_by_name, own->name, -1);
    const void *data = at >= 0 ? w->changes->payloads[at].data : zt_onnx_raw(w->arena, &own->tensor, &(size_t){ 0 });
    const struct zt_onnx_mark mark = { own->kind ? zt_onnx_key_torch_kind : zt_onnx_key_torch_folded_from,
                                       own->kind ? own->kind : own->folded_from };
    zt_onnx_insert_initializer(w, own->name, &mark, &own->tensor, data);
}

bool zt_onnx_edit_owned(struct zt_onnx_writer *w) {
    struct zt_map written = { 0 };
    for (int i = 0; i < w->file->owned.count; i++) {
        const struct zt_onnx_own *own = &w->file->owned.at[i];
        if (!zt_map_get(&written, own->name, 0))
            insert_one(w, own);
        zt_map_put(&written, own->name, 1);
        if (!zt_onnx_reads_pair(w, w->nodes.at[own->node], own->in))
            zt_onnx_read_instead(w, w->nodes.at[own->node], own->in, own->name);
    }
    zt_map_finish(&written);
    return true;
}
