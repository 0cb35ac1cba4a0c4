#include "plan/job/adapter_names.h"

#include "base/text.h"
#include "graph/passes/trainable/torch.h"

#include <string.h>

const char *zt_parameter_of(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed) {
    struct zt_torch_folding f = { 0 };
    if (v->torch_folded_from)
        zt_torch_read_folding(arena, v, listed, &f);
    return f.parameter && f.parameters == 1 && !f.operation_count && !f.buffer ? f.parameter : v->name;
}

/* Adds a module of a node's path. A child of a list of modules repeats the list's name: "h/h.0" is "h.0". */
static void add_module(struct zt_text *to, size_t *last, const char *part, size_t length) {
    const size_t before = to->length - *last;
    if (before && length > before && strncmp(to->at + *last, part, before) == 0 && part[before] == '.')
        to->length = *last;
    else if (to->length)
        zt_text_add(to, ".");
    *last = to->length;
    zt_text_add_bytes(to, part, length);
}

static const char *module_of_path(struct zt_arena *arena, const char *path) {
    struct zt_text text = { 0 };
    size_t last = 0;
    for (const char *slash; (slash = strchr(++path, '/')); path = slash)
        if (slash > path)
            add_module(&text, &last, path, (size_t)(slash - path));
    const char *module = zt_arena_strdup(arena, text.at ? text.at : "");
    zt_text_finish(&text);
    return module;
}

const char *zt_module_of(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed,
                         const struct zt_node *reader) {
    static const char end[] = ".weight";
    const char *name = zt_parameter_of(arena, v, listed);
    const size_t length = strlen(name), tail = sizeof end - 1;
    const char *module =
        strncmp(name, "onnx::", 6) == 0 && reader->name[0] == '/' ? module_of_path(arena, reader->name) : "";
    if (module[0])
        return module;
    const bool ends = length > tail && zt_text_ends(name, end);
    return zt_arena_printf(arena, "%.*s", (int)(length - (ends ? tail : 0)), name);
}
