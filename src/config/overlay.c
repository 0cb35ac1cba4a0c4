#include "config/overlay.h"

#include "base/text.h"
#include "config/json/json.h"

#include <string.h>
#include <strings.h>

/* ---- layers ---- */

static bool same_value(const struct zt_json_node *a, const struct zt_json_node *b) {
    if (a->kind != b->kind)
        return false;
    if (a->kind == ZT_JSON_NODE_BOOL)
        return a->truth == b->truth;
    if (a->kind == ZT_JSON_NODE_NUMBER)
        return a->number == b->number && a->integer == b->integer;
    if (a->kind == ZT_JSON_NODE_TEXT)
        return strcmp(a->text, b->text) == 0;
    const struct zt_json_node *x = a->first, *y = b->first;
    for (; x && y && same_value(x, y); y = y->next)
        x = x->next;
    return !x && !y;
}

/* Reports two values of one layer that differ. */
static void compare(struct zt_reading *r, const struct zt_json_node *old, const struct zt_json_node *top) {
    char path[256], value[64], origin[ZT_JSON_ORIGIN];
    if (!same_value(old, top))
        zt_key_fail(r, top, "differs from %s (%s, %s); they mean the same", zt_json_node_path(old, path, sizeof path),
                    zt_json_node_show(old, value, sizeof value), zt_json_node_origin(old, origin));
}

/* The params of one optimizer or scheduler mean nothing to another one. */
static void drop_former_params(struct zt_reading *r, struct zt_json_node *old, const struct zt_json_node *top) {
    const struct zt_json_node *was = zt_json_node_child(old, "type"), *now = zt_json_node_child(top, "type");
    struct zt_json_node *params = zt_json_node_child(old, "params");
    bool typed = strcmp(old->key, "optimizer") == 0 || strcmp(old->key, "scheduler") == 0;
    char origin[ZT_JSON_ORIGIN];
    if (!typed || old->parent != r->root || zt_json_node_layer(top) == zt_json_node_layer(old) || !params)
        return;
    if (!was || !now || was->kind != ZT_JSON_NODE_TEXT || now->kind != ZT_JSON_NODE_TEXT ||
        strcasecmp(was->text, now->text) == 0)
        return;
    zt_json_node_remove(params);
    zt_texts_add(r->arena, &r->config->notes, "%s.type is %s (%s), so that the params of %s have no effect", old->key,
                 now->text, zt_json_node_origin(now, origin), was->text);
}

void zt_config_lay_value(struct zt_reading *r, struct zt_json_node *base, const char *key, struct zt_json_node *top) {
    struct zt_json_node *old = zt_json_node_child(base, key);
    top->key = key;
    if (!old) {
        zt_json_node_append(base, top);
        return;
    }
    if (old->kind == ZT_JSON_NODE_OBJECT && top->kind == ZT_JSON_NODE_OBJECT && !top->replaces) {
        drop_former_params(r, old, top);
        zt_config_lay_over(r, old, top);
        return;
    }
    if (zt_json_node_layer(top) == zt_json_node_layer(old) && old->kind != ZT_JSON_NODE_NULL) {
        if (top->kind != ZT_JSON_NODE_NULL)
            compare(r, old, top);
        return;
    }
    zt_json_node_remove(old);
    zt_json_node_append(base, top);
}

void zt_config_lay_over(struct zt_reading *r, struct zt_json_node *base, struct zt_json_node *top) {
    for (struct zt_json_node *child = top->first, *next; child; child = next) {
        next = child->next;
        zt_config_lay_value(r, base, child->key, child);
    }
}

/* ---- comments ---- */

static bool has_free_names(const struct zt_reading *r, const struct zt_json_node *object) {
    char path[256];
    int row = object->parent ? zt_map_get(&r->by_key, zt_json_node_path(object, path, sizeof path), -1) : -1;
    return row >= 0 && r->table->row[row]->type == ZT_KEY_NAMED;
}

static void drop_comments(const struct zt_reading *r, struct zt_json_node *parent, struct zt_text *dropped) {
    const bool free_names = has_free_names(r, parent);
    char path[256], origin[ZT_JSON_ORIGIN];
    for (struct zt_json_node *child = parent->first, *next; child; child = next) {
        next = child->next;
        if (child->key && !free_names && zt_json_is_comment(child->key)) {
            zt_text_add(dropped, "%s%s (%s)", dropped->length ? ", " : "", zt_json_node_path(child, path, sizeof path),
                        zt_json_node_origin(child, origin));
            zt_json_node_remove(child);
        } else {
            drop_comments(r, child, dropped);
        }
    }
}

void zt_config_drop_comments(struct zt_reading *r, struct zt_json_node *root) {
    struct zt_text dropped = { 0 };
    drop_comments(r, root, &dropped);
    if (dropped.length)
        zt_texts_add(r->arena, &r->config->notes, "keys that begin with _ or // are comments: %s", dropped.at);
    zt_text_finish(&dropped);
}
