/* tf2onnx writes the one bias of a Keras LSTM as B = [Wb, Rb] with zeros for Rb. The node adds both, so both would
 * train, and their sum would move twice as far. B * [ones, zeros] is B, and its gradient leaves Rb alone. */
#include "graph/ir/op.h"
#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/trainable.h"

enum { IN_B = 3 };

/* Whether B [directions, 2 columns] of a node has zeros behind the first half of each row, and others before. */
static bool has_one_bias(const struct zt_value *v) {
    if (v->origin != ZT_FROM_INITIALIZER || !v->data || !zt_dtype_in(v->dtype, ZT_ANY_FLOAT) || v->shape.rank != 2 ||
        v->shape.dim[1] % 2 || zt_constant_is_all(v, 0))
        return false;
    const int64_t columns = v->shape.dim[1];
    for (int64_t i = 0; i < zt_shape_count(&v->shape); i++)
        if (i % columns >= columns / 2 && zt_constant_at(v, i) != 0)
            return false;
    return true;
}

/* The value times [ones, zeros]. */
static int first_half(struct zt_graph *g, int value, int64_t place) {
    const struct zt_value *v = g->values[value];
    const int64_t columns = v->shape.dim[1];
    const struct zt_shape shape = { 2, { 1, columns } };
    void *half = zt_arena_alloc(g->arena, (size_t)columns * zt_dtype_bytes(v->dtype));
    for (int64_t i = 0; i < columns; i++)
        zt_store_double(v->dtype, half, i, i < columns / 2);
    const char *name = zt_arena_printf(g->arena, "%s.one_bias", v->name);
    const int in[2] = { value,
                        zt_graph_add_constant(g, zt_arena_printf(g->arena, "%s.half", name), v->dtype, &shape, half) };
    int out = zt_graph_add_value(g, name, ZT_UNDEFINED, NULL);
    const int node = zt_graph_add_node(g, &(struct zt_node_spec){ name, "Mul", "", ZT_OPSET, in, 2, &out, 1 });
    g->nodes[node]->place = place;
    return out;
}

void zt_pass_keep_one_bias(struct zt_graph *g, const struct zt_onnx *model) {
    const int count = zt_writer_of(model) == ZT_WRITER_TENSORFLOW ? g->node_count : 0;
    struct zt_err none = { 0 };
    bool any = false;
    for (int i = 0; i < count; i++) {
        struct zt_node *n = g->nodes[i];
        const bool lstm = zt_node_is(n, "LSTM");
        if (!lstm || n->in_count <= IN_B || n->in[IN_B] < 0 || !has_one_bias(g->values[n->in[IN_B]]))
            continue;
        n->in[IN_B] = first_half(g, n->in[IN_B], n->place);
        any = true;
    }
    if (any)
        zt_graph_sort(g, &none); /* what was added reads an initializer alone */
}
