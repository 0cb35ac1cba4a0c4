#include "config/defaults.h"

#include "config/keys.h"

/* A text or an object; texts are constants. */
static struct zt_json_node *add(struct zt_reading *r, struct zt_json_node *parent, const char *key, const char *text) {
    struct zt_json_node *node =
        zt_json_node_create(r->arena, text ? ZT_JSON_NODE_TEXT : ZT_JSON_NODE_OBJECT, key, "Hugging Face's default");
    node->text = text;
    zt_json_node_append(parent, node);
    return node;
}

void zt_config_add_defaults(struct zt_reading *r, bool trains) {
    struct zt_json_node *given = zt_json_node_child(r->root, "optimizer");
    if (given && given->kind != ZT_JSON_NODE_NULL)
        return;
    if (given)
        zt_json_node_remove(given);
    struct zt_json_node *optimizer = add(r, r->root, "optimizer", NULL);
    add(r, optimizer, "type", "AdamW");
    struct zt_json_node *lr = add(r, add(r, optimizer, "params", NULL), "lr", "5e-5");
    lr->kind = ZT_JSON_NODE_NUMBER;
    lr->number = 5e-5;
    if (trains)
        zt_texts_add(r->arena, &r->config->notes,
                     "optimizer is not given: AdamW at lr 5e-5, the default of Hugging Face's Trainer");
}

void zt_config_note_defaults(struct zt_reading *r) {
    if (!zt_keys_node(r, "gradient_clipping"))
        zt_texts_add(r->arena, &r->config->notes,
                     "gradient_clipping is not given: 0, which is off (DeepSpeed 0.19.8 clips at 1)");
}
