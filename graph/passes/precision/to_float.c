/* A graph that was exported in half or double precision, computed in float:
 *
 *     x half -> MatMul(x, w half) -> Cast to float -> Softmax        becomes
 *     x float -> MatMul(x, w float) -> Softmax
 *
 * Every value of the types named becomes float. Attributes that hold an element type say so in their row; a Cast whose
 * two sides are then the same goes. Halves become float without loss; a double that no float holds becomes the nearest,
 * and one beyond all of them the largest, so that what is finite stays so (masks are often the lowest double). */
#include "graph/passes/precision/to_float.h"

#include "graph/ir/op.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The types and tensors to convert. */
struct conversion {
    unsigned types; /* ZT_BIT mask */
    const float *const *contents;
    int content_count;
};

static bool to_float(struct zt_graph *g, const struct conversion *c, int *roots, int root_count, struct zt_err *err);

float *zt_to_float(struct zt_arena *arena, const struct zt_tensor *from) {
    int64_t count = zt_shape_count(&from->shape);
    size_t bytes = zt_dtype_bytes(from->dtype);
    float *to = zt_arena_alloc(arena, (size_t)count * sizeof *to);
    for (int64_t i = 0; i < count; i++) {
        uint64_t one = 0; /* in a mapped file it may stand anywhere */
        memcpy(&one, (const char *)from->data + (size_t)i * bytes, bytes);
        double x = zt_load_double(from->dtype, &one, 0);
        to[i] = isfinite(x) ? (float)fmax(fmin(x, FLT_MAX), -FLT_MAX) : (float)x;
    }
    return to;
}

/* Frozen weights above this size stay in their half type: a Cast gives their readers float, and half-precision nodes
 * read them as they are stored. */
enum { FROZEN_BYTES = 1 << 16 };

bool zt_stays_half(const struct zt_value *v) {
    return v->origin == ZT_FROM_INITIALIZER && zt_value_is_frozen(v) && zt_dtype_is_half(v->dtype) &&
           zt_shape_count(&v->shape) * (int64_t)zt_dtype_bytes(v->dtype) > FROZEN_BYTES;
}

/* Puts a Cast between a weight and its readers, in front of the first one. */
static bool cast_weight(struct zt_graph *g, int id, struct zt_err *err) {
    const struct zt_shape shape = g->values[id]->shape;
    const int count = g->node_count, out = zt_graph_add_value(g, NULL, ZT_FLOAT, &shape);
    int first = -1;
    for (int n = 0; n < count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] == id) {
                g->nodes[n]->in[i] = out;
                first = first < 0 ? n : first;
            }
    if (first < 0)
        return true;
    const int node =
        zt_graph_add_node(g, &(struct zt_node_spec){ zt_arena_printf(g->arena, "cast of %s", g->values[id]->name),
                                                     "Cast", "", ZT_OPSET, &id, 1, &out, 1 });
    g->nodes[node]->place = g->nodes[first]->place;
    zt_node_set_int(g, node, "to", ZT_FLOAT);
    return zt_op_resolve(g->table, g, node, err);
}

static bool cast_weights(struct zt_graph *g, unsigned types, struct zt_err *err) {
    const int count = g->value_count;
    for (int v = 0; v < count; v++)
        if (zt_dtype_in(g->values[v]->dtype, types) && zt_stays_half(g->values[v]) && !cast_weight(g, v, err))
            return false;
    return zt_graph_sort(g, err);
}

/* Values without readers need no contents. */
static void convert_value(struct zt_graph *g, int id, const float *contents) {
    struct zt_value *v = g->values[id];
    bool read = v->data && zt_graph_users(g, id, NULL) > 0;
    v->data = contents ? contents
              : read   ? zt_to_float(g->arena, &(struct zt_tensor){ v->dtype, v->shape, v->data })
                       : NULL;
    v->dtype = ZT_FLOAT;
}

static void convert_attributes(struct zt_graph *g, int node, unsigned types) {
    const struct zt_attr_spec *spec = g->nodes[node]->op->attrs;
    for (; spec && spec->name; spec++) {
        const struct zt_attr *a = zt_node_attr(g->nodes[node], spec->name);
        if (a && spec->element_type && a->i > 0 && a->i < ZT_DTYPES && types >> a->i & 1)
            zt_node_set_int(g, node, spec->name, ZT_FLOAT);
        if (!a || a->type != ZT_ATTR_TENSOR || !zt_dtype_in(a->tensor.dtype, types))
            continue;
        struct zt_attr copy = *a;
        copy.tensor.data = a->tensor.data ? zt_to_float(g->arena, &a->tensor) : NULL;
        copy.tensor.dtype = ZT_FLOAT;
        zt_node_set_attr(g, node, &copy);
    }
}

/* Removes Casts that change nothing: their readers read the Cast's input. */
static void drop_casts(struct zt_graph *g, int *roots, int root_count) {
    int *instead = ZT_NEW_N(g->arena, int, g->value_count + 1);
    for (int v = 0; v < g->value_count; v++)
        instead[v] = v;
    for (int n = 0; n < g->node_count; n++) {
        struct zt_node *node = g->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0)
                node->in[i] = instead[node->in[i]];
        const struct zt_value *x = zt_in(g, n, 0), *y = zt_out(g, n, 0);
        node->dead = node->op->flags & ZT_OP_CAST && x && y && x->dtype == y->dtype;
        if (node->dead)
            instead[node->out[0]] = node->in[0];
    }
    for (int i = 0; i < root_count; i++)
        roots[i] = instead[roots[i]];
}

/* Converts the subgraphs of a node. They belong to our own ops and share the arena. */
static bool convert_bodies(struct zt_graph *g, int node, unsigned types, struct zt_err *err) {
    for (int i = 0; i < g->nodes[node]->attr_count; i++) {
        struct zt_attr attr = g->nodes[node]->attr[i];
        if (!attr.graph)
            continue;
        struct zt_graph *body = zt_graph_clone_in(g->arena, attr.graph);
        if (!to_float(body, &(struct conversion){ types, NULL, 0 }, body->outputs, body->output_count, err)) {
            zt_graph_destroy(body);
            return false;
        }
        zt_graph_settle(body);
        attr.graph = body;
        zt_node_set_attr(g, node, &attr);
    }
    return true;
}

static bool to_float(struct zt_graph *g, const struct conversion *c, int *roots, int root_count, struct zt_err *err) {
    for (int v = 0; v < g->value_count; v++)
        if (zt_dtype_in(g->values[v]->dtype, c->types) && !zt_stays_half(g->values[v]))
            convert_value(g, v, v < c->content_count ? c->contents[v] : NULL);
    for (int n = 0; n < g->node_count; n++) {
        convert_attributes(g, n, c->types);
        if (!convert_bodies(g, n, c->types, err) || !zt_op_infer(g, n, err))
            return false;
    }
    drop_casts(g, roots, root_count);
    return zt_graph_sort(g, err);
}

bool zt_pass_to_float(struct zt_graph *g, unsigned types, const float *const *contents, int content_count, int *root,
                      struct zt_err *err) {
    return cast_weights(g, types, err) &&
           to_float(g, &(struct conversion){ types, contents, content_count }, root, 1, err);
}
