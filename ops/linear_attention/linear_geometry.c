/* The geometry of LinearAttention, read from the node (linear.h). */
#include "ops/linear_attention/linear.h"

#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

bool zt_linear_attention_shape_fail(const struct zt_graph *g, int node, int in, const char *wanted,
                                    struct zt_err *err) {
    char text[ZT_SHAPE_TEXT];
    const struct zt_value *v = zt_in(g, node, in);
    return zt_node_fail(g, node, err, "\"%s\" has shape %s; wanted is %s", v->name, zt_shape_text(&v->shape, text),
                        wanted);
}

static bool read_rule(const struct zt_graph *g, int node, struct zt_launch_linear *l, struct zt_err *err) {
    static const struct {
        const char *name;
        bool gated, delta;
    } rules[] = {
        { "linear", false, false }, { "gated", true, false }, { "delta", false, true }, { "gated_delta", true, true }
    };
    const char *rule = zt_attr_text(g->nodes[node], "update_rule", "gated_delta");
    size_t i = 0, count = sizeof rules / sizeof *rules;
    while (i < count && strcmp(rules[i].name, rule) != 0)
        i++;
    if (i == count)
        return zt_node_fail(g, node, err, "update_rule is \"%s\", wants linear, gated, delta or gated_delta", rule);
    l->gated = rules[i].gated;
    l->delta = rules[i].delta;
    const struct {
        const char *name;
        int in;
        bool used;
    } inputs[] = { { "decay", ZT_LINEAR_DECAY, l->gated }, { "beta", ZT_LINEAR_BETA, l->delta } };
    for (i = 0; i < 2; i++)
        if (inputs[i].used != (zt_in(g, node, inputs[i].in) != NULL))
            return zt_node_fail(g, node, err, "update_rule \"%s\" %s input %s", rule,
                                inputs[i].used ? "needs" : "has no", inputs[i].name);
    return true;
}

static bool read_heads(const struct zt_graph *g, int node, struct zt_launch_linear *l, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *q = &zt_in(g, node, ZT_LINEAR_Q)->shape, *k = &zt_in(g, node, ZT_LINEAR_K)->shape,
                          *v = &zt_in(g, node, ZT_LINEAR_V)->shape;
    l->heads = zt_attr_int(n, "q_num_heads", 0);
    l->kv_heads = zt_attr_int(n, "kv_num_heads", 0);
    if (l->heads < 1 || l->kv_heads < 1 || l->heads % l->kv_heads)
        return zt_node_fail(g, node, err, "q_num_heads is %lld and kv_num_heads %lld, wants a multiple and 1 or more",
                            (long long)l->heads, (long long)l->kv_heads);
    if (q->rank != 3 || q->dim[2] % l->heads)
        return zt_linear_attention_shape_fail(g, node, ZT_LINEAR_Q, "[batch, steps, q_num_heads * size]", err);
    l->batch = q->dim[0];
    l->steps = q->dim[1];
    l->size = q->dim[2] / l->heads;
    if (k->rank != 3 || k->dim[0] != l->batch || k->dim[1] != l->steps || k->dim[2] % l->kv_heads ||
        k->dim[2] / l->kv_heads != l->size)
        return zt_linear_attention_shape_fail(g, node, ZT_LINEAR_K,
                                              "[batch, steps, kv_num_heads * size] as of the queries", err);
    if (v->rank != 3 || v->dim[0] != l->batch || v->dim[1] != l->steps || v->dim[2] % l->kv_heads)
        return zt_linear_attention_shape_fail(g, node, ZT_LINEAR_V,
                                              "[batch, steps, kv_num_heads * columns] as of the queries", err);
    l->v_size = v->dim[2] / l->kv_heads;
    return true;
}

static bool read_state(const struct zt_graph *g, int node, const struct zt_launch_linear *l, struct zt_err *err) {
    const struct zt_value *past = zt_in(g, node, ZT_LINEAR_PAST);
    const struct zt_shape want = { 4, { l->batch, l->kv_heads, l->size, l->v_size } };
    if (past && !zt_shape_equal(&past->shape, &want))
        return zt_linear_attention_shape_fail(g, node, ZT_LINEAR_PAST, "[batch, kv_num_heads, size, columns]", err);
    return true;
}

/* decay and beta: [batch, steps, numbers], where a step has either[0] or either[1] numbers. */
static bool read_numbers(const struct zt_graph *g, int node, int in, const int64_t either[2], int64_t *count,
                         struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, in);
    const struct zt_shape *q = &zt_in(g, node, ZT_LINEAR_Q)->shape;
    if (!x)
        return true;
    const int64_t *d = x->shape.dim;
    if (x->shape.rank != 3 || d[0] != q->dim[0] || d[1] != q->dim[1] || (d[2] != either[0] && d[2] != either[1]))
        return zt_linear_attention_shape_fail(
            g, node, in,
            in == ZT_LINEAR_DECAY ? "[batch, steps, kv_num_heads], or [batch, steps, kv_num_heads * size]"
                                  : "[batch, steps, kv_num_heads], or [batch, steps, 1]",
            err);
    *count = d[2];
    return true;
}

int64_t zt_linear_attention_kept(const struct zt_launch_linear *l, int64_t columns) {
    return (l->steps / l->chunk + l->chunk + 3) * l->size * columns + 2 * l->steps * columns;
}

/* Twice the largest sum of sizes that a kernel computes: states of a head beside rows of all its steps, in double, for
 * every head and for at most 1024 threads. */
static bool fits(const struct zt_graph *g, int node, const struct zt_launch_linear *l, struct zt_err *err) {
    int64_t state, rows, all, units;
    return zt_ops_dim_product(g, node, l->size + 1, l->v_size + ZT_LINEAR_COLUMNS, &state, err) &&
           zt_ops_dim_product(g, node, state, 2 * l->chunk + 4, &state, err) &&
           zt_ops_dim_sum(g, node, l->size + 1, l->v_size + ZT_LINEAR_COLUMNS, &rows, err) &&
           zt_ops_dim_product(g, node, rows, 4 * (l->heads / l->kv_heads + 2), &rows, err) &&
           zt_ops_dim_product(g, node, rows, l->steps + 1, &rows, err) &&
           zt_ops_dim_sum(g, node, state, rows, &all, err) &&
           zt_ops_dim_product(g, node, l->batch, l->kv_heads, &units, err) &&
           zt_ops_dim_product(g, node, all, units + 1024, &all, err) &&
           zt_ops_dim_product(g, node, all, 2 * sizeof(double), &all, err);
}

bool zt_linear_attention_read(const struct zt_graph *g, int node, struct zt_launch_linear *l, struct zt_err *err) {
    *l = (struct zt_launch_linear){ 0 };
    int64_t decays = 0, betas = 0;
    if (!read_rule(g, node, l, err) || !read_heads(g, node, l, err) || !read_state(g, node, l, err))
        return false;
    const int64_t decay[2] = { l->kv_heads, l->kv_heads * l->size }, beta[2] = { l->kv_heads, 1 };
    if (!read_numbers(g, node, ZT_LINEAR_DECAY, decay, &decays, err) ||
        !read_numbers(g, node, ZT_LINEAR_BETA, beta, &betas, err))
        return false;
    l->by_key = l->gated && decays != l->kv_heads;
    l->one_beta = l->delta && betas != l->kv_heads;
    l->scale = (double)zt_attr_float(g->nodes[node], "scale", 0);
    if (l->scale == 0 && l->size > 0)
        l->scale = 1 / sqrt((double)l->size);
    l->chunk = l->steps > 0 ? (int64_t)ceil(sqrt((double)l->steps)) : 1;
    return fits(g, node, l, err);
}
