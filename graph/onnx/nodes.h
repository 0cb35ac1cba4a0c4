/* Reading of node lists: the model's graph, subgraphs and functions. Private to graph/onnx/. */
#ifndef ZT_GRAPH_ONNX_NODES_H
#define ZT_GRAPH_ONNX_NODES_H

#include "graph/ir/functions.h"
#include "graph/onnx/file.h"

/* The node list that is being read, and its scope. */
struct zt_onnx_scope {
    struct zt_onnx *model;
    struct zt_onnx_scope
        *outer; /* the enclosing scope, whose values are visible; NULL: the model's graph, or a function */
    struct zt_graph *g;
    const struct zt_map *opset_by_domain;
    bool in_function; /* attributes may refer to function parameters */
    int own;          /* values from this id on are invisible in subgraphs: initializers moved out of subgraphs */
    ZT_VEC(int) captured;
    ZT_VEC(int) captured_from; /* their ids in `outer`; in a function, in the model's graph */
    struct zt_map node_names;
    struct zt_err *err;
};

/* The domain's canonical name: "" for "ai.onnx". */
const char *zt_onnx_domain(const char *domain);
/* A copy of the value of `key`; NULL: none. */
const char *zt_onnx_metadata(struct zt_arena *arena, size_t count, Onnx__StringStringEntryProto *const *entries,
                             const char *key);

/* Both fill scope->g and report all problems. `message` is the index of `p`'s message. */
bool zt_onnx_read_graph(struct zt_onnx_scope *scope, const Onnx__GraphProto *p, int message);
bool zt_onnx_read_function(struct zt_onnx_scope *scope, const Onnx__FunctionProto *p, int message,
                           struct zt_function *function);
void zt_onnx_scope_finish(struct zt_onnx_scope *scope);

#endif
