/* The ONNX function body of LinearAttention's gradient, step by step (formulas in linear_attention.c). A name that
 * ends with a number belongs to that step. Axes of a step: [batch, kv_heads, size, columns] of a state; k, e and their
 * gradients have one column, v and u one row; q is [batch, kv_heads, group, size], y [batch, kv_heads, group, columns].
 */
#include "ops/linear_attention/kernels.h"
#include "ops/linear_attention/linear.h"

struct body {
    struct zt_function_body *b;
    struct zt_launch_linear l;
    long long batch, steps, heads, group, size, columns;
};

static bool read_body(struct body *w, struct zt_function_body *b, const struct zt_graph *g, int node,
                      struct zt_err *err) {
    w->b = b;
    if (!zt_linear_attention_read(g, node, &w->l, err))
        return false;
    w->batch = w->l.batch, w->steps = w->l.steps, w->heads = w->l.kv_heads;
    w->group = w->l.heads / w->l.kv_heads;
    w->size = w->l.size, w->columns = w->l.v_size;
    return true;
}

/* The inputs with an axis for steps and axes for heads, the first state as s and, with a decay, e. */
static void say_inputs(struct body *w) {
    struct zt_function_body *b = w->b;
    zt_function_body_number(b, "scale", w->l.scale);
    zt_function_body_add(b, "q = Reshape(q, [%lld, %lld, %lld, %lld, %lld])", w->batch, w->steps, w->heads, w->group,
                         w->size);
    zt_function_body_add(b, "k = Reshape(k, [%lld, %lld, %lld, %lld, 1])", w->batch, w->steps, w->heads, w->size);
    zt_function_body_add(b, "v = Reshape(v, [%lld, %lld, %lld, 1, %lld])", w->batch, w->steps, w->heads, w->columns);
    if (w->l.gated)
        zt_function_body_add(b, "e = Exp(Reshape(decay, [%lld, %lld, %lld, %lld, 1]))", w->batch, w->steps, w->heads,
                             w->l.by_key ? w->size : 1);
    if (w->l.delta)
        zt_function_body_add(b, "beta = Reshape(beta, [%lld, %lld, %lld, 1, 1])", w->batch, w->steps,
                             w->l.one_beta ? 1 : w->heads);
    if (zt_in(b->g, b->node, ZT_LINEAR_PAST))
        zt_function_body_add(b, "s = past");
    else
        zt_function_body_add(b, "s = Expand(0, [%lld, %lld, %lld, %lld])", w->batch, w->heads, w->size, w->columns);
}

/* a_t, the decayed state, u_t, rest_t and s, the state after the step. */
static void say_step(struct body *w, int t) {
    struct zt_function_body *b = w->b;
    zt_function_body_add(b, "k_%d = Gather<axis=1>(k, %di); rest_%d = Gather<axis=1>(v, %di); a_%d = s", t, t, t, t, t);
    if (w->l.gated)
        zt_function_body_add(b, "a_%d = s * Gather<axis=1>(e, %di)", t, t);
    if (w->l.delta)
        zt_function_body_add(b, "rest_%d = rest_%d - ReduceSum(k_%d * a_%d, [2])", t, t, t, t);
    zt_function_body_add(b, w->l.delta ? "u_%d = rest_%d * Gather<axis=1>(beta, %di)" : "u_%d = rest_%d", t, t, t);
    zt_function_body_add(b, "s = a_%d + k_%d * u_%d", t, t, t);
}

/* OUT: NAME_t of every step, one after the other, in the shape of output `out`. */
static void say_joined(struct body *w, int out, const char *name) {
    struct zt_function_body *b = w->b;
    const char *text = "";
    if (!zt_function_body_wants(b, out))
        return;
    const char *dims = zt_function_body_dims(b, &zt_out(b->g, b->node, out)->shape);
    for (int t = 0; t < w->steps; t++)
        text = zt_function_body_text(b, "%s%sUnsqueeze(%s_%d, [1])", text, t ? ", " : "", name, t);
    if (w->steps)
        zt_function_body_add(b, "%s = Reshape(Concat<axis=1>(%s), %s)", name, text, dims);
    else
        zt_function_body_add(b, "%s = Expand(0, %s)", name, dims);
}

/* d, the gradient of the state, moves from after step t to before it. */
static void say_back(struct body *w, int t) {
    struct zt_function_body *b = w->b;
    if (zt_in(b->g, b->node, ZT_LINEAR_DY))
        zt_function_body_add(b,
                             "d = d + scale * MatMul(Transpose<perm=[0, 1, 3, 2]>(Gather<axis=1>(q, %di)),"
                             "Gather<axis=1>(dy, %di))",
                             t, t);
    zt_function_body_add(b, "du = ReduceSum(k_%d * d, [2]); dk_%d = ReduceSum(d * u_%d, [3]); dv_%d = du", t, t, t, t);
    if (w->l.delta) {
        zt_function_body_add(b, "dbeta_%d = ReduceSum(du * rest_%d, [3]); dv_%d = du * Gather<axis=1>(beta, %di)", t, t,
                             t, t);
        zt_function_body_add(b, "dk_%d = dk_%d - ReduceSum(a_%d * dv_%d, [3]); d = d - k_%d * dv_%d", t, t, t, t, t, t);
    }
    if (w->l.gated) {
        zt_function_body_add(b, "ddecay_%d = ReduceSum(d * a_%d, [3]); d = d * Gather<axis=1>(e, %di)", t, t, t);
        if (!w->l.by_key)
            zt_function_body_add(b, "ddecay_%d = ReduceSum(ddecay_%d, [2])", t, t);
    }
}

ZT_FUNCTION_BODY(zt_linear_attention_grad_function_body) {
    struct body w;
    if (!read_body(&w, b, g, node, err))
        return false;
    const bool dy = zt_in(g, node, ZT_LINEAR_DY), dpresent = zt_in(g, node, ZT_LINEAR_DPRESENT);
    zt_function_body_names(b, "q, k, v, past, decay, beta, dy, dpresent -> dq, dk, dv, d, ddecay, dbeta");
    say_inputs(&w);
    if (dy)
        zt_function_body_add(b, "dy = Reshape(dy, [%lld, %lld, %lld, %lld, %lld])", w.batch, w.steps, w.heads, w.group,
                             w.columns);
    for (int t = 0; t < w.steps; t++) {
        say_step(&w, t);
        if (dy)
            zt_function_body_add(b, "dq_%d = scale * MatMul(Gather<axis=1>(dy, %di), Transpose<perm=[0, 1, 3, 2]>(s))",
                                 t, t);
        else
            zt_function_body_add(b, "dq_%d = 0 * Gather<axis=1>(q, %di)", t, t);
    }
    zt_function_body_add(b, dpresent ? "d = dpresent" : "d = Expand(0, [%lld, %lld, %lld, %lld])", w.batch, w.heads,
                         w.size, w.columns);
    for (int t = (int)w.steps - 1; t >= 0; t--)
        say_back(&w, t);
    say_joined(&w, ZT_LINEAR_Q, "dq");
    say_joined(&w, ZT_LINEAR_K, "dk");
    say_joined(&w, ZT_LINEAR_V, "dv");
    say_joined(&w, ZT_LINEAR_DECAY, "ddecay");
    say_joined(&w, ZT_LINEAR_BETA, "dbeta");
    return true;
}
