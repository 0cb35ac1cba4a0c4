/* The parameters in initializers that PyTorch's exporters rearranged or joined, by their names in the module:
 *
 *     dynamo         "val_3", folded from ['val_1', 'h.0.attn.weight']    h.0.attn.weight
 *     TorchScript    "onnx::MatMul_7", read by "/h/h.0/attn/MatMul"       h.0.attn.weight
 *
 * TorchScript keeps the module alone, in the path of the node; the node's input tells weight and bias apart. */
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"

#include "base/text.h"

#include <string.h>

/* ---- TorchScript ---- */

/* Adds a module of a node's path. A child of a list of modules repeats the list's name: "h/h.0" is "h.0". */
static void add_module(struct zt_text *to, size_t *last, const char *part, size_t length) {
    const size_t before = to->length - *last;
    if (before && length > before && strncmp(to->at + *last, part, before) == 0 && part[before] == '.')
        to->length = *last;
    else if (to->length)
        zt_text_add(to, ".");
    *last = to->length;
    zt_text_add_bytes(to, part, length);
}

const char *zt_torch_module(struct zt_arena *arena, const char *node) {
    struct zt_text text = { 0 };
    size_t last = 0;
    if (node[0] == '/')
        for (const char *slash; (slash = strchr(++node, '/')); node = slash)
            if (slash > node)
                add_module(&text, &last, node, (size_t)(slash - node));
    const char *module = zt_arena_strdup(arena, text.at ? text.at : "");
    zt_text_finish(&text);
    return module;
}

/* The name in its module of what input `in` of the node holds. */
static const char *part_of(const struct zt_node *n, int in, const char *name) {
    static const char *const products[] = { "MatMul", "Gemm", "Conv", "ConvTranspose", NULL };
    static const char *const recurrent[] = { "LSTM", "GRU", "RNN", NULL };
    if (zt_node_is_any(n, recurrent))
        return in < 3 ? "weight" : "bias";
    return !zt_node_is_any(n, products) ? name : in < 2 ? "weight" : "bias";
}

static void find_of_readers(struct zt_graph *g, const struct zt_onnx *model) {
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->in_count; k++) {
            struct zt_value *v = g->nodes[i]->in[k] >= 0 ? g->values[g->nodes[i]->in[k]] : NULL;
            if (!v || v->origin != ZT_FROM_INITIALIZER || v->sources || !zt_torch_is_made(model, v))
                continue;
            const char *module = zt_torch_module(g->arena, g->nodes[i]->name), **names;
            if (!module[0])
                continue;
            v->sources = names = ZT_NEW_N(g->arena, const char *, 2);
            names[0] = zt_arena_printf(g->arena, "%s.%s", module, part_of(g->nodes[i], k, v->name));
        }
}

/* ---- dynamo ---- */

static void find_folded(struct zt_graph *g, struct zt_value *v, const struct zt_map *listed) {
    struct zt_torch_folding folding;
    zt_torch_read_folding(g->arena, v, listed, &folding);
    if (!folding.parameters || folding.operation_count)
        return;
    const char **names = ZT_NEW_N(g->arena, const char *, folding.parameters + 1), *at = v->torch_folded_from, *name;
    int count = 0;
    while (count < folding.parameters && (name = zt_torch_next_source(g->arena, &at))) {
        bool known = zt_map_get(listed, name, ZT_TORCH_UNLISTED) != ZT_TORCH_PARAMETER;
        for (int i = 0; i < count && !known; i++)
            known = strcmp(names[i], name) == 0;
        if (!known)
            names[count++] = name;
    }
    v->sources = names;
}

void zt_pass_find_sources(struct zt_onnx *model) {
    struct zt_graph *g = model->graph;
    struct zt_map listed = { 0 };
    if (model->torch_signature)
        zt_torch_read_signature(g->arena, model->torch_signature, &listed);
    for (int i = 0; i < g->value_count && model->torch_signature; i++)
        if (g->values[i]->origin == ZT_FROM_INITIALIZER && g->values[i]->torch_folded_from)
            find_folded(g, g->values[i], &listed);
    find_of_readers(g, model);
    zt_map_finish(&listed);
}

bool zt_parameter_fits(const struct zt_value *v, const char *const *globs, int count) {
    if (zt_glob_any(globs, count, v->name))
        return true;
    for (int i = 0; v->sources && v->sources[i]; i++)
        if (!zt_glob_any(globs, count, v->sources[i]))
            return false;
    return v->sources != NULL;
}
