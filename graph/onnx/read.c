/* An ONNX file becomes a graph: scan, unpack, then header, graph and functions. Problems are collected, not only the
 * first. */
#include "graph/onnx/nodes.h"

#include "base/crc.h"
#include "base/mapped.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { IR_FIRST = 3, IR_LAST = 14 };

static const char key_torch_signature[] = "pkg.torch.export.ExportedProgram.graph_signature";

struct reader {
    struct zt_onnx *model;
    struct zt_onnx_file *file;
    const Onnx__ModelProto *proto;
    struct zt_map opset_by_domain;
    struct zt_err *err;
};

static const char *text_or_empty(const char *text) {
    return text ? text : "";
}

/* ---- header ---- */

/* The version of each domain: of several, the highest (onnx.proto, ModelProto.opset_import). */
static bool read_imports(struct reader *r, struct zt_map *to, size_t count, Onnx__OperatorSetIdProto *const *imports) {
    for (size_t i = 0; i < count; i++) {
        const char *domain = zt_onnx_domain(imports[i]->domain);
        const int64_t version = imports[i]->version;
        if (version > INT_MAX)
            return zt_fail(r->err, ZT_EXIT_MODEL,
                           "opset %" PRId64 " of domain \"%s\" is newer than any that ztrain supports", version,
                           domain);
        if (version > zt_map_get(to, domain, 0))
            zt_map_put(to, domain, (int)version);
    }
    for (size_t i = 0; i < count; i++)
        if (zt_map_get(to, zt_onnx_domain(imports[i]->domain), 0) < 1)
            return zt_fail(r->err, ZT_EXIT_MODEL, "opset of domain \"%s\" is version %" PRId64 ", wants 1 or more",
                           zt_onnx_domain(imports[i]->domain), imports[i]->version);
    const int own = zt_map_get(to, "", 0);
    r->model->newest_opset = own > r->model->newest_opset ? own : r->model->newest_opset;
    return true;
}

static bool read_opsets(struct reader *r) {
    const Onnx__ModelProto *p = r->proto;
    struct zt_onnx *m = r->model;
    if (!read_imports(r, &r->opset_by_domain, p->n_opset_import, p->opset_import))
        return false;
    m->opsets = ZT_NEW_N(r->file->arena, struct zt_onnx_opset, p->n_opset_import);
    struct zt_map listed = { 0 };
    for (size_t i = 0; i < p->n_opset_import; i++) {
        const char *domain = zt_onnx_domain(p->opset_import[i]->domain);
        if (zt_map_get(&listed, domain, -1) >= 0)
            continue;
        zt_map_put(&listed, domain, m->opset_count);
        m->opsets[m->opset_count++] = (struct zt_onnx_opset){ zt_arena_strdup(r->file->arena, domain),
                                                              zt_map_get(&r->opset_by_domain, domain, 0) };
    }
    zt_map_finish(&listed);
    return m->opset_count ||
           zt_fail(r->err, ZT_EXIT_MODEL, "no opset import: the versions of its operators are unknown");
}

static bool read_header(struct reader *r) {
    const Onnx__ModelProto *p = r->proto;
    struct zt_onnx *m = r->model;
    m->ir_version = p->ir_version;
    m->producer =
        zt_arena_printf(r->file->arena, "%s%s%s", text_or_empty(p->producer_name),
                        p->producer_version && p->producer_version[0] ? " " : "", text_or_empty(p->producer_version));
    if (!p->graph)
        return zt_fail(r->err, ZT_EXIT_MODEL, "holds no graph: it is not an ONNX model");
    if (!p->has_ir_version || p->ir_version < IR_FIRST || p->ir_version > IR_LAST)
        return zt_fail(r->err, ZT_EXIT_MODEL, "IR version is %" PRId64 ", wants %d to %d", p->ir_version, IR_FIRST,
                       IR_LAST);
    m->torch_signature =
        zt_onnx_metadata(r->file->arena, p->graph->n_metadata_props, p->graph->metadata_props, key_torch_signature);
    return read_opsets(r);
}

/* ---- graph and functions ---- */

static bool read_graph(struct reader *r, int message) {
    struct zt_onnx_scope scope = { .model = r->model, .opset_by_domain = &r->opset_by_domain, .err = r->err };
    bool ok = zt_onnx_read_graph(&scope, r->proto->graph, message);
    zt_onnx_scope_finish(&scope);
    return ok;
}

static bool read_function(struct reader *r, const Onnx__FunctionProto *p, int message, struct zt_functions *to) {
    struct zt_function *f = &to->at[to->count];
    struct zt_map opsets = { 0 };
    struct zt_onnx_scope scope = { .model = r->model, .in_function = true, .opset_by_domain = &opsets, .err = r->err };
    int first = r->err->count;
    f->domain = zt_arena_strdup(r->file->arena, zt_onnx_domain(p->domain));
    f->name = zt_arena_strdup(r->file->arena, text_or_empty(p->name));
    f->overload = zt_arena_strdup(r->file->arena, text_or_empty(p->overload));
    char *made = zt_function_key(f->domain, f->name, f->overload), *key = zt_arena_strdup(r->file->arena, made);
    free(made);
    bool ok = f->name[0] || zt_fail(r->err, ZT_EXIT_MODEL, "has no name");
    if (zt_map_get(&to->by_key, key, -1) >= 0)
        ok = zt_fail(r->err, ZT_EXIT_MODEL, "two functions have this name");
    zt_map_put(&to->by_key, key, to->count++);
    ok = ok && read_imports(r, &opsets, p->n_opset_import, p->opset_import) &&
         zt_onnx_read_function(&scope, p, message, f);
    zt_onnx_scope_finish(&scope);
    zt_map_finish(&opsets);
    return ok || zt_err_within(r->err, first, "function %s.%s", f->domain[0] ? f->domain : "ai.onnx", f->name);
}

static bool read_functions(struct reader *r) {
    const Onnx__ModelProto *p = r->proto;
    const struct zt_onnx_scan *scan = &r->file->scan;
    struct zt_functions *to = &r->file->functions;
    bool ok = true;
    to->at = ZT_NEW_N(r->file->arena, struct zt_function, p->n_functions);
    for (int i = 0; i < scan->messages.count && to->count < (int)p->n_functions; i++)
        if (scan->messages.at[i].parent == 0 && scan->messages.at[i].field == ZT_MODEL_FUNCTIONS)
            ok &= read_function(r, p->functions[to->count], i, to);
    r->model->graph->functions = to;
    return ok && zt_functions_check(to, r->err);
}

static bool read_graphs(struct reader *r) {
    const struct zt_onnx_scan *scan = &r->file->scan;
    int graph = 1;
    while (scan->messages.at[graph].parent != 0 || scan->messages.at[graph].field != ZT_MODEL_GRAPH)
        graph++;
    bool ok = read_graph(r, graph);
    ok &= read_functions(r);
    for (int i = 0; i < r->file->stored.count; i++)
        zt_map_put(&r->file->stored_by_name, r->file->stored.at[i].name, i);
    return ok;
}

/* ---- whole ---- */

static bool read_model(struct reader *r) {
    struct zt_onnx_file *f = r->file;
    if (!zt_onnx_scan(&f->scan, f->map.data, f->map.size, &onnx__model_proto__descriptor, f->code, r->err))
        return false;
    Onnx__ModelProto *p = (Onnx__ModelProto *)zt_onnx_unpack(&f->scan, f->code, r->err);
    if (!p)
        return false;
    r->proto = p;
    bool ok = read_header(r) && read_graphs(r);
    protobuf_c_message_free_unpacked(&p->base, NULL);
    zt_map_finish(&r->opset_by_domain);
    return ok;
}

struct zt_onnx *zt_onnx_read(const char *path, enum zt_onnx_weights weights, struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_onnx *model = ZT_NEW(arena, struct zt_onnx);
    model->path = zt_arena_strdup(arena, path);
    model->file = ZT_NEW(arena, struct zt_onnx_file);
    *model->file = (struct zt_onnx_file){ .arena = arena, .code = ZT_EXIT_MODEL, .weights = weights };
    model->file->folder = zt_path_folder(path);
    struct reader r = { .model = model, .file = model->file, .err = err };
    int first = err->count;
    bool ok = zt_file_map(&model->file->map, path, ZT_EXIT_MODEL, err);
    if (ok && !read_model(&r))
        ok = zt_err_within(err, first, "%s", path);
    if (zt_mapped_all_intact(err) && ok)
        return model;
    zt_onnx_destroy(model);
    return NULL;
}

bool zt_onnx_check_opset(const struct zt_onnx *model, struct zt_err *err) {
    if (model->newest_opset <= ZT_ONNX_OPSET_LAST)
        return true;
    zt_fail(err, ZT_EXIT_MODEL, "%s: opset %d is newer than %d, the newest that ztrain supports", model->path,
            model->newest_opset, ZT_ONNX_OPSET_LAST);
    return zt_hint(err,
                   "export it with opset_version=%d, or convert it with onnx.version_converter; "
                   "--set ztrain.allow_future_opset=true trains it as if it were opset %d",
                   ZT_ONNX_OPSET_LAST, ZT_ONNX_OPSET_LAST);
}

bool zt_onnx_stores(const struct zt_onnx *model, const char *name) {
    return zt_map_get(&model->file->stored_by_name, name, -1) >= 0;
}

uint32_t zt_onnx_checksum(const struct zt_onnx *model) {
    const struct zt_onnx_file *f = model->file;
    uint32_t crc = zt_crc32c(0, f->map.data, f->map.size);
    for (int i = 0; i < f->externals.count; i++)
        crc = zt_crc32c(crc, f->externals.at[i].map.data, f->externals.at[i].map.size);
    return crc;
}

void zt_onnx_destroy(struct zt_onnx *model) {
    if (!model)
        return;
    struct zt_onnx_file *f = model->file;
    for (int i = 0; i < f->bodies.count; i++)
        zt_graph_destroy(f->bodies.at[i]);
    zt_vec_finish(&f->bodies);
    zt_map_finish(&f->functions.by_key);
    zt_graph_destroy(model->graph);
    for (int i = 0; i < f->externals.count; i++)
        zt_file_unmap(&f->externals.at[i].map);
    zt_vec_finish(&f->externals);
    zt_map_finish(&f->external_by_location);
    zt_vec_finish(&f->stored);
    zt_vec_finish(&f->owned);
    zt_map_finish(&f->stored_by_name);
    zt_onnx_scan_finish(&f->scan);
    zt_file_unmap(&f->map);
    free(f->folder);
    zt_arena_destroy(f->arena);
}
