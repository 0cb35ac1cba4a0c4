/* ztrain grad: sum over outputs of cotangent * d output / d x, for every float input and trainable initializer x.
 *
 * The graph first runs forward eagerly, so that the backward nodes are built for concrete shapes and contents, also
 * data-dependent ones. Then the backward nodes run in the order of their creation. */
#include "cli/commands.h"

#include "cli/arrays.h"
#include "graph/passes/grad.h"
#include "graph/passes/trainable/trainable.h"
#include "ops/table.h"
#include "session/inputs.h"

#include "base/file.h"
#include "base/map.h"
#include "base/vec.h"

#include <string.h>

struct product {
    struct zt_arrays arrays;
    ZT_VEC(struct zt_cotangent) from;
    ZT_VEC(int) wanted; /* float inputs (of lists their tensors), then parameters */
    int inputs;         /* how many of `wanted` are inputs */
    int *index;         /* graph input number of each wanted input, or of the list that it is in */
    int *grads;
};

static bool is_float(const struct zt_graph *g, int value) {
    return zt_dtype_in(g->values[value]->dtype, ZT_ANY_FLOAT);
}

/* ---- cotangents ---- */

static void add_cotangent(struct product *p, int value, const char *name, const struct zt_tensor *tensor) {
    struct zt_graph *g = p->arrays.graph;
    int id = zt_graph_add_value(g, name, tensor->dtype, &tensor->shape);
    g->values[id]->origin = ZT_FROM_INPUT;
    g->values[id]->data = tensor->data;
    zt_vec_push(&p->from, (struct zt_cotangent){ value, id });
}

/* Adds a cotangent that was read for a tensor of the outputs. */
static bool take_cotangent(struct product *p, int value, const char *name, const struct zt_tensor *tensor,
                           struct zt_err *err) {
    const struct zt_value *v = p->arrays.graph->values[value];
    char found[ZT_SHAPE_TEXT], wanted[ZT_SHAPE_TEXT];
    if (!zt_dtype_in(v->dtype, ZT_ANY_FLOAT))
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s: output \"%s\" has type %s, which has no gradient",
                       p->arrays.options->inputs, name, v->name, zt_dtype_name(v->dtype));
    if (tensor->dtype != v->dtype || !zt_shape_equal(&tensor->shape, &v->shape))
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s is %s%s, output \"%s\" is %s%s", p->arrays.options->inputs, name,
                       zt_dtype_name(tensor->dtype), zt_shape_text(&tensor->shape, found), v->name,
                       zt_dtype_name(v->dtype), zt_shape_text(&v->shape, wanted));
    add_cotangent(p, value, name, tensor);
    return true;
}

static bool read_list_cotangent(struct product *p, int output, const char *name, bool *any, struct zt_err *err) {
    struct zt_graph *g = p->arrays.graph;
    const int id = g->outputs[output], count = zt_list_tensor_count(g, id);
    struct zt_onnx_list list;
    bool there;
    if (zt_npz_find(&p->arrays.npz, name)) {
        zt_fail(err, ZT_EXIT_DATA, "%s: %s: output \"%s\" is a list of tensors, which a file of arrays cannot hold",
                p->arrays.options->inputs, name, g->values[id]->name);
        return zt_hint(err, "give a folder with %s.pb", name);
    }
    if (!zt_arrays_read_list(&p->arrays, &(struct zt_array_key){ "grad_output", output, name }, g->values[id]->list,
                             &list, &there, err))
        return false;
    *any |= there;
    if (there && list.tensor_count != count)
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s has %d tensors, output \"%s\" has %d", p->arrays.options->inputs,
                       name, list.tensor_count, g->values[id]->name, count);
    for (int i = 0; there && i < count; i++)
        if (!take_cotangent(p, zt_list_tensor(g, id, i), zt_arena_printf(g->arena, "%s.%d", name, i), &list.tensor[i],
                            err))
            return false;
    return true;
}

static bool read_cotangent(struct product *p, int output, bool *any, struct zt_err *err) {
    struct zt_graph *g = p->arrays.graph;
    const char *name = zt_arena_printf(g->arena, "grad_output_%d", output);
    struct zt_tensor tensor;
    bool there;
    if (g->values[g->outputs[output]]->list)
        return read_list_cotangent(p, output, name, any, err);
    if (!zt_arrays_read(&p->arrays, &(struct zt_array_key){ "grad_output", output, name }, &tensor, &there, err))
        return false;
    *any |= there;
    return !there || take_cotangent(p, g->outputs[output], name, &tensor, err);
}

static void add_ones(struct product *p, int value, const char *name) {
    struct zt_tensor ones = zt_arrays_value(&p->arrays, value);
    int64_t count = zt_shape_count(&ones.shape);
    void *data = zt_arena_alloc(p->arrays.arena, (size_t)count * zt_dtype_bytes(ones.dtype));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(ones.dtype, data, i, 1);
    ones.data = data;
    add_cotangent(p, value, name, &ones);
}

static void add_all_ones(struct product *p, int output) {
    struct zt_graph *g = p->arrays.graph;
    const bool list = g->values[g->outputs[output]]->list != NULL;
    for (int i = 0, id; (id = zt_list_tensor(g, g->outputs[output], i)) >= 0; i++)
        if (is_float(g, id))
            add_ones(p, id, zt_arena_printf(g->arena, list ? "grad_output_%d.%d" : "grad_output_%d", output, i));
}

static bool read_cotangents(struct product *p, struct zt_err *err) {
    struct zt_graph *g = p->arrays.graph;
    bool any = false;
    if (!zt_arrays_none_beyond(&p->arrays, &(struct zt_array_key){ "grad_output", g->output_count, NULL }, err))
        return false;
    for (int i = 0; i < g->output_count; i++)
        if (!read_cotangent(p, i, &any, err))
            return false;
    for (int i = 0; !any && i < g->output_count; i++)
        add_all_ones(p, i);
    return true;
}

/* ---- requested gradients ---- */

/* Of a sequence or optional every float tensor is requested. */
static void list_wanted(struct product *p) {
    struct zt_graph *g = p->arrays.graph;
    int tensors = 0;
    for (int i = 0; i < g->input_count; i++)
        tensors += zt_list_tensor_count(g, g->inputs[i]);
    p->index = ZT_NEW_N(p->arrays.arena, int, tensors + 1);
    for (int i = 0; i < g->input_count; i++)
        for (int k = 0, id; (id = zt_list_tensor(g, g->inputs[i], k)) >= 0; k++)
            if (is_float(g, id)) {
                p->index[p->wanted.count] = i;
                zt_vec_push(&p->wanted, id);
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
    const struct zt_grad_request request = { p->from.at, p->from.count, p->wanted.at, p->wanted.count, true };
    if (!zt_grad_build(g, &zt_ops, &request, p->grads, err))
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

/* Writes the gradients of graph input number p->index[i], the first of whose tensors is wanted[i]. */
static bool write_input(const struct product *p, int i, const struct zt_tensor *tensors, struct zt_err *err) {
    const struct zt_arrays *a = &p->arrays;
    const int id = a->graph->inputs[p->index[i]];
    const struct zt_array_key key = { "grad_input", p->index[i], a->graph->values[id]->name };
    return a->graph->values[id]->list ? zt_arrays_write_list(a, &key, id, tensors, err)
                                      : zt_arrays_write(a, &key, tensors, err);
}

static bool write_gradients(const struct product *p, struct zt_err *err) {
    const struct zt_arrays *a = &p->arrays;
    int count = p->wanted.count;
    const char **names = ZT_NEW_N(a->arena, const char *, count);
    struct zt_tensor *tensors = ZT_NEW_N(a->arena, struct zt_tensor, count);
    for (int i = 0; i < count; i++) {
        names[i] = a->graph->values[p->wanted.at[i]]->name;
        tensors[i] = gradient(p, i);
    }
    for (int i = 0; i < p->inputs; i++)
        if ((!i || p->index[i] != p->index[i - 1]) && !write_input(p, i, &tensors[i], err))
            return false;
    return zt_arrays_write_npz(a, "grad_params.npz", names + p->inputs, tensors + p->inputs, count - p->inputs, err);
}

/* ---- the graph as a file ---- */

/* Names the outputs of the file: the model's, then grad_input_N for float input N (grad_input_N.K for tensor K of a
 * sequence), then grad:NAME for parameter NAME. */
static const char *gradient_name(const struct product *p, int i) {
    struct zt_arena *arena = p->arrays.arena;
    int first = i;
    if (i >= p->inputs)
        return zt_arena_printf(arena, "grad:%s", p->arrays.graph->values[p->wanted.at[i]]->name);
    while (first && p->index[first - 1] == p->index[i])
        first--;
    return p->arrays.graph->values[p->arrays.graph->inputs[p->index[i]]]->list
               ? zt_arena_printf(arena, "grad_input_%d.%d", p->index[i], i - first)
               : zt_arena_printf(arena, "grad_input_%d", p->index[i]);
}

/* The name of gradient `i`, with a number where another value of the graph or an earlier output has it. */
static const char *free_name(const struct product *p, int i, struct zt_map *taken) {
    const char *name = gradient_name(p, i), *to = name;
    for (int n = 2;; n++) {
        const int id = zt_graph_find(p->arrays.graph, to);
        if ((id < 0 || id == p->grads[i]) && zt_map_get(taken, to, -1) < 0)
            break;
        to = zt_arena_printf(p->arrays.arena, "%s.%d", name, n);
    }
    zt_map_put(taken, to, i);
    return to;
}

/* A gradient that no path leads to is a constant of zeros. */
static int gradient_value(const struct product *p, int i, const char *name) {
    struct zt_tensor zeros = gradient(p, i);
    return p->grads[i] >= 0 ? p->grads[i]
                            : zt_graph_add_constant(p->arrays.graph, name, zeros.dtype, &zeros.shape, zeros.data);
}

static void list_gradients(const struct product *p, struct zt_emit_output *to) {
    struct zt_map taken = { 0 };
    for (int i = 0; i < p->wanted.count; i++) {
        const char *name = free_name(p, i, &taken);
        to[i] = (struct zt_emit_output){ name, gradient_value(p, i, name) };
    }
    zt_map_finish(&taken);
}

/* The tensors of graph inputs or outputs, into `to` (NULL: none); returns their number. */
static int list_tensors(const struct zt_graph *g, const int *ids, int count, int *to) {
    int found = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0, id; (id = zt_list_tensor(g, ids[i], k)) >= 0; k++, found++)
            if (to)
                to[found] = id;
    return found;
}

/* The file has tensors alone: those of a sequence or optional in its place. */
static bool emit(const struct product *p, const char *path, struct zt_err *err) {
    struct zt_graph *g = p->arrays.graph;
    struct zt_arena *arena = p->arrays.arena;
    const int problems = err->count, ins = list_tensors(g, g->inputs, g->input_count, NULL);
    const int outs = list_tensors(g, g->outputs, g->output_count, NULL), count = outs + p->wanted.count;
    if (!zt_graph_sort(g, err))
        return zt_err_within(err, problems, "%s", p->arrays.options->model);
    struct zt_emit_output *outputs = ZT_NEW_N(arena, struct zt_emit_output, count);
    int *inputs = ZT_NEW_N(arena, int, ins + p->from.count), *made = ZT_NEW_N(arena, int, outs);
    list_tensors(g, g->inputs, g->input_count, inputs);
    list_tensors(g, g->outputs, g->output_count, made);
    for (int i = 0; i < outs; i++)
        outputs[i] = (struct zt_emit_output){ g->values[made[i]]->name, made[i] };
    list_gradients(p, outputs + outs);
    for (int i = 0; i < p->from.count; i++)
        inputs[ins + i] = p->from.at[i].cotangent;
    struct zt_emit what = { inputs,
                            ins + p->from.count,
                            outputs,
                            count,
                            zt_arena_printf(arena,
                                            "%s and its gradients, as ztrain computes them, at the shapes of one run",
                                            zt_path_name(p->arrays.model->path)),
                            p->arrays.options->model };
    return zt_onnx_emit(g, &zt_ops, &what, path, err);
}

static bool run(struct product *p, const struct zt_options *options, struct zt_err *err) {
    if (!zt_arrays_open(&p->arrays, options, true, err) ||
        (options->emit && !zt_inputs_spare(options, NULL, options->emit, err)))
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
