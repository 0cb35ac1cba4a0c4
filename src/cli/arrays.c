#include "cli/arrays.h"

#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "base/mapped.h"
#include "device/threads.h"
#include "graph/passes/lower.h"
#include "graph/passes/infer.h"
#include "graph/passes/trainable/trainable.h"
#include "ops/table.h"
#include "session/inputs.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static char *file_in(struct zt_arena *arena, const char *folder, const char *kind, int index) {
    return zt_arena_printf(arena, "%s/%s_%d.pb", folder, kind, index);
}

bool zt_arrays_read(struct zt_arrays *a, const struct zt_array_key *key, struct zt_tensor *tensor, bool *there,
                    struct zt_err *err) {
    if (a->folder) {
        const char *path = file_in(a->arena, a->options->inputs, key->kind, key->index), *stored;
        *there = zt_file_exists(path);
        return !*there || zt_onnx_read_tensor(path, a->arena, tensor, &stored, ZT_EXIT_DATA, err);
    }
    const struct zt_npz_array *array = zt_npz_find(&a->npz, key->name);
    *there = array != NULL;
    if (array)
        *tensor = (struct zt_tensor){ array->dtype, array->shape, array->data };
    return true;
}

static bool check_elements(const struct zt_arrays *a, const struct zt_array_key *key, const struct zt_list *type,
                           const struct zt_onnx_list *read, struct zt_err *err) {
    for (int i = 0; i < read->tensor_count; i++)
        if (!zt_dtype_in(read->tensor[i].dtype, ZT_ANY_TYPE) || (type->dtype && read->tensor[i].dtype != type->dtype))
            return zt_fail(err, ZT_EXIT_DATA, "%s: %s %d \"%s\": tensor %d has type %s, the model wants %s",
                           a->options->inputs, key->kind, key->index, key->name, i,
                           zt_dtype_name(read->tensor[i].dtype), zt_dtype_name(type->dtype));
    return true;
}

bool zt_arrays_read_list(struct zt_arrays *a, const struct zt_array_key *key, const struct zt_list *type,
                         struct zt_onnx_list *list, bool *there, struct zt_err *err) {
    const char *path = a->folder ? file_in(a->arena, a->options->inputs, key->kind, key->index) : NULL;
    *list = (struct zt_onnx_list){ .kind = type->kind, .of_sequence = type->of_sequence };
    *there = path && zt_file_exists(path);
    return !*there ||
           (zt_onnx_read_list(path, a->arena, list, ZT_EXIT_DATA, err) && check_elements(a, key, type, list, err));
}

/* Adds the tensors of a list to the graph as inputs "NAME.I" with these contents; returns their ids. */
static int *add_list(struct zt_arrays *a, const char *name, const struct zt_onnx_list *from) {
    int *at = ZT_NEW_N(a->arena, int, from->tensor_count + 1);
    for (int i = 0; i < from->tensor_count; i++) {
        const struct zt_tensor *t = &from->tensor[i];
        at[i] = zt_graph_add_value(a->graph, zt_arena_printf(a->graph->arena, "%s.%d", name, i), t->dtype, &t->shape);
        a->graph->values[at[i]]->origin = ZT_FROM_INPUT;
        zt_eval_feed(a->eval, at[i], t);
    }
    return at;
}

/* Reports a name KIND_N, of `length` characters, whose N is no number below that of `key`. */
static bool check_number(const struct zt_arrays *a, const char *name, size_t length, const struct zt_array_key *key,
                         struct zt_err *err) {
    const size_t before = strlen(key->kind) + 1;
    char digits[24] = "", again[24];
    int64_t number = -1;
    if (length < before || strncmp(name, key->kind, before - 1) != 0 || name[before - 1] != '_')
        return true;
    if (length - before < sizeof digits)
        memcpy(digits, name + before, length - before);
    zt_text_number(digits, &number);
    snprintf(again, sizeof again, "%lld", (long long)number);
    if (number >= 0 && number < key->index && strcmp(again, digits) == 0)
        return true;
    zt_fail(err, ZT_EXIT_DATA, "%s: %s: the model has no such output", a->options->inputs, name);
    return zt_hint(err, "the model has %d output%s, counted from 0", key->index, zt_plural(key->index));
}

static bool check_folder(const struct zt_arrays *a, const struct zt_array_key *key, struct zt_err *err) {
    DIR *dir = opendir(a->options->inputs);
    bool ok = true;
    for (const struct dirent *entry; dir && ok && (entry = readdir(dir));) {
        const char *dot = strrchr(entry->d_name, '.');
        ok = !dot || strcmp(dot, ".pb") != 0 || check_number(a, entry->d_name, (size_t)(dot - entry->d_name), key, err);
    }
    if (dir)
        closedir(dir);
    return ok;
}

bool zt_arrays_none_beyond(const struct zt_arrays *a, const struct zt_array_key *end, struct zt_err *err) {
    if (a->folder)
        return check_folder(a, end, err);
    for (int i = 0; i < a->npz.count; i++) {
        const char *name = a->npz.at[i].name;
        if (zt_graph_find(a->graph, name) < 0 && !check_number(a, name, strlen(name), end, err))
            return false;
    }
    return true;
}

/* ---- inputs ---- */

static bool fail_missing_input(const struct zt_arrays *a, int index, struct zt_err *err) {
    const char *name = a->graph->values[a->graph->inputs[index]]->name, *src = a->options->inputs;
    if (a->folder)
        return zt_fail(err, ZT_EXIT_DATA, "%s: input %d \"%s\": there is no input_%d.pb", src, index, name, index);
    zt_fail(err, ZT_EXIT_DATA, "%s: input %d \"%s\": there is no array of this name", src, index, name);
    struct zt_text names = { 0 };
    for (int i = 0; i < a->npz.count && names.length < 256; i++)
        zt_text_add(&names, "%s%s", i ? ", " : "", a->npz.at[i].name);
    zt_hint(err, "the array of an input has the name of the input; the file has: %s",
            names.at ? names.at : "no arrays");
    zt_text_finish(&names);
    return false;
}

static bool fail_list_input(const struct zt_arrays *a, int index, struct zt_err *err) {
    const struct zt_value *v = a->graph->values[a->graph->inputs[index]];
    char text[ZT_LIST_TEXT];
    if (a->folder)
        return fail_missing_input(a, index, err);
    zt_fail(err, ZT_EXIT_DATA, "%s: input %d \"%s\" is a%s %s, which a file of arrays cannot hold", a->options->inputs,
            index, v->name, v->list->kind == ZT_OPTIONAL ? "n" : "", zt_list_text(v->list, text));
    return zt_hint(err, "give a folder with input_%d.pb", index);
}

/* The tensors become values of the graph, the input a list of them. */
static bool feed_list(struct zt_arrays *a, int index, struct zt_err *err) {
    struct zt_graph *g = a->graph;
    const int id = g->inputs[index];
    struct zt_list list = *g->values[id]->list;
    struct zt_onnx_list read;
    bool there;
    if (!zt_arrays_read_list(a, &(struct zt_array_key){ "input", index, g->values[id]->name }, &list, &read, &there,
                             err))
        return false;
    if (!there)
        return fail_list_input(a, index, err);
    if (!list.dtype && read.tensor_count)
        list.dtype = read.tensor[0].dtype;
    int *at = add_list(a, g->values[id]->name, &read);
    list.at = at;
    list.count = read.tensor_count;
    if (list.kind == ZT_OPTIONAL)
        list.count = !read.empty;
    if (list.kind == ZT_OPTIONAL && list.of_sequence && !read.empty) {
        const int sequence = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
        g->values[sequence]->origin = ZT_FROM_INPUT;
        zt_list_set(
            g, sequence,
            &(struct zt_list){ .kind = ZT_SEQUENCE, .dtype = list.dtype, .count = read.tensor_count, .at = at });
        list.at = &sequence;
        zt_list_set(g, id, &list);
        return true;
    }
    zt_list_set(g, id, &list);
    return true;
}

/* NumPy lacks narrow types: an array of uint8 has the bytes that hold the elements. */
static bool take_codes(const struct zt_arrays *a, const struct zt_value *v, struct zt_tensor *tensor,
                       struct zt_err *err) {
    if (a->folder || tensor->dtype != ZT_UINT8 || !zt_dtype_in(v->dtype, ZT_ANY_NARROW))
        return true;
    const int64_t count = zt_shape_count(&tensor->shape);
    const unsigned codes = 1u << zt_dtype_bits(v->dtype);
    tensor->dtype = v->dtype;
    for (int64_t i = 0; i < count; i++)
        if (((const uint8_t *)tensor->data)[i] >= codes)
            return zt_fail(err, ZT_EXIT_DATA, "%s: input \"%s\": element %lld is %d, type %s has codes 0..%u",
                           a->options->inputs, v->name, (long long)i, ((const uint8_t *)tensor->data)[i],
                           zt_dtype_name(v->dtype), codes - 1);
    return true;
}

static bool feed(struct zt_arrays *a, int index, struct zt_err *err) {
    int id = a->graph->inputs[index], first = err->count;
    const struct zt_value *v = a->graph->values[id];
    struct zt_tensor tensor;
    bool there;
    if (v->list)
        return feed_list(a, index, err);
    if (v->dtype == ZT_UNDEFINED)
        return zt_fail(err, ZT_EXIT_MODEL,
                       "%s: input \"%s\" is neither a tensor, a sequence of tensors nor an optional of these: not "
                       "supported",
                       a->model->path, v->name);
    if (!zt_dtype_bytes(v->dtype))
        return zt_fail(err, ZT_EXIT_MODEL, "%s: input \"%s\" has type %s, which ztrain does not support",
                       a->model->path, v->name, zt_dtype_name(v->dtype));
    if (!zt_arrays_read(a, &(struct zt_array_key){ "input", index, v->name }, &tensor, &there, err))
        return false;
    if (!there)
        return fail_missing_input(a, index, err);
    if (!take_codes(a, v, &tensor, err))
        return false;
    if (tensor.dtype != v->dtype)
        return zt_fail(err, ZT_EXIT_DATA, "%s: input \"%s\" has type %s, the model wants %s", a->options->inputs,
                       v->name, zt_dtype_name(tensor.dtype), zt_dtype_name(v->dtype));
    if (!zt_pass_bind(a->graph, id, &tensor.shape, ZT_EXIT_DATA, err))
        return zt_err_within(err, first, "%s", a->options->inputs);
    zt_eval_feed(a->eval, id, &tensor);
    return true;
}

/* Arrays with the name of an initializer replace it: ONNX allows inputs with a default. */
static bool override_initializers(struct zt_arrays *a, struct zt_err *err) {
    bool ok = true;
    for (int i = 0; i < a->npz.count; i++) {
        const struct zt_npz_array *array = &a->npz.at[i];
        int id = zt_graph_find(a->graph, array->name);
        const struct zt_value *v = id >= 0 ? a->graph->values[id] : NULL;
        if (!v || v->origin != ZT_FROM_INITIALIZER)
            continue;
        char found[ZT_SHAPE_TEXT], wanted[ZT_SHAPE_TEXT];
        if (array->dtype != v->dtype || !zt_shape_equal(&array->shape, &v->shape)) {
            ok = zt_fail(err, ZT_EXIT_DATA, "%s: \"%s\" is %s%s, the model's initializer is %s%s", a->options->inputs,
                         v->name, zt_dtype_name(array->dtype), zt_shape_text(&array->shape, found),
                         zt_dtype_name(v->dtype), zt_shape_text(&v->shape, wanted));
            continue;
        }
        zt_eval_feed(a->eval, id, &(struct zt_tensor){ array->dtype, array->shape, array->data });
    }
    return ok;
}

static bool feed_all(struct zt_arrays *a, struct zt_err *err) {
    bool ok = true;
    for (int i = 0; i < a->graph->input_count; i++)
        ok &= feed(a, i, err);
    return ok && override_initializers(a, err);
}

/* ---- the run ---- */

/* Opens a .npy file. It has no names, so the model must have a single input. */
static bool open_npy(struct zt_arrays *a, struct zt_err *err) {
    const struct zt_graph *g = a->graph;
    struct zt_text names = { 0 };
    if (g->input_count == 1)
        return zt_npz_read_npy(a->options->inputs, g->values[g->inputs[0]]->name, &a->npz, ZT_EXIT_DATA, err);
    for (int i = 0; i < g->input_count; i++)
        zt_text_add(&names, "%s%s=...", i ? ", " : "", g->values[g->inputs[i]]->name);
    zt_fail(err, ZT_EXIT_DATA, "%s: holds one array (a .npy file), but the model has %d inputs", a->options->inputs,
            g->input_count);
    zt_hint(err, "numpy.savez('inputs.npz', %s)", names.at ? names.at : "");
    zt_text_finish(&names);
    return false;
}

static bool open_source(struct zt_arrays *a, struct zt_err *err) {
    a->folder = zt_file_is_folder(a->options->inputs);
    if (a->folder)
        return true;
    return zt_npz_is_npy(a->options->inputs) ? open_npy(a, err)
                                             : zt_npz_read(a->options->inputs, &a->npz, ZT_EXIT_DATA, err);
}

static bool open_model(struct zt_arrays *a, struct zt_err *err) {
    a->model = zt_onnx_read(a->options->model, ZT_WEIGHTS_MAPPED, err);
    if (!a->model || !zt_onnx_check_opset(a->model, err))
        return false;
    a->graph = a->model->graph;
    if (a->split_aliases) {
        zt_pass_split_merged(a->model, &zt_ops);
        zt_pass_detach(a->graph, a->model);
        zt_pass_split_aliases(a->graph, &zt_ops, a->model);
    }
    const bool lowered = zt_pass_lower(a->graph, &zt_ops, err);
    if (lowered && a->split_aliases)
        zt_pass_detach(a->graph, a->model);
    if (!lowered || !zt_pass_resolve(a->graph, &zt_ops, a->graph->outputs, a->graph->output_count, err))
        return zt_err_within(err, 0, "%s", a->options->model);
    zt_graph_align_constants(a->graph);
    return true;
}

bool zt_arrays_open(struct zt_arrays *a, const struct zt_options *options, bool split_aliases, struct zt_err *err) {
    *a = (struct zt_arrays){ .options = options, .split_aliases = split_aliases, .arena = zt_arena_create() };
    if (!open_model(a, err) || !open_source(a, err))
        return false;
    int threads = options->over.threads ? options->over.threads : zt_parallel_default(1);
    a->random.seed = options->over.seed >= 0 ? (uint64_t)options->over.seed : 0;
    a->eval = zt_eval_create(a->graph, &a->random, threads);
    zt_eval_use_fast(a->eval, NULL, 0);
    zt_parallel_enter();
    return zt_parallel_start(threads, err) && feed_all(a, err) && zt_file_make_folder(options->output, err);
}

bool zt_arrays_run(struct zt_arrays *a, int first, struct zt_err *err) {
    int problems = err->count;
    return zt_eval_run(a->eval, first, a->graph->node_count, err) ||
           zt_err_within(err, problems, "%s", a->options->model);
}

void zt_arrays_finish(struct zt_arrays *a, bool ok, struct zt_err *err) {
    if (!ok)
        zt_mapped_all_intact(err);
    zt_eval_destroy(a->eval);
    zt_npz_finish(&a->npz);
    zt_onnx_destroy(a->model);
    zt_arena_destroy(a->arena);
}

struct zt_tensor zt_arrays_value(const struct zt_arrays *a, int value) {
    const struct zt_value *v = a->graph->values[value];
    return (struct zt_tensor){ v->dtype, v->shape, v->data };
}

/* ---- results ---- */

bool zt_arrays_write(const struct zt_arrays *a, const struct zt_array_key *key, const struct zt_tensor *tensor,
                     struct zt_err *err) {
    const char *path = file_in(a->arena, a->options->output, key->kind, key->index);
    return zt_inputs_spare(a->options, NULL, path, err) && zt_onnx_write_tensor(path, key->name, tensor, err);
}

bool zt_arrays_write_list(const struct zt_arrays *a, const struct zt_array_key *key, int value,
                          const struct zt_tensor *tensors, struct zt_err *err) {
    const struct zt_list *l = a->graph->values[value]->list;
    const struct zt_onnx_list list = { .kind = l->kind,
                                       .of_sequence = l->of_sequence,
                                       .empty = l->kind == ZT_OPTIONAL && !l->count,
                                       .tensor = tensors,
                                       .tensor_count = zt_list_tensor_count(a->graph, value) };
    const char *path = file_in(a->arena, a->options->output, key->kind, key->index);
    return zt_inputs_spare(a->options, NULL, path, err) && zt_onnx_write_list(path, key->name, &list, err);
}

bool zt_arrays_write_npz(const struct zt_arrays *a, const char *file, const char *const *names,
                         const struct zt_tensor *tensors, int count, struct zt_err *err) {
    struct zt_npz_array *arrays = ZT_NEW_N(a->arena, struct zt_npz_array, count);
    struct zt_map written = { 0 };
    int each = 0;
    for (int i = 0; i < count; i++) {
        if (zt_map_get(&written, names[i], -1) >= 0)
            continue; /* a graph may list a value as several outputs */
        zt_map_put(&written, names[i], i);
        arrays[each++] = (struct zt_npz_array){ .name = (char *)names[i],
                                                .dtype = tensors[i].dtype,
                                                .shape = tensors[i].shape,
                                                .data = (void *)tensors[i].data,
                                                .bytes = (size_t)zt_shape_count(&tensors[i].shape) *
                                                         zt_dtype_bytes(tensors[i].dtype) };
    }
    zt_map_finish(&written);
    const char *path = zt_arena_printf(a->arena, "%s/%s", a->options->output, file);
    return zt_inputs_spare(a->options, NULL, path, err) && zt_npz_write(path, arrays, each, err);
}
