#include "config/refuse.h"

#include "base/text.h"
#include "config/keys.h"
#include "config/value.h"

#include <string.h>

/* A flag of activation_checkpointing that is not supported where the section is on. */
static void refuse_checkpointing(struct zt_reading *r) {
    const struct zt_json_node *host = zt_keys_node(r, "activation_checkpointing.cpu_checkpointing");
    r->config->recompute.on_host = host && host->truth && zt_keys_checkpointing(r);
    if (r->config->recompute.on_host && strcmp(zt_keys_text(r, "ztrain.device"), "cuda") == 0)
        zt_key_fail(r, host, "keeping activations of the GPU in host memory is not supported yet");
}

/* PyTorch's cycles want an optimizer whose momentum they can move. */
static void refuse_momentum(struct zt_reading *r) {
    const struct zt_key_owner *rule = r->table->chosen[ZT_KEY_SCHEDULER];
    const struct zt_key_owner *optimizer = r->table->chosen[ZT_KEY_OPTIMIZER];
    const struct zt_json_node *cycles = zt_keys_node(r, "scheduler.params.cycle_momentum");
    if (rule && rule->moves_momentum && optimizer && optimizer->no_momentum && (!cycles || cycles->truth))
        zt_key_fail(r, cycles ? cycles : zt_keys_node(r, "scheduler.type"),
                    "%s moves a momentum, and %s has none for it: set scheduler.params.cycle_momentum to false",
                    rule->name, optimizer->name);
}

/* Hints the choices that work, and a way around the refused one. */
static void hint_choices(struct zt_reading *r, const struct zt_key_row *row, const struct zt_key_choice *refused) {
    struct zt_text known = { 0 };
    if (!refused->why)
        return;
    zt_key_list_choices(row, &known);
    zt_key_hint(r, "known are: %s; %s", known.at, refused->why);
    zt_text_finish(&known);
}

static void refuse(struct zt_reading *r, const struct zt_json_node *node, const struct zt_key_row *row) {
    const struct zt_key_choice *choice = row->type == ZT_KEY_CHOICE ? zt_key_choose(row, node->text) : NULL;
    char value[64];
    if ((row->status == ZT_KEY_LATER || row->status == ZT_KEY_REJECT) && zt_value_neutral(node, row))
        return;
    if (row->status == ZT_KEY_LATER)
        zt_key_fail(r, node, "%s is not supported yet", row->why);
    else if (row->status == ZT_KEY_REJECT)
        zt_key_fail(r, node, "%s is refused: %s", zt_json_node_show(node, value, sizeof value), row->why);
    else if (choice && choice->status == ZT_KEY_REJECT)
        zt_key_fail(r, node, "\"%s\" is refused: %s", node->text, choice->why);
    else if (choice && choice->status == ZT_KEY_LATER) {
        zt_key_fail(r, node, "\"%s\" is not supported yet", node->text);
        hint_choices(r, row, choice);
    }
}

void zt_keys_refuse(struct zt_reading *r) {
    for (int i = 0; i < r->table->count; i++)
        if (r->node[i] && !r->node[i]->ignored)
            refuse(r, r->node[i], r->table->row[i]);
    refuse_checkpointing(r);
    refuse_momentum(r);
}
