/* Lists of nodes in an ONNX file: the model's graph, graphs inside attributes, functions. Private to graph/onnx_*.c. */
#ifndef ZT_GRAPH_ONNX_NODES_H
#define ZT_GRAPH_ONNX_NODES_H

#include "graph/ir/functions.h"
#include "graph/onnx/file.h"

/* One list of nodes being read, and what it may refer to. */
struct zt_onnx_scope {
    struct zt_onnx *model;
    struct zt_onnx_scope *outer; /* whose values are seen from here; NULL: the model's graph, or a function */
    struct zt_graph *g;
    const struct zt_map *opset_by_domain;
    bool in_function; /* attributes may refer to its parameters */
    int own;          /* values from this one on cannot be seen from inside: initializers lifted out of bodies */
    ZT_VEC(int) captured;
    ZT_VEC(int) captured_from; /* what they are in `outer` or, in a function, in the model's graph */
    struct zt_map node_names;
    struct zt_err *err;
};

/* ONNX's own domain goes by two names. */
const char *zt_onnx_domain(const char *domain);
/* The text under `key`, copied; NULL without. */
const char *zt_onnx_metadata(struct zt_arena *arena, size_t count, Onnx__StringStringEntryProto *const *entries,
                             const char *key);

/* Both fill scope->g. Problems are collected, not only the first. `message` is where the wire has `p`. */
bool zt_onnx_read_graph(struct zt_onnx_scope *scope, const Onnx__GraphProto *p, int message);
bool zt_onnx_read_function(struct zt_onnx_scope *scope, const Onnx__FunctionProto *p, int message,
                           struct zt_function *function);
void zt_onnx_scope_finish(struct zt_onnx_scope *scope);

#endif
