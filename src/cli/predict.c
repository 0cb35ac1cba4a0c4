/* ztrain predict: runs the graph forward, as exported, on whole arrays. */
#include "cli/commands.h"
#include "cli/arrays.h"

static bool write_outputs(const struct zt_arrays *a, struct zt_err *err) {
    const struct zt_graph *g = a->graph;
    const char **names = ZT_NEW_N(a->arena, const char *, g->output_count);
    struct zt_tensor *tensors = ZT_NEW_N(a->arena, struct zt_tensor, g->output_count);
    for (int i = 0; i < g->output_count; i++) {
        names[i] = g->values[g->outputs[i]]->name;
        tensors[i] = zt_arrays_value(a, g->outputs[i]);
        if (!zt_arrays_write(a, &(struct zt_array_key){ "output", i, names[i] }, &tensors[i], err))
            return false;
    }
    return zt_arrays_write_npz(a, "outputs.npz", names, tensors, g->output_count, err);
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
