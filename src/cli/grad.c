/* ztrain grad: sum over outputs of cotangent * d output / d x, for every float input and trainable initializer x.
 *
 * The graph first runs forward eagerly, so that the backward nodes are built for concrete shapes and contents, also
 * data-dependent ones. Then the backward nodes run in the order of their creation. */
#include "cli/commands.h"

#include "cli/arrays.h"
#include "graph/passes/grad.h"
#include "graph/passes/trainable/trainable.h"
#include "ops/table.h"

#include "base/file.h"
#include "base/vec.h"

#include <string.h>

struct product {
    struct zt_arrays arrays;
    ZT_VEC(struct zt_cotangent) from;
    ZT_VEC(int) wanted; /* float inputs, then parameters */
    int inputs;         /* how many of `wanted` are inputs */
    int *index;         /* graph input number of each wanted input */
    int *grads;
};

static bool is_float(const struct zt_graph *g, int value) {
    return zt_dtype_in(g->values[value]->dtype, ZT_ANY_FLOAT);
}

/* ---- cotangents ---- */

static void add_cotangent(struct product *p, int output, const struct zt_tensor *tensor) {
    struct zt_graph *g = p->arrays.graph;
    const char *name = zt_arena_printf(g->arena, "grad_output_%d", output);
    int id = zt_graph_add_value(g, name, tensor->dtype, &tensor->shape);
    g->values[id]->origin = ZT_FROM_INPUT;
    g->values[id]->data = tensor->data;
    zt_vec_push(&p->from, (struct zt_cotangent){ g->outputs[output], id });
}

static bool read_cotangent(struct product *p, int output, bool *any, struct zt_err *err) {
    const struct zt_value *v = p->arrays.graph->values[p->arrays.graph->outputs[output]];
    char name[32], found[ZT_SHAPE_TEXT], wanted[ZT_SHAPE_TEXT];
    struct zt_tensor tensor;
    bool there;
    snprintf(name, sizeof name, "grad_output_%d", output);
    if (!zt_arrays_read(&p->arrays, &(struct zt_array_key){ "grad_output", output, name }, &tensor, &there, err))
        return false;
    if (!there)
        return true;
    *any = true;
    if (!zt_dtype_in(v->dtype, ZT_ANY_FLOAT))
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s: output \"%s\" has type %s, which has no gradient",
                       p->arrays.options->inputs, name, v->name, zt_dtype_name(v->dtype));
    if (tensor.dtype != v->dtype || !zt_shape_equal(&tensor.shape, &v->shape))
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s is %s%s, output \"%s\" is %s%s", p->arrays.options->inputs, name,
                       zt_dtype_name(tensor.dtype), zt_shape_text(&tensor.shape, found), v->name,
                       zt_dtype_name(v->dtype), zt_shape_text(&v->shape, wanted));
    add_cotangent(p, output, &tensor);
    return true;
}

static void add_ones(struct product *p, int output) {
    struct zt_tensor ones = zt_arrays_value(&p->arrays, p->arrays.graph->outputs[output]);
    int64_t count = zt_shape_count(&ones.shape);
    void *data = zt_arena_alloc(p->arrays.arena, (size_t)count * zt_dtype_bytes(ones.dtype));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(ones.dtype, data, i, 1);
    ones.data = data;
    add_cotangent(p, output, &ones);
}

static bool read_cotangents(struct product *p, struct zt_err *err) {
    struct zt_graph *g = p->arrays.graph;
    bool any = false;
    for (int i = 0; i < g->output_count; i++)
        if (!read_cotangent(p, i, &any, err))
            return false;
    for (int i = 0; !any && i < g->output_count; i++)
        if (is_float(g, g->outputs[i]))
            add_ones(p, i);
    return true;
}

/* ---- requested gradients ---- */

static void list_wanted(struct product *p) {
    struct zt_graph *g = p->arrays.graph;
    p->index = ZT_NEW_N(p->arrays.arena, int, g->input_count);
    for (int i = 0; i < g->input_count; i++)
        if (is_float(g, g->inputs[i])) {
            p->index[p->wanted.count] = i;
            zt_vec_push(&p->wanted, g->inputs[i]);
        }
    p->inputs = p->wanted.count;
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v]->origin == ZT_FROM_INITIALIZER && g->values[v]->trainable && is_float(g, v))
            zt_vec_push(&p->wanted, v);
    p->grads = ZT_NEW_N(p->arrays.arena, int, p->wanted.count);
}

/* Appends the backward nodes and runs them. */
static bool differentiate(struct product *p, struct zt_err *err) {
    struct zt_graph *g = p->arrays.graph;
    int forward = g->node_count, problems = err->count;
    if (!zt_grad_build(g, &zt_ops,
                       &(struct zt_grad_request){ p->from.at, p->from.count, p->wanted.at, p->wanted.count }, p->grads,
                       err))
        return zt_err_within(err, problems, "%s", p->arrays.options->model);
    return zt_arrays_run(&p->arrays, forward, err);
}

/* ---- results ---- */

/* Returns the gradient of wanted[i]; zeros if no path leads to it. */
static struct zt_tensor gradient(const struct product *p, int i) {
    if (p->grads[i] >= 0)
        return zt_arrays_value(&p->arrays, p->grads[i]);
    struct zt_tensor zeros = zt_arrays_value(&p->arrays, p->wanted.at[i]);
    zeros.data = zt_arena_alloc(p->arrays.arena, (size_t)zt_shape_count(&zeros.shape) * zt_dtype_bytes(zeros.dtype));
    return zeros;
}

static bool write_gradients(const struct product *p, struct zt_err *err) {
    const struct zt_arrays *a = &p->arrays;
    int count = p->wanted.count;
    const char **names = ZT_NEW_N(a->arena, const char *, count);
    struct zt_tensor *tensors = ZT_NEW_N(a->arena, struct zt_tensor, count);
    for (int i = 0; i < count; i++) {
        names[i] = a->graph->values[p->wanted.at[i]]->name;
        tensors[i] = gradient(p, i);
        if (i < p->inputs &&
            !zt_arrays_write(a, &(struct zt_array_key){ "grad_input", p->index[i], names[i] }, &tensors[i], err))
            return false;
    }
    return zt_arrays_write_npz(a, "grad_params.npz", names + p->inputs, tensors + p->inputs, count - p->inputs, err);
}

/* ---- the graph as a file ---- */

/* Names the outputs of the file: the model's, then grad_input_N for float input N, then grad:NAME for parameter NAME.
 */
static const char *gradient_name(const struct product *p, int i) {
    struct zt_arena *arena = p->arrays.arena;
    return i < p->inputs ? zt_arena_printf(arena, "grad_input_%d", p->index[i])
                         : zt_arena_printf(arena, "grad:%s", p->arrays.graph->values[p->wanted.at[i]]->name);
}

/* A gradient that no path leads to is a constant of zeros. */
static int gradient_value(const struct product *p, int i) {
    struct zt_tensor zeros = gradient(p, i);
    return p->grads[i] >= 0
               ? p->grads[i]
               : zt_graph_add_constant(p->arrays.graph, gradient_name(p, i), zeros.dtype, &zeros.shape, zeros.data);
}

static bool emit(const struct product *p, const char *path, struct zt_err *err) {
    struct zt_graph *g = p->arrays.graph;
    int problems = err->count, count = g->output_count + p->wanted.count;
    if (!zt_graph_sort(g, err))
        return zt_err_within(err, problems, "%s", p->arrays.options->model);
    struct zt_emit_output *outputs = ZT_NEW_N(p->arrays.arena, struct zt_emit_output, count);
    int *inputs = ZT_NEW_N(p->arrays.arena, int, g->input_count + p->from.count);
    for (int i = 0; i < g->output_count; i++)
        outputs[i] = (struct zt_emit_output){ g->values[g->outputs[i]]->name, g->outputs[i] };
    for (int i = 0; i < p->wanted.count; i++)
        outputs[g->output_count + i] = (struct zt_emit_output){ gradient_name(p, i), gradient_value(p, i) };
    for (int i = 0; i < g->input_count; i++)
        inputs[i] = g->inputs[i];
    for (int i = 0; i < p->from.count; i++)
        inputs[g->input_count + i] = p->from.at[i].cotangent;
    struct zt_emit what = { inputs, g->input_count + p->from.count, outputs, count,
                            zt_arena_printf(p->arrays.arena,
                                            "%s and its gradients, as ztrain computes them, at the shapes of one run",
                                            zt_path_name(p->arrays.model->path)) };
    return zt_onnx_emit(g, &zt_ops, &what, path, err) || zt_err_within(err, problems, "%s", p->arrays.options->model);
}

static bool run(struct product *p, const struct zt_options *options, struct zt_err *err) {
    if (!zt_arrays_open(&p->arrays, options, true, err))
        return false;
    zt_pass_trainable(p->arrays.graph, p->arrays.model, -1);
    if (!zt_arrays_run(&p->arrays, 0, err) || !read_cotangents(p, err))
        return false;
    list_wanted(p);
    return differentiate(p, err) && (!options->emit || emit(p, options->emit, err)) && write_gradients(p, err);
}

bool zt_cli_grad(const struct zt_options *options, struct zt_err *err) {
    struct product p = { 0 };
    bool ok = run(&p, options, err);
    zt_arrays_finish(&p.arrays, ok, err);
    zt_vec_finish(&p.from);
    zt_vec_finish(&p.wanted);
    return ok;
}
