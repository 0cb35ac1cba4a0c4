/* Works on one source before the sources are laid over one another. A row with `now` names the current key in the same
 * object; some old forms also have another type. */
#include "config/deprecated.h"

#include "config/overlay.h"
#include "config/value.h"

#include <string.h>

/* `zero_optimization: true` is stage 1, with the bucket size of a key at the top. */
static void widen_zero(struct zt_reading *r, struct zt_json_node *root) {
    struct zt_json_node *zero = zt_json_node_child(root, "zero_optimization"),
                        *size = zt_json_node_child(root, "allgather_size");
    if (!zero || zero->kind != ZT_JSON_NODE_BOOL)
        return;
    struct zt_json_node *stage = zt_json_node_beside(r->arena, ZT_JSON_NODE_NUMBER, "stage", zero);
    stage->spelled = "zero_optimization";
    stage->number = stage->integer = zero->truth;
    stage->whole = true;
    zero->kind = ZT_JSON_NODE_OBJECT;
    zt_json_node_append(zero, stage);
    if (size) {
        zt_json_node_keep_spelling(size, r->arena);
        zt_json_node_remove(size);
        size->key = "allgather_bucket_size";
        zt_json_node_append(zero, size);
    }
    zt_texts_add(r->arena, &r->config->notes, "zero_optimization: %s is an old form of {\"stage\": %d}",
                 zero->truth ? "true" : "false", (int)zero->truth);
}

static bool now_offloads(const struct zt_key_row *row) {
    return strncmp(row->now, "offload_", 8) == 0;
}

/* Whether the old name is a switch for one value of the current key, which is no switch. */
static bool widens(const struct zt_key_row *row) {
    return row->type == ZT_KEY_BOOL && (now_offloads(row) || strcmp(row->now, "communication_data_type") == 0);
}

/* `cpu_offload: true` is `offload_optimizer: {"device": "cpu"}`, `fp32_allreduce: true` is `communication_data_type:
 * "fp32"`; false is nothing. */
static void widen(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    if (!node->truth) {
        node->kind = ZT_JSON_NODE_NULL;
        return;
    }
    if (!now_offloads(row)) {
        node->kind = ZT_JSON_NODE_TEXT;
        node->text = "fp32";
        return;
    }
    node->kind = ZT_JSON_NODE_OBJECT;
    struct zt_json_node *device = zt_json_node_beside(r->arena, ZT_JSON_NODE_TEXT, "device", node);
    device->text = "cpu";
    device->spelled = node->spelled;
    zt_json_node_append(node, device);
}

/* `row`: that of the old name. Null says nothing, so nothing is renamed. */
static void rename_node(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    struct zt_json_node *today = zt_json_node_child(node->parent, row->now);
    char origin[ZT_JSON_ORIGIN];
    if (node->kind == ZT_JSON_NODE_NULL)
        return;
    if (widens(row) && !zt_value_check(r, node, row)) {
        zt_json_node_remove(node);
        return;
    }
    if (today && today->kind != ZT_JSON_NODE_NULL && row->now_wins) {
        zt_texts_add(r->arena, &r->config->notes, "%s is not read, because %s is given (%s)", row->key, row->now,
                     zt_json_node_origin(today, origin));
        zt_json_node_remove(node);
        return;
    }
    if (today && today->kind != ZT_JSON_NODE_NULL) {
        zt_key_fail(r, node, "the old name of %s, which is also given (%s)", row->now,
                    zt_json_node_origin(today, origin));
        zt_json_node_remove(node);
        return;
    }
    if (today)
        zt_json_node_remove(today);
    zt_texts_add(r->arena, &r->config->notes, "%s is an old name of %s", row->key, row->now);
    zt_json_node_keep_spelling(node, r->arena);
    node->key = row->now;
    if (widens(row))
        widen(r, node, row);
}

/* The ztrain block may hold a block of the top level. */
static void lift(struct zt_reading *r, struct zt_json_node *root, const char *path, const char *key) {
    struct zt_json_node *block = zt_json_node_find(root, path);
    if (!block)
        return;
    zt_json_node_keep_spelling(block, r->arena);
    zt_json_node_remove(block);
    zt_config_lay_value(r, root, key, block);
}

void zt_config_modernise(struct zt_reading *r, struct zt_json_node *root) {
    widen_zero(r, root);
    lift(r, root, "ztrain.optimizer", "optimizer");
    lift(r, root, "ztrain.scheduler", "scheduler");
    for (int i = 0; i < r->table->count; i++) {
        struct zt_json_node *node = r->table->row[i]->now ? zt_json_node_find(root, r->table->row[i]->key) : NULL;
        if (node)
            rename_node(r, node, r->table->row[i]);
    }
}
