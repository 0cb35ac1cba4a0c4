#include "graph/passes/trainable/torch.h"

#include "base/map.h"

#include <ctype.h>
#include <string.h>

/* ---- the signature ---- */

/* One line of it. */
struct line {
    const char *name;   /* of the value */
    const char *target; /* of the state, NULL: none */
    enum zt_torch_kind kind;
};

static bool begins(const char *text, size_t length, const char *with) {
    return length >= strlen(with) && strncmp(text, with, strlen(with)) == 0;
}

/* The next line "NAME: KIND target='TARGET'" after *at; false at the end. */
static bool next_line(struct zt_arena *arena, const char **at, struct line *to) {
    static const char sign[] = " target='";
    while (**at) {
        const char *start = *at;
        const size_t length = strcspn(start, "\n");
        const char *colon = memchr(start, ':', length);
        *at = start + length + (start[length] != 0);
        if (!colon || start[0] == '#')
            continue;
        const size_t left = (size_t)(start + length - colon);
        const char *kind = colon + (left > 2 ? 2 : 1), *target = strstr(colon, sign);
        const size_t rest = (size_t)(start + length - kind);
        *to = (struct line){ .name = zt_arena_strndup(arena, start, (size_t)(colon - start)),
                             .kind = begins(kind, rest, "PARAMETER") ? ZT_TORCH_PARAMETER
                                     : begins(kind, rest, "USER_")   ? ZT_TORCH_INPUT
                                                                     : ZT_TORCH_BUFFER };
        if (target && target < start + length) {
            target += sizeof sign - 1;
            to->target = zt_arena_strndup(arena, target, strcspn(target, "'\n"));
        }
        return true;
    }
    return false;
}

void zt_torch_read_signature(struct zt_arena *arena, const char *signature, struct zt_map *listed) {
    struct line line;
    while (next_line(arena, &signature, &line))
        if (line.target || line.kind == ZT_TORCH_INPUT)
            zt_map_put(listed, line.target ? line.target : line.name, line.kind);
}

int zt_torch_parameters(struct zt_arena *arena, const char *signature, const char ***names) {
    struct line line;
    int count = 0, room = 0;
    for (const char *at = signature; at && next_line(arena, &at, &line);)
        room += line.target && line.kind == ZT_TORCH_PARAMETER;
    *names = ZT_NEW_N(arena, const char *, room + 1);
    for (const char *at = signature; at && next_line(arena, &at, &line);)
        if (line.target && line.kind == ZT_TORCH_PARAMETER)
            (*names)[count++] = line.target;
    return count;
}

int zt_torch_states(struct zt_arena *arena, const char *signature, struct zt_torch_state **list) {
    struct line line;
    int count = 0, room = 0;
    for (const char *at = signature; next_line(arena, &at, &line);)
        room += line.target != NULL;
    *list = ZT_NEW_N(arena, struct zt_torch_state, room + 1);
    for (const char *at = signature; next_line(arena, &at, &line);)
        if (line.target)
            (*list)[count++] = (struct zt_torch_state){ line.name, line.target, line.kind };
    return count;
}

/* ---- traced calls ---- */

const char *zt_torch_next_argument(struct zt_arena *arena, const char **at) {
    const char *start = strchr(*at, '%');
    if (!start)
        return NULL;
    size_t length = 0;
    while (isalnum((unsigned char)start[1 + length]) || start[1 + length] == '_')
        length++;
    *at = start + 1 + length;
    return zt_arena_strndup(arena, start + 1, length);
}

const char *zt_torch_call(struct zt_arena *arena, const struct zt_node *n, const char **arguments) {
    const char *at = n->torch_fx_node, *name = at ? zt_torch_next_argument(arena, &at) : NULL;
    *arguments = name ? strstr(at, "](args") : NULL;
    return name;
}

/* ---- folded_from ---- */

const char *zt_torch_next_source(struct zt_arena *arena, const char **at) {
    const char *start = strpbrk(*at, "'\"");
    const char *end = start ? strchr(start + 1, *start) : NULL;
    if (!end)
        return NULL;
    *at = end + 1;
    return zt_arena_strndup(arena, start + 1, (size_t)(end - start - 1));
}

/* Operations that place elements elsewhere, each once. */
static const char *const moves[] = { "view",  "reshape", "t",         "transpose", "permute", "squeeze",
                                     "clone", "flip",    "unsqueeze", "alias",     NULL };
/* Those that may also drop or join elements. */
static const char *const picks[] = { "select", "slice", "split", "chunk", "cat", "stack", NULL };
/* Those that may also repeat them. */
static const char *const copies[] = { "expand", "repeat", "gather", "index", "embedding", "index_select", NULL };
/* Those among them that look elements up, and what index arithmetic consists of. */
static const char *const lookups[] = { "index", "embedding", "index_select", "gather", NULL };
static const char *const on_indices[] = { "add", "sub", "cumsum", "eq", "ne", "lt", "le", "gt", "ge", NULL };
static const char *const on_buckets[] = { "abs", "div", "log", "minimum", "mul", "neg", "where", NULL };
/* Names that say nothing: numbered intermediates and tensors that hold no parameter. */
static const char *const silent[] = { "val",      "arange",          "zeros",      "ones",      "full",      "empty",
                                      "eye",      "scalar_tensor",   "zeros_like", "ones_like", "full_like", "to",
                                      "_to_copy", "lift_fresh_copy", "getitem",    NULL };

static bool is_one_of(const char *const *list, const char *name) {
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* The name without what numbers it: "mul_2" is a mul, "scalar_tensor_default_1" a scalar_tensor. */
static const char *operation_of(struct zt_arena *arena, const char *name) {
    static const char overload[] = "_default";
    size_t length = strlen(name), digits = length;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    if (digits > 1 && digits < length && name[digits - 1] == '_')
        length = digits - 1;
    const size_t tail = sizeof overload - 1;
    if (length > tail && strncmp(name + length - tail, overload, tail) == 0)
        length -= tail;
    return zt_arena_strndup(arena, name, length);
}

bool zt_torch_is_filled(struct zt_arena *arena, const char *name) {
    static const char *const filled[] = { "zeros",      "ones",      "full",      "scalar_tensor",
                                          "zeros_like", "ones_like", "full_like", "new_zeros",
                                          "new_ones",   "new_full",  NULL };
    return is_one_of(filled, operation_of(arena, name));
}

/* Whether a move of looked up rows, of which some stand for distances that are bucketed by their logarithm: T5's bias
 * by relative position. All that is computed is then the index. */
static bool is_bucketed(struct zt_arena *arena, const char *sources, const char *own) {
    bool rows = false, logarithm = false, minimum = false, counted = false;
    for (const char *name; (name = zt_torch_next_source(arena, &sources));) {
        const char *operation = operation_of(arena, name);
        rows |= strcmp(operation, "embedding") == 0;
        logarithm |= strcmp(operation, "log") == 0;
        minimum |= strcmp(operation, "minimum") == 0;
        counted |= strcmp(operation, "arange") == 0;
    }
    return is_one_of(moves, own) && rows && logarithm && minimum && counted;
}

/* `own`: the operation that made the tensor. Operations before a lookup may compute its indices. */
static void count_operation(struct zt_torch_folding *to, const char *operation, const char *own) {
    enum { MOST = sizeof to->operations / sizeof *to->operations };
    to->moved |= is_one_of(moves, operation) || is_one_of(picks, operation) || is_one_of(copies, operation);
    to->picked |= is_one_of(picks, operation);
    to->copied |= is_one_of(copies, operation);
    if (is_one_of(moves, operation) || is_one_of(picks, operation) || is_one_of(copies, operation) ||
        is_one_of(silent, operation))
        return;
    to->counts |= strcmp(operation, "cumsum") == 0;
    if ((is_one_of(lookups, own) &&
         (is_one_of(on_indices, operation) || (to->counts && strcmp(operation, "mul") == 0))) ||
        (to->bucketed && (is_one_of(on_indices, operation) || is_one_of(on_buckets, operation)))) {
        to->indexed = true;
        return;
    }
    if (to->operation_count < MOST)
        to->operations[to->operation_count] = operation;
    to->operation_count++;
}

void zt_torch_read_folding(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed,
                           struct zt_torch_folding *to) {
    const bool numbered = zt_map_get(listed, v->name, ZT_TORCH_UNLISTED) == ZT_TORCH_UNLISTED;
    const char *own = numbered ? operation_of(arena, v->name) : "",
               *at = v->torch_folded_from ? v->torch_folded_from : "";
    *to = (struct zt_torch_folding){ .bucketed = is_bucketed(arena, at, own) };
    for (const char *name; (name = zt_torch_next_source(arena, &at));) {
        const enum zt_torch_kind kind = zt_map_get(listed, name, ZT_TORCH_UNLISTED);
        if (kind == ZT_TORCH_PARAMETER && !to->parameters++)
            to->parameter = name;
        else if (kind == ZT_TORCH_BUFFER && is_one_of(lookups, own))
            to->indexed = true;
        else if (kind == ZT_TORCH_BUFFER)
            to->buffer = name;
        else if (kind == ZT_TORCH_UNLISTED)
            count_operation(to, operation_of(arena, name), own);
    }
    if (own[0])
        count_operation(to, own, own);
}

/* ---- names ---- */

static bool is_unlisted(const struct zt_onnx *model) {
    return model && strncmp(model->producer, "pytorch", 7) == 0 && !model->torch_signature;
}

/* Whether dynamo named one of the first nodes, "node_linear". */
static bool has_dynamos_names(const struct zt_onnx *model) {
    enum { LOOKED_AT = 64 };
    const int count = model->graph ? model->graph->node_count : 0;
    for (int n = 0; n < count && n < LOOKED_AT; n++)
        if (strncmp(model->graph->nodes[n]->name, "node_", 5) == 0)
            return true;
    return false;
}

bool zt_torch_is_script(const struct zt_onnx *model) {
    return is_unlisted(model) && !has_dynamos_names(model);
}

bool zt_torch_is_stripped(const struct zt_onnx *model) {
    return is_unlisted(model) && has_dynamos_names(model);
}

bool zt_torch_is_made(const struct zt_onnx *model, const struct zt_value *v) {
    return zt_torch_is_script(model) && strncmp(v->name, "onnx::", 6) == 0;
}

bool zt_torch_is_numbered(const char *name, const char *with) {
    const size_t length = strlen(with);
    return strncmp(name, with, length) == 0 && name[length] && !name[length + strspn(name + length, "0123456789")];
}

bool zt_torch_is_state_name(const char *name) {
    bool letters = false;
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && *at != '.' && *at != '_')
            return false;
        letters |= isalpha((unsigned char)*at) || *at == '_';
    }
    return letters && (strncmp(name, "val_", 4) != 0 || strspn(name + 4, "0123456789") != strlen(name + 4));
}
