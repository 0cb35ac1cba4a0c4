/* The branches of an If as graphs of their own (ops/control/if.h). */
#include "ops/control/body.h"
#include "ops/control/if.h"

#include <string.h>

static const char *const names[ZT_BRANCHES] = { "then_branch", "else_branch" };

static bool check_outputs(const struct zt_body *b, int count) {
    for (int i = 0; i < count; i++)
        if (b->g->values[b->g->outputs[i]]->list)
            return zt_fail(b->why, ZT_EXIT_MODEL,
                           "its output %d is a sequence or optional, whose length then depends on data", i);
    return true;
}

/* captured: what the inputs of the graph read; NULL with the reason where it cannot be built. */
static const struct zt_graph *make_branch(struct zt_expansion *x, int branch, int **captured, struct zt_err *why) {
    struct zt_body b;
    zt_body_begin(&b, x, 0, why);
    *captured = b.captured;
    int *out = zt_body_open(&b, names[branch], NULL);
    b.g->outputs = out;
    b.g->output_count = x->g->nodes[x->node]->out_count;
    return zt_body_end(&b, out && zt_body_infer(&b) && check_outputs(&b, b.g->output_count) && zt_body_prune(&b));
}

/* Both branches must hand out the same types and, but in a trial of sizes, shapes. *alike: they do. */
static bool check_alike(const struct zt_expansion *x, const struct zt_graph *const *branch, bool *alike,
                        struct zt_err *err) {
    *alike = true;
    for (int i = 0; i < branch[ZT_THEN]->output_count; i++) {
        const struct zt_value *a = branch[ZT_THEN]->values[branch[ZT_THEN]->outputs[i]];
        const struct zt_value *b = branch[ZT_ELSE]->values[branch[ZT_ELSE]->outputs[i]];
        char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
        *alike &= zt_shape_equal(&a->shape, &b->shape);
        if (a->dtype != b->dtype || (!*alike && x->settler->trial == ZT_TRIAL_NONE))
            return zt_node_fail(x->g, x->node, err,
                                "its condition depends on data, and its output %d is %s%s in then_branch, %s%s in "
                                "else_branch",
                                i, zt_dtype_name(a->dtype), zt_shape_text(&a->shape, s), zt_dtype_name(b->dtype),
                                zt_shape_text(&b->shape, t));
    }
    return true;
}

static bool emit(struct zt_expansion *x, const struct zt_graph *const *branch, int *const *captured,
                 struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const int a = branch[ZT_THEN]->input_count, b = branch[ZT_ELSE]->input_count;
    int *in = ZT_NEW_N(x->g->arena, int, 1 + a + b);
    in[0] = n->in[0];
    for (int i = 0; i < a; i++)
        in[1 + i] = captured[ZT_THEN][i];
    for (int i = 0; i < b; i++)
        in[1 + a + i] = captured[ZT_ELSE][i];
    const struct zt_attr attrs[] = {
        { .name = "then_branch", .type = ZT_ATTR_GRAPH, .graph = branch[ZT_THEN] },
        { .name = "else_branch", .type = ZT_ATTR_GRAPH, .graph = branch[ZT_ELSE] },
    };
    return zt_expand_emit_own(x, &(struct zt_expand_node){ "IfRun", in, 1 + a + b, attrs, ZT_BRANCHES }, n->out,
                              n->out_count, err);
}

static int64_t elements(const struct zt_graph *branch) {
    int64_t sum = 0;
    for (int i = 0; i < branch->output_count; i++)
        sum += zt_shape_count(&branch->values[branch->outputs[i]]->shape);
    return sum;
}

bool zt_if_take(struct zt_expansion *x, const char *name, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const int count = zt_expand_subgraph(x, name)->output_count;
    int *out = ZT_NEW_N(x->g->arena, int, count + 1);
    memset(out, -1, (size_t)count * sizeof *out);
    memcpy(out, n->out, (size_t)n->out_count * sizeof *out);
    x->done = true;
    return zt_expand_copy(x, name, NULL, out, err);
}

bool zt_if_run(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_graph *branch[ZT_BRANCHES];
    int *captured[ZT_BRANCHES];
    for (int k = 0; k < ZT_BRANCHES; k++) {
        struct zt_err why = { 0 };
        branch[k] = make_branch(x, k, &captured[k], &why);
        if (!branch[k])
            return zt_node_fail(x->g, x->node, err,
                                "its condition \"%s\" depends on data, and its %s cannot run before it is known: %s",
                                zt_in(x->g, x->node, 0)->name, names[k], why.text[0]);
    }
    bool alike;
    x->done = true;
    if (!check_alike(x, branch, &alike, err))
        return false;
    if (alike)
        return emit(x, branch, captured, err);
    const bool then_more = elements(branch[ZT_THEN]) >= elements(branch[ZT_ELSE]);
    return zt_if_take(x, names[then_more == (x->settler->trial == ZT_TRIAL_MOST) ? ZT_THEN : ZT_ELSE], err);
}
