#include "report/modules.h"

#include "base/vec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Appends a module and returns its index. */
static int add_module(struct zt_modules *m, const struct zt_module *module) {
    struct zt_module new = *module;
    new.first = new.last = new.next = -1;
    zt_vec_push(m, new);
    struct zt_module *parent = new.parent >= 0 ? &m->at[new.parent] : NULL;
    if (parent && parent->last >= 0)
        m->at[parent->last].next = m->count - 1;
    else if (parent)
        parent->first = m->count - 1;
    if (parent)
        parent->last = m->count - 1;
    return m->count - 1;
}

void zt_modules_init(struct zt_modules *m, const struct zt_onnx *model) {
    *m = (struct zt_modules){ .arena = zt_arena_create(), .graph = model->graph };
    for (int n = 0; n < m->graph->node_count; n++)
        zt_map_put(&m->by_node, m->graph->nodes[n]->name, n);
    m->reader = zt_malloc(((size_t)m->graph->value_count + 1) * sizeof *m->reader);
    memset(m->reader, -1, ((size_t)m->graph->value_count + 1) * sizeof *m->reader);
    for (int n = m->graph->node_count - 1; n >= 0; n--)
        for (int i = 0; i < m->graph->nodes[n]->in_count; i++)
            if (m->graph->nodes[n]->in[i] >= 0)
                m->reader[m->graph->nodes[n]->in[i]] = n;
    add_module(m, &(struct zt_module){ .name = "", .class = "model", .parent = -1 });
}

void zt_modules_finish(struct zt_modules *m) {
    zt_map_finish(&m->by_path);
    zt_map_finish(&m->by_node);
    free(m->reader);
    free(m->at);
    zt_arena_destroy(m->arena);
}

/* ---- paths ---- */

static bool is_number(const char *text) {
    return text[0] && text[strspn(text, "0123456789")] == 0;
}

/* Returns `name` without the name of its parent in front: "0" of "blocks.0" in "blocks". */
static const char *short_name(const char *name, const char *parent) {
    const size_t n = strlen(parent);
    return n && strncmp(name, parent, n) == 0 && name[n] == '.' ? name + n + 1 : name;
}

/* Returns the class of a module: the last part of "torch.nn.modules.conv.Conv2d", otherwise the name. */
static const char *class_of(struct zt_modules *m, const char *class, const char *name, const struct zt_module *parent) {
    const char *dot = class ? strrchr(class, '.') : NULL;
    if (class && class[0])
        return dot ? dot + 1 : class;
    return is_number(name) && parent->name[0] ? zt_arena_printf(m->arena, "%s.*", parent->name) : name;
}

/* Returns the module `name` of `class` (NULL: unknown) in `parent`, and adds it if it is new. `path` is unique. */
static int child(struct zt_modules *m, int parent, const char *path, const char *name, const char *class) {
    int found = zt_map_get(&m->by_path, path, -1);
    if (found >= 0)
        return found;
    const struct zt_module *above = &m->at[parent];
    const char *whole = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *parent_path = path == whole ? "" : zt_arena_printf(m->arena, "%.*s", (int)(whole - path - 1), path);
    const char *parent_whole = strrchr(parent_path, '/') ? strrchr(parent_path, '/') + 1 : parent_path;
    name = zt_arena_strdup(m->arena, short_name(name, parent_whole));
    const struct zt_module new = {
        .name = name, .class = class_of(m, class, name, above), .parent = parent, .depth = above->depth + 1
    };
    m->deepest = new.depth > m->deepest ? new.depth : m->deepest;
    found = add_module(m, &new);
    zt_map_put(&m->by_path, zt_arena_strdup(m->arena, path), found);
    return found;
}

/* Goes down the parts of `text` between slashes, without the last one, which is an operator. With `classes` a part is
 * "name: class", and the first one is the root. */
static int follow(struct zt_modules *m, const char *text, bool classes) {
    char *copy = zt_arena_strdup(m->arena, text), *rest = NULL, *path = zt_arena_strdup(m->arena, "");
    int at = 0;
    bool first = true;
    for (char *part = strtok_r(copy, "/", &rest), *next; part; part = next, first = false) {
        next = strtok_r(NULL, "/", &rest);
        char *class = classes ? strstr(part, ": ") : NULL;
        if (class) {
            *class = 0;
            class += 2;
        }
        if (!next || m->at[at].depth == ZT_MODULES_DEEPEST)
            break;
        if (first && classes) {
            m->at[0].class = class_of(m, class, "model", &m->at[0]);
            continue;
        }
        path = zt_arena_printf(m->arena, "%s%s%s", path, path[0] ? "/" : "", part);
        at = child(m, at, path, part, class && class[0] ? zt_arena_strdup(m->arena, class) : NULL);
    }
    return at;
}

/* The node of the file that makes the value, or else reads it first; -1: neither. */
static int node_at(const struct zt_modules *m, const char *value) {
    const int v = zt_graph_find(m->graph, value), maker = v >= 0 ? m->graph->values[v]->producer : -1;
    return maker >= 0 || v < 0 ? maker : m->reader[v];
}

/* Returns the module of the node called `name`; that of what it moves, where layouts add one. */
static int module_of(struct zt_modules *m, const char *name) {
    static const char moved[] = "reorder of ";
    const bool moves = strncmp(name, moved, strlen(moved)) == 0;
    const int n = moves ? node_at(m, name + strlen(moved)) : zt_map_get(&m->by_node, name, -1);
    if (moves)
        return n >= 0 ? module_of(m, m->graph->nodes[n]->name) : 0;
    const char *torch = n >= 0 ? m->graph->nodes[n]->torch_namespace : NULL;
    return torch ? follow(m, torch, true) : follow(m, name, false);
}

static void add(struct zt_modules *m, int at, const struct zt_module *numbers) {
    for (; at >= 0; at = m->at[at].parent) {
        m->at[at].params += numbers->params;
        m->at[at].macs += numbers->macs;
        m->at[at].flops += numbers->flops;
        m->at[at].seconds += numbers->seconds;
    }
}

void zt_modules_add(struct zt_modules *m, const char *node, const struct zt_module *numbers) {
    add(m, module_of(m, node), numbers);
}

void zt_modules_add_param(struct zt_modules *m, const char *initializer, double elements) {
    const int value = zt_graph_find(m->graph, initializer), reader = value >= 0 ? m->reader[value] : -1;
    add(m, reader < 0 ? 0 : module_of(m, m->graph->nodes[reader]->name), &(struct zt_module){ .params = elements });
}
