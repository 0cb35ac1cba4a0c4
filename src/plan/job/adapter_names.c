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

const char *zt_module_of(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed,
                         const struct zt_node *reader) {
    static const char end[] = ".weight";
    const char *name = zt_parameter_of(arena, v, listed);
    const size_t length = strlen(name), tail = sizeof end - 1;
    const char *module = strncmp(name, "onnx::", 6) == 0 ? zt_torch_module(arena, reader->name) : "";
    if (module[0])
        return module;
    const bool ends = length > tail && zt_text_ends(name, end);
    return zt_arena_printf(arena, "%.*s", (int)(length - (ends ? tail : 0)), name);
}
