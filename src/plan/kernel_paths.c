#include "plan/kernel_paths.h"

#include "base/show.h"
#include "graph/ir/op.h"

#include <stdlib.h>
#include <string.h>

/* Nodes with the same operator, type, implementation and reason. */
struct kind {
    const struct zt_node *first;
    enum zt_dtype dtype;
    const struct zt_path *path;
    int nodes;
};

struct kinds {
    struct kind *at;
    int count;
};

static bool same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_kind(const struct kind *k, const struct kind *one) {
    return k->dtype == one->dtype && same(k->first->op_type, one->first->op_type) &&
           same(k->path->name, one->path->name) && same(k->path->note, one->path->note);
}

static void add(struct kinds *kinds, const struct kind *one) {
    int i = 0;
    while (i < kinds->count && !is_kind(&kinds->at[i], one))
        i++;
    if (i == kinds->count)
        kinds->at[kinds->count++] = *one;
    kinds->at[i].nodes++;
}

static void add_commands(struct kinds *kinds, const struct zt_program *p, const struct zt_command *at, int count) {
    const struct zt_graph *g = p->training_graph.graph;
    for (int i = 0; i < count; i++) {
        const int n = at[i].node;
        if (at[i].kind != ZT_RUN_NODE || !p->prepared[n].path.name)
            continue;
        const struct zt_value *v = zt_in(g, n, 0);
        const struct kind one = { g->nodes[n], v ? v->dtype : ZT_UNDEFINED, &p->prepared[n].path, 0 };
        add(kinds, &one);
    }
}

/* Appends "cuDNN 53, own kernel 2": totals by implementation, in the order of first occurrence. */
static void list_totals(const struct kinds *kinds, struct zt_text *to) {
    for (int i = 0; i < kinds->count; i++) {
        const char *name = kinds->at[i].path->name;
        int nodes = 0, first = 0;
        while (!same(kinds->at[first].path->name, name))
            first++;
        for (int k = i; k < kinds->count; k++)
            nodes += same(kinds->at[k].path->name, name) ? kinds->at[k].nodes : 0;
        if (first == i)
            zt_text_add(to, "%s%s %d", i ? ", " : "", name, nodes);
    }
    zt_text_add(to, "\n");
}

void zt_paths_list(const struct zt_program *p, struct zt_text *to) {
    struct kinds kinds = { .at = zt_calloc((size_t)p->training_graph.graph->node_count + 1, sizeof *kinds.at) };
    add_commands(&kinds, p, p->derive, p->derive_count);
    add_commands(&kinds, p, p->forward, p->forward_count);
    add_commands(&kinds, p, p->backward, p->backward_count);
    if (kinds.count)
        list_totals(&kinds, to);
    for (int i = 0; i < kinds.count; i++) {
        const struct kind *k = &kinds.at[i];
        char name[ZT_ERR_TEXT];
        if (k->path->note)
            zt_text_add(to, "  %s: %d %s (%s), the first %s: %s\n", k->path->name, k->nodes, k->first->op_type,
                        zt_dtype_name(k->dtype), zt_show(name, sizeof name, k->first->name), k->path->note);
    }
    free(kinds.at);
}
