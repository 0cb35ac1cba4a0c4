#include "checkpoint/load_weights.h"

#include "base/text.h"
#include "base/vec.h"
#include "checkpoint/folder.h"
#include "checkpoint/format.h"
#include "checkpoint/part_weights.h"
#include "graph/passes/trainable/weight_norm.h"
#include "graph/passes/precision/to_float.h"
#include "graph/passes/trainable/derived.h"
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"
#include "ops/table.h"
#include "plan/job/override.h"
#include "plan/job/qat.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A tensor of the source. */
struct source {
    const char *name;
    struct zt_tensor tensor;
    bool used;
};

struct zt_weights {
    struct zt_arena *arena;
    struct zt_file_map map; /* of a safetensors file */
    bool mapped;
    struct zt_part_weights parts; /* of a checkpoint in parts */
    struct zt_onnx *model;        /* NULL: a safetensors file */
    ZT_VEC(struct source) sources;
    struct zt_map by_name; /* name -> index in `sources` */
};

/* A line of the table. */
struct line {
    const char *text;
    enum { MATCHED, MISSED, FIXED } is; /* FIXED: nothing is missing, because the tensor does not train here */
};

struct matching {
    const struct zt_session *s;
    struct zt_weights *w;
    const char *path;
    ZT_VEC(struct line) lines;
    int matched, wanted;
    int64_t elements;
    struct zt_err *err;
};

/* ---- sources ---- */

/* The name of an adapter in PEFT's files has a prefix. */
static void add_source(struct zt_weights *w, const char *name, const struct zt_tensor *tensor) {
    static const char prefix[] = "base_model.model.";
    if (strncmp(name, prefix, sizeof prefix - 1) == 0)
        name += sizeof prefix - 1;
    zt_map_put(&w->by_name, name, w->sources.count);
    zt_vec_push(&w->sources, (struct source){ name, *tensor, false });
}

static bool read_tensors(struct zt_weights *w, const struct zt_manifest *manifest, struct zt_err *err) {
    struct zt_stored_file file;
    if (manifest && (int64_t)w->map.size != manifest->file[0].bytes)
        return zt_fail(err, ZT_EXIT_DATA, "%zu bytes, the manifest says %lld", w->map.size,
                       (long long)manifest->file[0].bytes);
    if (!zt_stored_read(&file, &w->map, w->arena, err) ||
        (manifest && !zt_stored_check(&file, &w->map, manifest->file[0].crc, 0, zt_block_count(file.bytes), err)))
        return false;
    for (int i = 0; i < file.count; i++) {
        const struct zt_tensor tensor = { ZT_FLOAT, file.tensors[i].shape, w->map.data + file.tensors[i].at };
        add_source(w, file.tensors[i].name, &tensor);
    }
    return true;
}

static bool open_tensors(struct zt_weights *w, const char *path, const struct zt_manifest *manifest,
                         struct zt_err *err) {
    const int before = err->count;
    w->mapped = zt_file_map(&w->map, path, ZT_EXIT_DATA, err);
    return w->mapped && (read_tensors(w, manifest, err) || zt_err_within(err, before, "%s", path));
}

static bool open_parts(struct zt_weights *w, const char *folder, const struct zt_manifest *manifest,
                       struct zt_err *err) {
    if (!zt_part_weights_open(&w->parts, folder, manifest, w->arena, err))
        return false;
    for (int i = 0; i < w->parts.file->count; i++) {
        const struct zt_tensor tensor = { ZT_FLOAT, w->parts.file->tensors[i].shape, w->parts.data[i] };
        add_source(w, w->parts.file->tensors[i].name, &tensor);
    }
    return true;
}

static bool open_checkpoint(struct zt_weights *w, const char *path, struct zt_err *err) {
    struct zt_manifest manifest;
    char *folder = zt_checkpoint_find(path, err);
    bool ok = folder && zt_manifest_load(&manifest, folder, w->arena, err);
    if (ok && manifest.part_count) {
        ok = open_parts(w, folder, &manifest, err);
    } else if (ok) {
        char *file = zt_path_join(folder, zt_stored_names[0]);
        ok = open_tensors(w, file, &manifest, err);
        free(file);
    }
    free(folder);
    return ok;
}

/* PyTorch's TorchScript exporter writes equal tensors once, and an Identity for each of the others, whose output has
 * the name of the parameter. It is no tensor that a run would miss. */
static void add_aliases(struct zt_weights *w) {
    const struct zt_graph *g = w->model->graph;
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_value *v = zt_node_is(g->nodes[n], "Identity") ? zt_in(g, n, 0) : NULL;
        const int of = v ? zt_map_get(&w->by_name, v->name, -1) : -1;
        if (of < 0)
            continue;
        const struct zt_tensor tensor = w->sources.at[of].tensor;
        add_source(w, g->values[g->nodes[n]->out[0]]->name, &tensor);
        w->sources.at[w->sources.count - 1].used = true;
    }
}

static bool open_model(struct zt_weights *w, const char *path, struct zt_err *err) {
    if (!(w->model = zt_onnx_read(path, ZT_WEIGHTS_MAPPED, err))) {
        zt_session_hint_model(path, err);
        return false;
    }
    zt_pass_split_merged(w->model, &zt_ops);
    for (int i = 0; i < w->model->graph->value_count; i++) {
        const struct zt_value *v = w->model->graph->values[i];
        const struct zt_tensor tensor = { v->dtype, v->shape, v->data };
        if (v->origin == ZT_FROM_INITIALIZER && zt_dtype_in(v->dtype, ZT_ANY_FLOAT) && v->data)
            add_source(w, v->name, &tensor);
    }
    add_aliases(w);
    return true;
}

static bool open_source(struct zt_weights *w, const char *path, struct zt_err *err) {
    struct stat st;
    const char *name = zt_path_name(path);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && strcmp(name, "latest") != 0 && strcmp(name, "best") != 0)
        return zt_text_ends(path, ".safetensors") ? open_tensors(w, path, NULL, err) : open_model(w, path, err);
    return open_checkpoint(w, path, err);
}

/* ---- matching ---- */

static void add_line(struct matching *m, int is, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void add_line(struct matching *m, int is, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    zt_vec_push(&m->lines, (struct line){ zt_arena_vprintf(m->w->arena, fmt, args), is });
    va_end(args);
}

/* A parameter that the exporter folded away, computed from what a model file has instead; NULL: it has none. */
static const float *unfold(struct matching *m, const char *name, const struct zt_shape *shape) {
    const struct zt_job *job = m->s->job;
    char text[ZT_SHAPE_TEXT];
    for (int i = 0; m->w->model && i < job->derived_count; i++) {
        const struct zt_derived *d = &job->derived[i];
        const int at = d->lost && strcmp(d->parameter, name) == 0 ? zt_map_get(&m->w->by_name, d->name, -1) : -1;
        if (at < 0 || !zt_shape_equal(&m->w->sources.at[at].tensor.shape, shape))
            continue;
        float *to = ZT_NEW_N(m->w->arena, float, zt_shape_count(shape) + 1);
        if (!zt_derived_invert(d, zt_to_float(m->w->arena, &m->w->sources.at[at].tensor), zt_shape_count(shape), to))
            continue;
        add_line(m, MATCHED, "%s %s: loaded, computed from %s", name, zt_shape_text(shape, text), d->name);
        m->matched++;
        m->elements += zt_shape_count(shape);
        return to;
    }
    return NULL;
}

/* The contents for a tensor of the job as float; NULL with a line where the source has none that fit. */
static const float *find(struct matching *m, const char *name, const struct zt_shape *shape, enum zt_dtype dtype) {
    const int at = zt_map_get(&m->w->by_name, name, -1);
    char here[ZT_SHAPE_TEXT], there[ZT_SHAPE_TEXT];
    zt_shape_text(shape, here);
    m->wanted++;
    const float *unfolded = at < 0 ? unfold(m, name, shape) : NULL;
    if (unfolded)
        return unfolded;
    if (at < 0) {
        add_line(m, MISSED, "%s %s: missing in the source, keeps its initial values", name, here);
        return NULL;
    }
    struct source *from = &m->w->sources.at[at];
    from->used = true;
    if (!zt_shape_equal(&from->tensor.shape, shape)) {
        add_line(m, MISSED, "%s %s: has shape %s in the source, keeps its initial values", name, here,
                 zt_shape_text(&from->tensor.shape, there));
        return NULL;
    }
    if (from->tensor.dtype == dtype)
        add_line(m, MATCHED, "%s %s: loaded", name, here);
    else
        add_line(m, MATCHED, "%s %s: loaded, converted from %s to %s", name, here, zt_dtype_name(from->tensor.dtype),
                 zt_dtype_name(dtype));
    m->matched++;
    m->elements += zt_shape_count(shape);
    return zt_to_float(m->w->arena, &from->tensor);
}

/* ---- weight normalization that the exporter, or the user before the export, folded into the weight ---- */

static struct source *source_of(const struct matching *m, const char *name) {
    const int at = name ? zt_map_get(&m->w->by_name, name, -1) : -1;
    return at < 0 ? NULL : &m->w->sources.at[at];
}

/* The name of the weight that a value is: its own, or the one whose lengths its metadata lists. */
static const char *weight_name(struct zt_arena *arena, const struct zt_value *v) {
    const char *at = v->torch_folded_from, *of = NULL;
    for (const char *name; at && !of && (name = zt_torch_next_source(arena, &at));)
        of = zt_weight_norm_of(arena, name);
    return of ? of : v->name;
}

/* Whether the first reader of the value takes it transposed to PyTorch's layer: [inputs, outputs]. */
static bool is_transposed(const struct zt_graph *g, const struct zt_value *v) {
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (zt_in(g, n, i) == v)
                return zt_node_is(g->nodes[n], "MatMul") ||
                       (zt_node_is(g->nodes[n], "Gemm") && !zt_attr_int(g->nodes[n], "transB", 0));
    return false;
}

static const float *transposed(struct zt_arena *arena, const struct zt_shape *shape, const float *from) {
    float *to = ZT_NEW_N(arena, float, zt_shape_count(shape) + 1);
    for (int64_t i = 0; i < shape->dim[0]; i++)
        for (int64_t k = 0; k < shape->dim[1]; k++)
            to[k * shape->dim[0] + i] = from[i * shape->dim[1] + k];
    return to;
}

/* The shape of v for a weight of this shape. */
static struct zt_shape stored_shape(const struct zt_value *v, bool turned) {
    return turned ? (struct zt_shape){ 2, { v->shape.dim[1], v->shape.dim[0] } } : v->shape;
}

/* The weight computed from its direction and lengths; NULL: the source does not have them, or not for this shape, which
 * a line says. */
static const float *weight_norm(struct matching *m, const struct zt_graph *g, const struct zt_value *v) {
    struct zt_arena *arena = m->w->arena;
    const char *name = weight_name(arena, v);
    struct source *part[2] = { NULL, NULL };
    char here[ZT_SHAPE_TEXT], shape[2][ZT_SHAPE_TEXT];
    for (int form = 0; form < ZT_WEIGHT_NORM_FORMS && !(part[0] && part[1]); form++)
        for (int i = 0; i < 2; i++)
            part[i] = source_of(m, zt_weight_norm_name(arena, name, form, i));
    if (!part[0] || !part[1] || source_of(m, v->name))
        return NULL;
    const bool turned = v->shape.rank == 2 && is_transposed(g, v);
    const struct zt_shape wants = stored_shape(v, turned);
    const struct zt_shape *lengths = &part[0]->tensor.shape, *direction = &part[1]->tensor.shape;
    zt_shape_text(&v->shape, here);
    for (int i = 0; i < 2; i++) {
        part[i]->used = true;
        zt_shape_text(&part[i]->tensor.shape, shape[i]);
    }
    m->wanted++;
    if (!zt_shape_equal(direction, &wants) || !zt_weight_norm_fits(lengths, direction)) {
        add_line(m, MISSED, "%s %s: %s %s and %s %s give no weight of this shape, keeps its initial values", v->name,
                 here, part[0]->name, shape[0], part[1]->name, shape[1]);
        return NULL;
    }
    float *to = ZT_NEW_N(arena, float, zt_shape_count(direction) + 1);
    zt_weight_norm(lengths, zt_to_float(arena, &part[0]->tensor), direction, zt_to_float(arena, &part[1]->tensor), to);
    add_line(m, MATCHED, "%s %s: loaded, computed from %s and %s (weight norm)", v->name, here, part[0]->name,
             part[1]->name);
    m->matched++;
    m->elements += zt_shape_count(direction);
    return turned ? transposed(arena, direction, to) : to;
}

/* Whether the source is a checkpoint, which has what trained and the statistics alone, and this run does not train the
 * value either. Other sources have the whole model. */
static bool is_fixed(struct matching *m, const struct zt_value *v) {
    char shape[ZT_SHAPE_TEXT];
    if (m->w->model || v->trainable || v->statistic || zt_map_get(&m->w->by_name, v->name, -1) >= 0)
        return false;
    add_line(m, FIXED, "%s %s: does not train, keeps the model's values", v->name, zt_shape_text(&v->shape, shape));
    return true;
}

static void match_parameters(struct matching *m, const struct zt_graph *g) {
    bool *holds = zt_job_holds(g);
    for (int i = 0; i < g->value_count; i++) {
        const struct zt_value *v = g->values[i];
        const int listed = m->lines.count;
        const float *from = holds[i] ? weight_norm(m, g, v) : NULL;
        if (holds[i] && m->lines.count == listed && !is_fixed(m, v))
            from = find(m, v->name, &v->shape, v->dtype);
        if (from)
            zt_job_override(m->s->job, v, from);
    }
    free(holds);
}

static void match_adapters(struct matching *m) {
    for (int i = 0; i < m->s->job->adapter_count; i++)
        for (int k = 0; k < 2; k++) {
            struct zt_adapter *a = &m->s->job->adapters[i];
            const float *from = find(m, a->name[k], &a->shape[k], ZT_FLOAT);
            if (from)
                zt_job_override_factor(a, k, from);
        }
}

/* The states and learned scales of ztrain.qat. */
static void match_pairs(struct matching *m) {
    for (int i = 0; i < m->s->job->pair_count; i++) {
        struct zt_qat_pair *p = &m->s->job->pairs[i];
        const struct zt_shape shape = zt_qat_store_shape(p);
        const bool kept = zt_qat_moves(p) || zt_qat_learns(m->s->job, p);
        const float *from = kept ? find(m, p->store, &shape, ZT_FLOAT) : NULL;
        p->initial = from ? from : p->initial;
    }
}

/* Whether the model of this run has the same tensor with the same contents, as a constant. */
static bool is_constant_here(const struct matching *m, const struct source *from) {
    const struct zt_graph *g = m->s->job->model->graph;
    const int at = zt_graph_find(g, from->name);
    const struct zt_value *v = at >= 0 ? g->values[at] : NULL;
    while (v && v->producer >= 0 && zt_node_is(g->nodes[v->producer], "Identity")) /* a merged constant */
        v = zt_in(g, v->producer, 0);
    const size_t bytes = (size_t)zt_shape_count(&from->tensor.shape) * zt_dtype_bytes(from->tensor.dtype);
    return v && v->origin == ZT_FROM_INITIALIZER && v->data && v->dtype == from->tensor.dtype &&
           zt_shape_equal(&v->shape, &from->tensor.shape) && memcmp(v->data, from->tensor.data, bytes) == 0;
}

/* Whether the tensor is the copy of one that the source has too, and this run has the two as one parameter. */
static bool is_tied_copy(const struct matching *m, const struct source *from) {
    const struct zt_value y = { .dtype = from->tensor.dtype, .shape = from->tensor.shape, .data = from->tensor.data };
    for (int i = 0; i < m->s->job->tie_count; i++) {
        const struct zt_tie *tie = &m->s->job->ties[i];
        const int at = strcmp(tie->name, from->name) == 0 ? zt_map_get(&m->w->by_name, tie->to, -1) : -1;
        if (at < 0 || m->w->sources.at[at].tensor.dtype != y.dtype)
            continue;
        const struct zt_tensor *to = &m->w->sources.at[at].tensor;
        const struct zt_value x = { .dtype = to->dtype, .shape = to->shape, .data = to->data };
        int64_t perm[ZT_TIE_RANK];
        if (zt_trainable_is_reshaped(&x, &y) || zt_trainable_find_perm(&x, &y, perm))
            return true;
    }
    return false;
}

/* What the run computes from its parameters is no tensor that it would read. */
static void pass_over_derived(struct matching *m) {
    for (int i = 0; i < m->s->job->derived_count; i++) {
        const int at = zt_map_get(&m->w->by_name, m->s->job->derived[i].name, -1);
        if (at >= 0)
            m->w->sources.at[at].used = true;
    }
}

/* A normalization of which the run has nothing: the exporter of this run's model has folded it into the layer in front,
 * or the network changed. Which layer that is, and the epsilon, no name says, so that nothing is computed. */
static void list_normalizations(struct matching *m) {
    static const char *const of[] = { "running_mean", "running_var", "weight", "bias", "num_batches_tracked" };
    char shape[ZT_SHAPE_TEXT];
    for (int i = 0; i < m->w->sources.count; i++) {
        struct source *from = &m->w->sources.at[i];
        if (from->used || !zt_text_ends(from->name, ".running_var"))
            continue;
        const int stem = (int)(strlen(from->name) - strlen(of[1]));
        for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
            struct source *part = source_of(m, zt_arena_printf(m->w->arena, "%.*s%s", stem, from->name, of[k]));
            if (part)
                part->used = true;
        }
        add_line(
            m, MISSED,
            "%.*s* %s: not used, this run has no BatchNormalization of that name. Where its exporter folded it into a "
            "layer, that layer's weights are the source's without it: export with training=TrainingMode.TRAINING",
            stem, from->name, zt_shape_text(&from->tensor.shape, shape));
    }
}

static void list_unused(struct matching *m) {
    char shape[ZT_SHAPE_TEXT];
    pass_over_derived(m);
    list_normalizations(m);
    for (int i = 0; i < m->w->sources.count; i++) {
        const struct source *from = &m->w->sources.at[i];
        if (!from->used && !is_constant_here(m, from) && !is_tied_copy(m, from))
            add_line(m, MISSED, "%s %s: not used, this run has no parameter of that name", from->name,
                     zt_shape_text(&from->tensor.shape, shape));
    }
}

/* ---- the table ---- */

/* Above this number, matching tensors are listed with --verbose alone. */
enum { LISTED = 40 };

static void print_table(const struct matching *m) {
    const struct zt_log *log = &m->s->options->log;
    int listed = 0;
    if (m->s->launched.rank != 0)
        return;
    zt_say(log, ZT_LOG_INFO, "weights of %s: %d of %d tensors match, %lld elements; %s", m->path, m->matched, m->wanted,
           (long long)m->elements,
           m->s->options->resume ? "--resume replaces those that train" : "optimizer and step start anew");
    for (int i = 0; i < m->lines.count; i++)
        if (m->lines.at[i].is == MATCHED)
            zt_say(log, listed++ < LISTED ? ZT_LOG_INFO : ZT_LOG_DEBUG, "  %s", m->lines.at[i].text);
    if (listed > LISTED)
        zt_say(log, ZT_LOG_INFO, "  and %d more that match (--verbose lists them)", listed - LISTED);
    for (int i = 0; i < m->lines.count; i++)
        if (m->lines.at[i].is != MATCHED)
            zt_say(log, m->lines.at[i].is == MISSED ? ZT_LOG_INFO : ZT_LOG_DEBUG, "  %s", m->lines.at[i].text);
}

static bool check(const struct matching *m) {
    const struct zt_weights *w = m->w;
    const int before = m->err->count;
    if (!m->matched) {
        zt_fail(m->err, ZT_EXIT_DATA, "--load %s: none of its %d tensors has name and shape of a parameter of %s",
                m->path, w->sources.count, m->s->options->model);
        return w->sources.count && m->lines.count
                   ? zt_hint(m->err, "the source has \"%s\"; this run: %s", w->sources.at[0].name, m->lines.at[0].text)
                   : false;
    }
    for (int i = 0; m->s->options->strict && i < m->lines.count; i++)
        if (m->lines.at[i].is == MISSED)
            zt_fail(m->err, ZT_EXIT_DATA, "--load %s: %s", m->path, m->lines.at[i].text);
    return m->err->count == before;
}

static bool match(struct matching *m) {
    struct zt_graph *g = zt_job_parameters(m->s->job, m->err);
    if (!g)
        return false;
    match_parameters(m, g);
    match_adapters(m);
    match_pairs(m);
    list_unused(m);
    zt_graph_destroy(g);
    const bool ok = check(m);
    if (ok)
        print_table(m);
    zt_vec_finish(&m->lines);
    return ok;
}

struct zt_weights *zt_weights_load(const struct zt_session *s, const char *path, struct zt_err *err) {
    struct zt_weights *w = zt_calloc(1, sizeof *w);
    struct matching m = { .s = s, .w = w, .path = path, .err = err };
    w->arena = zt_arena_create();
    if (open_source(w, path, err) && match(&m))
        return w;
    zt_weights_close(w);
    return NULL;
}

void zt_weights_close(struct zt_weights *w) {
    if (!w)
        return;
    if (w->mapped)
        zt_file_unmap(&w->map);
    zt_part_weights_close(&w->parts);
    zt_onnx_destroy(w->model);
    zt_map_finish(&w->by_name);
    zt_vec_finish(&w->sources);
    zt_arena_destroy(w->arena);
    free(w);
}
