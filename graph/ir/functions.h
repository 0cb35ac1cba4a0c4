/* Model-local functions (ONNX FunctionProto), which nodes call by domain, name and overload. */
#ifndef ZT_GRAPH_IR_FUNCTIONS_H
#define ZT_GRAPH_IR_FUNCTIONS_H

#include "base/map.h"
#include "graph/ir/graph.h"

struct zt_function {
    const char *domain, *name, *overload; /* overload "": none */
    const struct zt_graph *body;
    struct zt_attrs parameters; /* with their default values; ZT_ATTR_NONE: no default */
    const int *captured;        /* by index of body->captured: the value in the model's graph (an initializer) */
};

/* All functions of a model, which owns them. */
struct zt_functions {
    struct zt_function *at;
    int count;
    struct zt_map by_key; /* zt_function_key -> index */
};

/* The key of a function in zt_functions.by_key; free with free(). */
char *zt_function_key(const char *domain, const char *name, const char *overload);
/* The function with this domain, name and overload; NULL: none. */
const struct zt_function *zt_function_find(const struct zt_functions *functions, const char *domain, const char *name,
                                           const char *overload);
/* Fails if a function calls itself, directly or indirectly, or if calls are nested too deeply. The error names the
 * function. */
bool zt_functions_check(const struct zt_functions *functions, struct zt_err *err);

#endif
