/* onnxruntime's operators, which its optimizer writes: each row expands to nodes of ONNX's own operators
 * (graph/passes/lower.h), whose rows have kernels and gradients.
 *
 *     static void bias_gelu(struct zt_lowering *l) {
 *         ZT_LOWER(l, l->n->out[0], "Gelu", ZT_LOWER(l, -1, "Add", l->n->in[0], l->n->in[1]));
 *     }
 *     ZT_LOWERED(bias_gelu)
 */
#ifndef ZT_OPS_LOWERED_LOWERING_H
#define ZT_OPS_LOWERED_LOWERING_H

#include "graph/passes/lower.h"
#include "ops/kernel/shape.h"

struct zt_lowering {
    struct zt_expansion *x;
    struct zt_graph *g;
    const struct zt_node *n; /* the node that is expanded */
    struct zt_err *err;
    bool failed;
};

/* Adds a node that writes value `out` (-1: a new one) and returns the value; after a failure it does nothing. */
int zt_lower(struct zt_lowering *l, int out, const struct zt_expand_node *node);
/* The same with several results: out[i] -1 becomes a new value. */
void zt_lower_all(struct zt_lowering *l, const struct zt_expand_node *node, int *out, int count);
/* Reads the attribute `axis` of input 0. */
bool zt_lower_axis(struct zt_lowering *l, int64_t value, int *axis);
/* Fails naming the node. */
#define ZT_LOWER_FAIL(l, ...) ((void)((l)->failed = !zt_node_fail((l)->g, (l)->x->node, (l)->err, __VA_ARGS__)))

#define ZT_LOWER_IN(...) (const int[]){ __VA_ARGS__ }, (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))
/* A node with the inputs as arguments, and one with a list of `count` attributes. */
#define ZT_LOWER(l, out, op, ...) zt_lower(l, out, &(struct zt_expand_node){ op, ZT_LOWER_IN(__VA_ARGS__) })
#define ZT_LOWER_WITH(l, out, op, at, count, ...)                                                                      \
    zt_lower(l, out, &(struct zt_expand_node){ op, ZT_LOWER_IN(__VA_ARGS__), at, count })

/* Input and output values by number; -1: omitted. */
static inline int zt_lower_in(const struct zt_lowering *l, int i) {
    return i < l->n->in_count ? l->n->in[i] : -1;
}
static inline int zt_lower_out(const struct zt_lowering *l, int i) {
    return i < l->n->out_count ? l->n->out[i] : -1;
}
/* The type of input 0, and its shape. */
static inline const struct zt_value *zt_lower_first(const struct zt_lowering *l) {
    return zt_in(l->g, l->x->node, 0);
}
/* A constant: a scalar, or (zt_lower_shape) the arguments as a vector of int64. */
int zt_lower_int32(struct zt_lowering *l, int32_t value);
int zt_lower_int64(struct zt_lowering *l, int64_t value);
#define zt_lower_shape(l, ...)                                                                                         \
    zt_graph_add_ints((l)->g, NULL, (const int64_t[]){ __VA_ARGS__ },                                                  \
                      (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))
/* value + added; the value itself where added is -1. `out` as above, but then also the value's. */
int zt_lower_add(struct zt_lowering *l, int out, int value, int added);
/* Softmax of `value`, which has the shape of input 0, over all its axes from `axis` on. */
int zt_lower_softmax(struct zt_lowering *l, int out, int value, int axis);
/* The attributes of the node that are named in `names`, which NULL ends; there is room for one more. */
struct zt_attr *zt_lower_attrs(const struct zt_lowering *l, const char *const *names, int *count);
/* Fails where one of the inputs, whose numbers -1 ends, is omitted: a row's min_in names none after an optional one. */
bool zt_lower_needs(struct zt_lowering *l, const int *inputs);
/* Fails where an input or output from `first` to `last` is there. */
void zt_lower_refuse_in(struct zt_lowering *l, int first, int last, const char *what);
void zt_lower_refuse_out(struct zt_lowering *l, int first, int last, const char *what);

bool zt_lower_run(struct zt_expansion *x, void (*body)(struct zt_lowering *l), struct zt_err *err);
/* Defines NAME_expand for a row. */
#define ZT_LOWERED(name)                                                                                               \
    static bool name##_expand(struct zt_expansion *x, struct zt_err *err) {                                            \
        return zt_lower_run(x, name, err);                                                                             \
    }

#endif
