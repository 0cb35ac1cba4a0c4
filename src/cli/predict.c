/* ztrain predict: runs the graph forward, as exported, on whole arrays. */
#include "cli/commands.h"
#include "cli/arrays.h"

/* The arrays of outputs.npz: outputs by name, the tensors of a sequence or optional as "NAME.0", "NAME.1", .. */
struct listed {
    const char **names;
    struct zt_tensor *tensors;
    int count;
};

static void list_output(const struct zt_arrays *a, int value, struct listed *to) {
    const struct zt_value *v = a->graph->values[value];
    const int count = zt_list_tensor_count(a->graph, value);
    for (int i = 0; i < count; i++, to->count++) {
        to->names[to->count] = v->list ? zt_arena_printf(a->arena, "%s.%d", v->name, i) : v->name;
        to->tensors[to->count] = zt_arrays_value(a, zt_list_tensor(a->graph, value, i));
    }
}

static bool write_outputs(const struct zt_arrays *a, struct zt_err *err) {
    const struct zt_graph *g = a->graph;
    struct listed all = { 0 };
    int count = 0;
    for (int i = 0; i < g->output_count; i++)
        count += zt_list_tensor_count(g, g->outputs[i]);
    all.names = ZT_NEW_N(a->arena, const char *, count);
    all.tensors = ZT_NEW_N(a->arena, struct zt_tensor, count);
    for (int i = 0; i < g->output_count; i++) {
        const struct zt_value *v = g->values[g->outputs[i]];
        const struct zt_tensor *first = &all.tensors[all.count];
        const struct zt_array_key key = { "output", i, v->name };
        list_output(a, v->id, &all);
        if (v->list ? !zt_arrays_write_list(a, &key, v->id, first, err) : !zt_arrays_write(a, &key, first, err))
            return false;
    }
    return zt_arrays_write_npz(a, "outputs.npz", all.names, all.tensors, all.count, err);
}

bool zt_cli_predict(const struct zt_options *options, struct zt_err *err) {
    struct zt_arrays a;
    bool ok = zt_arrays_open(&a, options, false, err);
    if (ok)
        zt_eval_results_alone(a.eval);
    ok = ok && zt_arrays_run(&a, 0, err) && write_outputs(&a, err);
    zt_arrays_finish(&a, ok, err);
    return ok;
}
