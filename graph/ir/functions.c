#include "graph/ir/functions.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_DEEP = 100 };

char *zt_function_key(const char *domain, const char *name, const char *overload) {
    size_t d = strlen(domain) + 1, n = strlen(name) + 1, o = strlen(overload ? overload : "") + 1;
    char *key = zt_malloc(d + n + o);
    memcpy(key, domain, d);
    memcpy(key + d, name, n);
    memcpy(key + d + n, overload ? overload : "", o);
    key[d - 1] = key[d + n - 1] = '\n'; /* in no identifier */
    return key;
}

const struct zt_function *zt_function_find(const struct zt_functions *functions, const char *domain, const char *name,
                                           const char *overload) {
    if (!functions || !functions->count)
        return NULL;
    char *key = zt_function_key(domain, name, overload);
    int at = zt_map_get(&functions->by_key, key, -1);
    free(key);
    return at < 0 ? NULL : &functions->at[at];
}

struct calls {
    const struct zt_functions *functions;
    int *height; /* of calls below a function; 0 not looked at, -1 being looked at */
    struct zt_err *err;
};

static bool fail_function(const struct zt_function *f, struct zt_err *err, const char *what) {
    return zt_fail(err, ZT_EXIT_MODEL, "function %s.%s %s", f->domain[0] ? f->domain : "ai.onnx", f->name, what);
}

static bool check_calls(struct calls *c, const struct zt_graph *body, int depth, int *height);

static bool check_function(struct calls *c, const struct zt_function *f, int depth, int *height) {
    int *own = &c->height[f - c->functions->at], below = 0;
    if (*own < 0)
        return fail_function(f, c->err, "calls itself");
    if (depth == CALLS_DEEP)
        return fail_function(f, c->err, "is called by functions nested more than 100 deep");
    if (*own == 0) {
        *own = -1;
        if (!check_calls(c, f->body, depth + 1, &below))
            return false;
        *own = below + 1;
    }
    *height = *own > *height ? *own : *height;
    return *own <= CALLS_DEEP || fail_function(f, c->err, "nests calls of functions more than 100 deep");
}

static bool check_calls(struct calls *c, const struct zt_graph *body, int depth, int *height) {
    for (int n = 0; n < body->node_count; n++) {
        const struct zt_node *node = body->nodes[n];
        const struct zt_function *f = zt_function_find(c->functions, node->domain, node->op_type, node->overload);
        if (f && !check_function(c, f, depth, height))
            return false;
        for (int i = 0; i < node->attr_count; i++)
            if (node->attr[i].graph && !check_calls(c, node->attr[i].graph, depth, height))
                return false;
    }
    return true;
}

bool zt_functions_check(const struct zt_functions *functions, struct zt_err *err) {
    struct calls c = { functions, zt_calloc((size_t)functions->count + 1, sizeof(int)), err };
    bool ok = true;
    for (int i = 0, height = 0; ok && i < functions->count; i++)
        ok = check_function(&c, &functions->at[i], 0, &height);
    free(c.height);
    return ok;
}
