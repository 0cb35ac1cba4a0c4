/* Model-local functions (ONNX FunctionProto): graphs that nodes call by domain, name and overload. */
#ifndef ZT_GRAPH_IR_FUNCTIONS_H
#define ZT_GRAPH_IR_FUNCTIONS_H

#include "base/map.h"
#include "graph/ir/graph.h"

struct zt_function {
    const char *domain, *name, *overload; /* overload "" without */
    const struct zt_graph *body;
    struct zt_attrs parameters; /* with their defaults; ZT_ATTR_NONE: without one */
    const int *captured;        /* values of the model's graph that body->captured stand for: initializers inside it */
};

/* Owned by the model. */
struct zt_functions {
    struct zt_function *at;
    int count;
    struct zt_map by_key; /* zt_function_key -> index */
};

/* What tells functions apart; free with free(). */
char *zt_function_key(const char *domain, const char *name, const char *overload);
/* NULL where the model has none of this name. */
const struct zt_function *zt_function_find(const struct zt_functions *functions, const char *domain, const char *name,
                                           const char *overload);
/* Fails where a function calls itself, directly or around a corner, naming it, and where calls are nested too deep. */
bool zt_functions_check(const struct zt_functions *functions, struct zt_err *err);

#endif
