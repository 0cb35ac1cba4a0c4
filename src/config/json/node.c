/* The tree of values: its nodes, their text, and reports of problems with them. */
#include "config/json/node.h"

#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct zt_json_node *zt_json_node_create(struct zt_arena *arena, enum zt_json_node_kind kind, const char *key,
                                         const char *option) {
    struct zt_json_node *node = ZT_NEW(arena, struct zt_json_node);
    *node = (struct zt_json_node){ .kind = kind, .key = key, .option = option };
    return node;
}

struct zt_json_node *zt_json_node_beside(struct zt_arena *arena, enum zt_json_node_kind kind, const char *key,
                                         const struct zt_json_node *of) {
    struct zt_json_node *node = zt_json_node_create(arena, kind, key, of->option);
    node->source = of->source;
    node->line = of->line;
    node->column = of->column;
    return node;
}

struct zt_json_node *zt_json_node_child(const struct zt_json_node *parent, const char *key) {
    for (struct zt_json_node *child = parent->first; child; child = child->next)
        if (child->key && strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

struct zt_json_node *zt_json_node_find(const struct zt_json_node *root, const char *path) {
    struct zt_json_node *at = (struct zt_json_node *)root; /* like strchr */
    while (at && *path) {
        char key[128];
        size_t n = strcspn(path, ".");
        if (n >= sizeof key)
            return NULL;
        memcpy(key, path, n);
        key[n] = 0;
        at = at->kind == ZT_JSON_NODE_OBJECT ? zt_json_node_child(at, key) : NULL;
        path += path[n] ? n + 1 : n;
    }
    return at;
}

void zt_json_node_append(struct zt_json_node *parent, struct zt_json_node *child) {
    struct zt_json_node **end = &parent->first;
    int count = 0;
    for (; *end; end = &(*end)->next)
        count++;
    child->parent = parent;
    child->index = count;
    child->next = NULL;
    *end = child;
}

void zt_json_node_remove(struct zt_json_node *child) {
    struct zt_json_node **at = &child->parent->first;
    while (*at != child)
        at = &(*at)->next;
    *at = child->next;
}

int zt_json_node_layer(const struct zt_json_node *node) {
    return node->source ? node->source->layer : INT_MAX;
}

void zt_json_node_keep_spelling(struct zt_json_node *node, struct zt_arena *arena) {
    char path[256];
    if (!node->spelled)
        node->spelled = zt_arena_strdup(arena, zt_json_node_path(node, path, sizeof path));
    for (struct zt_json_node *child = node->first; child; child = child->next)
        zt_json_node_keep_spelling(child, arena);
}

char *zt_json_node_path(const struct zt_json_node *node, char *to, size_t room) {
    if (node->spelled) {
        snprintf(to, room, "%s", node->spelled);
        return to;
    }
    if (!node->parent) {
        to[0] = 0;
        return to;
    }
    zt_json_node_path(node->parent, to, room);
    size_t n = strlen(to);
    if (node->key)
        snprintf(to + n, room - n, "%s%s", n ? "." : "", node->key);
    else
        snprintf(to + n, room - n, "[%d]", node->index);
    return to;
}

static void show(struct zt_text *text, const struct zt_json_node *node, size_t room) {
    static const char brackets[2][2] = { { '[', ']' }, { '{', '}' } };
    bool object = node->kind == ZT_JSON_NODE_OBJECT;
    if (node->kind == ZT_JSON_NODE_NULL)
        zt_text_add(text, "null");
    else if (node->kind == ZT_JSON_NODE_BOOL)
        zt_text_add(text, node->truth ? "true" : "false");
    else if (node->kind == ZT_JSON_NODE_NUMBER && node->whole)
        zt_text_add(text, "%lld", (long long)node->integer);
    else if (node->kind == ZT_JSON_NODE_NUMBER)
        zt_text_add(text, "%.10g", node->number);
    else if (node->kind == ZT_JSON_NODE_TEXT)
        zt_text_add(text, "\"%s\"", node->text);
    else {
        zt_text_add(text, "%c", brackets[object][0]);
        for (const struct zt_json_node *child = node->first; child && text->length < room; child = child->next) {
            zt_text_add(text, child == node->first ? "" : ", ");
            if (object)
                zt_text_add(text, "\"%s\": ", child->key);
            show(text, child, room);
        }
        zt_text_add(text, "%c", brackets[object][1]);
    }
}

char *zt_json_node_show(const struct zt_json_node *node, char *to, size_t room) {
    struct zt_text text = { 0 };
    show(&text, node, room);
    bool fits = text.length < room;
    snprintf(to, room, "%.*s%s", fits ? (int)text.length : (int)room - 4, text.at ? text.at : "", fits ? "" : "...");
    zt_text_finish(&text);
    return to;
}

char *zt_json_node_origin(const struct zt_json_node *node, char *to) {
    const char *slash = node->source ? strrchr(node->source->file, '/') : NULL;
    const char *name = slash ? slash + 1 : node->source ? node->source->file : "";
    if (!node->source)
        snprintf(to, ZT_JSON_ORIGIN, "%s", node->option);
    else if (node->source->several)
        snprintf(to, ZT_JSON_ORIGIN, "%.255s line %d", name, node->line);
    else
        snprintf(to, ZT_JSON_ORIGIN, "line %d", node->line);
    return to;
}
