/* Rewrites deprecated keys of DeepSpeed before anything is checked. A row with `now` names the current key in the same
 * object; some old forms also have another type. */
#include "config/deprecated.h"

#include "config/value.h"

#include <string.h>

/* `zero_optimization: true` is stage 1, with the bucket size of a key at the top. */
static void widen_zero(struct zt_reading *r) {
    struct zt_node *zero = zt_node_child(r->root, "zero_optimization"),
                   *size = zt_node_child(r->root, "allgather_size");
    if (!zero || zero->kind != ZT_NODE_BOOL)
        return;
    struct zt_node *stage = zt_node_create(r->arena, ZT_NODE_NUMBER, "stage", zero->option);
    stage->line = zero->line;
    stage->column = zero->column;
    stage->number = stage->integer = zero->truth;
    stage->whole = true;
    zero->kind = ZT_NODE_OBJECT;
    zt_node_append(zero, stage);
    if (size) {
        zt_node_remove(size);
        size->key = "allgather_bucket_size";
        zt_node_append(zero, size);
    }
    zt_texts_add(r->arena, &r->config->notes, "zero_optimization: %s is an old form of {\"stage\": %d}",
                 zero->truth ? "true" : "false", (int)zero->truth);
}

/* `cpu_offload: true` is `offload_optimizer: {"device": "cpu"}`, false is nothing. */
static void widen_offload(struct zt_reading *r, struct zt_node *node) {
    bool off = !node->truth;
    node->kind = off ? ZT_NODE_NULL : ZT_NODE_OBJECT;
    if (off)
        return;
    struct zt_node *device = zt_node_create(r->arena, ZT_NODE_TEXT, "device", node->option);
    device->line = node->line;
    device->column = node->column;
    device->text = "cpu";
    zt_node_append(node, device);
}

/* `row`: that of the old name. Null says nothing, so nothing is renamed. */
static void rename_node(struct zt_reading *r, struct zt_node *node, const struct zt_key_row *row) {
    struct zt_node *today = zt_node_child(node->parent, row->now);
    bool widens = row->type == ZT_KEY_BOOL && strncmp(row->now, "offload_", 8) == 0;
    if (node->kind == ZT_NODE_NULL)
        return;
    if (widens && !zt_value_check(r, node, row)) {
        zt_node_remove(node);
        return;
    }
    if (today && today->kind != ZT_NODE_NULL) {
        char origin[64];
        if (!node->option == !today->option) {
            zt_key_fail(r, node, "the old name of %s, which is also given (%s)", row->now,
                        zt_node_origin(today, origin));
            zt_node_remove(node);
            return;
        }
        zt_node_remove(node->option ? today : node); /* the command line wins */
        if (!node->option)
            return;
    } else if (today) {
        zt_node_remove(today);
    }
    zt_texts_add(r->arena, &r->config->notes, "%s is an old name of %s", row->key, row->now);
    node->key = row->now;
    if (widens)
        widen_offload(r, node);
}

void zt_config_modernise(struct zt_reading *r) {
    widen_zero(r);
    for (int i = 0; i < r->table->count; i++) {
        struct zt_node *node = r->table->row[i]->now ? zt_node_find(r->root, r->table->row[i]->key) : NULL;
        if (node)
            rename_node(r, node, r->table->row[i]);
    }
}
