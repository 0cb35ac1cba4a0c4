#include "parallel/schedule/frozen_weights.h"

#include "base/align.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zt_frozen_weight zt_frozen_weight_of(const struct zt_value *v) {
    return (struct zt_frozen_weight){ v->frozen_of ? v->frozen_of : v->name, v->dtype };
}

int64_t zt_frozen_units(const struct zt_value *v) {
    return zt_align_64(zt_value_bytes(v)) / (int64_t)sizeof(float);
}

int zt_frozen_weights_read(const struct zt_training_graph *training_graph, int stage, int *values) {
    const struct zt_graph *g = training_graph->graph;
    bool *seen = zt_calloc((size_t)g->value_count + 1, sizeof *seen);
    int count = 0;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; g->nodes[n]->stage == stage && i < g->nodes[n]->in_count; i++) {
            const int v = g->nodes[n]->in[i];
            if (v < 0 || seen[v] || !zt_value_is_frozen(g->values[v]))
                continue;
            seen[v] = true;
            values[count++] = v;
        }
    free(seen);
    return count;
}

static const char *key_of(struct zt_arena *scratch, const struct zt_frozen_weight *w) {
    return zt_arena_printf(scratch, "%d %s", (int)w->dtype, w->name);
}

void zt_frozen_weights_find(const struct zt_frozen_layout *layout, const struct zt_graph *g, int *value, bool *listed) {
    struct zt_arena *scratch = zt_arena_create();
    struct zt_map tensors = { 0 };
    for (int t = 0; t < layout->flat->tensor_count; t++) {
        zt_map_put(&tensors, key_of(scratch, &layout->weights[t]), t);
        value[t] = -1;
    }
    for (int v = 0; v < g->value_count; v++) {
        if (!zt_value_is_frozen(g->values[v]))
            continue;
        const struct zt_frozen_weight w = zt_frozen_weight_of(g->values[v]);
        const int t = (int)zt_map_get(&tensors, key_of(scratch, &w), -1);
        if (t < 0 || value[t] >= 0)
            continue;
        value[t] = v;
        if (listed)
            listed[v] = true;
    }
    zt_map_finish(&tensors);
    zt_arena_destroy(scratch);
}
