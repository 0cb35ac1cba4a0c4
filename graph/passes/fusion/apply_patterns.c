#include "graph/passes/fusion/apply_patterns.h"

#include "base/text.h"

bool zt_fusion_allows(const struct zt_fusion *fusion, const struct zt_pattern *pattern) {
    return zt_glob_any(fusion->names, fusion->name_count, pattern->name);
}

static bool train_from(struct zt_graph *g, int first, const struct zt_train_options *options, struct zt_err *err) {
    int count = g->node_count;
    for (int n = first; options && n < count; n++)
        if (!g->nodes[n]->dead && g->nodes[n]->op->train && !g->nodes[n]->op->train(g, n, options, err))
            return false;
    return true;
}

/* The back end of which `when` is the bit. */
static enum zt_backend backend_of(unsigned when) {
    enum zt_backend on = ZT_REF;
    while (on < ZT_BACKENDS && when != 1u << on)
        on++;
    return on;
}

/* Applies one row everywhere, the last nodes first: of two places of which one is part of the other, the larger one
 * counts. Nodes it adds are not looked at. Returns the number of places. */
static int apply_everywhere(struct zt_graph *g, const struct zt_op_table *table, const struct zt_pattern *pattern,
                            enum zt_backend on, struct zt_err *err) {
    int found = 0;
    for (int n = g->node_count - 1; n >= 0 && !err->count; n--)
        if (!g->nodes[n]->dead &&
            (pattern->apply_on ? pattern->apply_on(g, table, n, on, err) : pattern->apply(g, table, n, err)))
            found++;
    return found;
}

bool zt_pass_fuse(struct zt_graph *g, const struct zt_op_table *table, const struct zt_fuse_options *o,
                  struct zt_err *err) {
    const struct zt_fusion *fusion = o->fusion;
    for (int p = 0; fusion->patterns[p]; p++) {
        if (!(fusion->patterns[p]->when & o->when) || !zt_fusion_allows(fusion, fusion->patterns[p]))
            continue;
        int before = g->node_count, found = apply_everywhere(g, table, fusion->patterns[p], backend_of(o->when), err);
        if (err->count || !train_from(g, before, o->train, err) ||
            ((found || g->node_count > before) && !zt_graph_sort(g, err)))
            return false;
        if (o->counts)
            o->counts[p] += found;
    }
    return true;
}
