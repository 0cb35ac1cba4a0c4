#include "config/defaults.h"

#include "config/keys.h"

/* A text or an object; texts are constants. */
static struct zt_node *add(struct zt_reading *r, struct zt_node *parent, const char *key, const char *text) {
    struct zt_node *node =
        zt_node_create(r->arena, text ? ZT_NODE_TEXT : ZT_NODE_OBJECT, key, "Hugging Face's default");
    node->text = text;
    zt_node_append(parent, node);
    return node;
}

void zt_config_add_defaults(struct zt_reading *r, bool trains) {
    struct zt_node *given = zt_node_child(r->root, "optimizer");
    if (given && given->kind != ZT_NODE_NULL)
        return;
    if (given)
        zt_node_remove(given);
    struct zt_node *optimizer = add(r, r->root, "optimizer", NULL);
    add(r, optimizer, "type", "AdamW");
    struct zt_node *lr = add(r, add(r, optimizer, "params", NULL), "lr", "5e-5");
    lr->kind = ZT_NODE_NUMBER;
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
