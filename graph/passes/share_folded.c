#include "graph/passes/share_folded.h"

#include "base/text.h"
#include "graph/ir/op.h"

#include <string.h>

enum {
    SMALL = 256
}; /* bytes: inputs up to this size are compared by content; nodes with outputs up to this size are not recorded */

static void add_hex(struct zt_text *key, const void *data, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++)
        zt_text_add(key, "%02x", ((const unsigned char *)data)[i]);
}

static void add_shape(struct zt_text *key, enum zt_dtype dtype, const struct zt_shape *shape) {
    zt_text_add(key, " %d[", dtype);
    for (int k = 0; k < shape->rank; k++)
        zt_text_add(key, "%lld,", (long long)shape->dim[k]);
    zt_text_add(key, "]");
}

static void add_contents(struct zt_text *key, enum zt_dtype dtype, const struct zt_shape *shape, const void *data) {
    const int64_t bytes = zt_shape_count(shape) * (int64_t)zt_dtype_bytes(dtype);
    add_shape(key, dtype, shape);
    if (data && bytes <= SMALL && dtype != ZT_STRING)
        add_hex(key, data, bytes);
    else
        zt_text_add(key, "%p", data);
}

static void add_text(struct zt_text *key, const char *text) {
    zt_text_add(key, " %zu:%s", strlen(text), text);
}

/* False if the attribute has contents that are not compared. */
static bool add_attr(struct zt_text *key, const struct zt_attr *a) {
    if (a->graph || a->bound || a->ref)
        return false;
    add_text(key, a->name);
    zt_text_add(key, " %d %a %lld %d", a->type, (double)a->f, (long long)a->i, a->count);
    if (a->s)
        add_text(key, a->s);
    for (int i = 0; i < a->count; i++) {
        if (a->type == ZT_ATTR_FLOATS)
            zt_text_add(key, " %a", (double)a->floats[i]);
        if (a->type == ZT_ATTR_INTS)
            zt_text_add(key, " %lld", (long long)a->ints[i]);
        if (a->type == ZT_ATTR_STRINGS)
            add_text(key, a->strings[i]);
    }
    add_contents(key, a->tensor.dtype, &a->tensor.shape, a->tensor.data);
    return true;
}

/* The operator, attributes and inputs of the node as text; false if they cannot be written. */
static bool write_key(const struct zt_graph *g, const struct zt_node *n, struct zt_text *key) {
    zt_text_add(key, "%p %d %d", (const void *)n->op, n->in_count, n->out_count);
    for (int i = 0; i < n->attr_count; i++)
        if (!add_attr(key, &n->attr[i]))
            return false;
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_value *v = zt_in(g, n->index, i);
        if (v && zt_value_is_constant(v))
            add_contents(key, v->dtype, &v->shape, v->data);
        else if (v)
            add_shape(key, v->dtype, &v->shape);
        else
            zt_text_add(key, " -");
    }
    for (int i = 0; i < n->out_count; i++)
        zt_text_add(key, " %d", n->out[i] >= 0);
    return true;
}

static bool is_large(const struct zt_graph *g, const struct zt_node *n) {
    double bytes = 0;
    for (int i = 0; i < n->out_count; i++)
        bytes += (double)zt_value_bytes(zt_out(g, n->index, i));
    return bytes > SMALL;
}

/* Whether the node was folded: nodes beyond the folding limit are not. */
static bool is_folded(const struct zt_graph *g, const struct zt_node *n) {
    int i = 0;
    while (i < n->out_count && (n->out[i] < 0 || !g->values[n->out[i]]->data))
        i++;
    return i < n->out_count;
}

static void share_outputs(const struct zt_graph *g, const struct zt_node *from, const struct zt_node *to) {
    for (int i = 0; i < to->out_count; i++)
        if (to->out[i] >= 0) {
            struct zt_value *v = g->values[to->out[i]];
            const struct zt_value *made = g->values[from->out[i]];
            v->dtype = made->dtype;
            v->shape = made->shape;
            v->data = made->data;
        }
}

bool zt_folded_alike(struct zt_folded *f, const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    struct zt_text key = { 0 };
    int earlier = -1;
    if (is_large(g, n) && write_key(g, n, &key)) {
        earlier = zt_map_get(&f->nodes, key.at, -1);
        if (earlier >= 0 && !is_folded(g, g->nodes[earlier]))
            earlier = -1;
        if (!f->arena)
            f->arena = zt_arena_create();
        if (earlier < 0)
            zt_map_put(&f->nodes, zt_arena_strdup(f->arena, key.at), node);
        else
            share_outputs(g, g->nodes[earlier], n);
    }
    zt_text_finish(&key);
    return earlier >= 0;
}

void zt_folded_finish(struct zt_folded *f) {
    zt_map_finish(&f->nodes);
    zt_arena_destroy(f->arena);
}
