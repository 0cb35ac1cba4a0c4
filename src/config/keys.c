/* Holds the tree against the key table. */
#include "config/keys.h"
#include "config/nearest_key.h"

#include "base/text.h"
#include "config/json/node_text.h"
#include "config/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The row of a key for the chosen types; -1 where there is none. `*exists`: for these or other types. */
static int find_row(const struct zt_reading *r, const char *key, bool *exists) {
    int i = zt_map_get(&r->by_key, key, -1);
    *exists = i >= 0;
    while (i >= 0 && !zt_key_exists(r->table, i))
        i = r->next[i];
    return i;
}

static int row_of(const struct zt_reading *r, const char *key) {
    bool exists;
    return find_row(r, key, &exists);
}

bool zt_keys_exist(const struct zt_reading *r, const char *key) {
    return row_of(r, key) >= 0;
}

struct zt_json_node *zt_keys_node(const struct zt_reading *r, const char *key) {
    int i = row_of(r, key);
    return i < 0 ? NULL : r->node[i];
}

bool zt_keys_truth(const struct zt_reading *r, const char *key) {
    int i = row_of(r, key);
    if (i < 0)
        return false;
    return r->node[i] ? r->node[i]->truth : r->table->row[i]->def && strcmp(r->table->row[i]->def, "true") == 0;
}

double zt_keys_number(const struct zt_reading *r, const char *key) {
    int i = row_of(r, key);
    if (i >= 0 && r->node[i])
        return r->node[i]->kind == ZT_JSON_NODE_LIST ? r->node[i]->first->number : r->node[i]->number;
    return i >= 0 && r->table->row[i]->def ? strtod(r->table->row[i]->def, NULL) : 0;
}

const char *zt_keys_text(const struct zt_reading *r, const char *key) {
    int i = row_of(r, key);
    if (i >= 0 && r->node[i] && r->node[i]->text)
        return r->node[i]->text;
    return i >= 0 && r->table->row[i]->def ? r->table->row[i]->def : "";
}

/* Whether an object has the params of an optimizer or a schedule that this program does not have. Which keys they are
 * is unknown then, and the type is a problem already. */
static bool is_of_unknown_type(const struct zt_reading *r, enum zt_key_kind kind) {
    const struct zt_json_node *type = kind < ZT_KEY_FORMAT ? zt_json_node_find(r->root, zt_key_kind_key(kind)) : NULL;
    return type && type->kind == ZT_JSON_NODE_TEXT && !r->table->chosen[kind];
}

/* Reports an unknown key of the object `parent`. The nearest key is only searched for problems that are printed. */
static void report_unknown(struct zt_reading *r, const struct zt_json_node *node, const char *parent, bool exists) {
    enum zt_key_kind kind = zt_key_kind_of(parent);
    const struct zt_key_owner *of = kind < ZT_KEY_KINDS ? r->table->chosen[kind] : NULL;
    if (is_of_unknown_type(r, kind))
        return;
    const bool printed = r->problem_count < ZT_CONFIG_PROBLEMS;
    const char *nearest = printed ? zt_key_nearest(r->table, parent, node->key) : NULL;
    const char *home = printed && !nearest && !exists ? zt_key_home(r->table, node->key) : NULL;
    size_t n = strlen(parent);
    if (nearest && n && strncmp(nearest, parent, n) == 0 && nearest[n] == '.')
        nearest += n + 1;
    const char *ask = nearest ? ", did you mean " : "", *mark = nearest ? "?" : "";
    if (exists)
        zt_key_fail(r, node, "unknown key: %s has no such parameter%s%s%s", of ? of->name : "this type", ask,
                    nearest ? nearest : "", mark);
    else if (home)
        zt_key_fail(r, node, "unknown key here, its place is %s", home);
    else
        zt_key_fail(r, node, "unknown key%s%s%s", ask, nearest ? nearest : "", mark);
}

/* ---- axes of autotuning ---- */

enum { COMBINATIONS = 64 };

/* Whether a list in the place of this row's value may be an axis: a key of DeepSpeed with one value that works. As in
 * DeepSpeed the optimizer has none. */
static bool may_be_axis(const struct zt_key_row *row) {
    static const char *const without[] = { "ztrain.", "autotuning.", "optimizer.", "scheduler." };
    const enum zt_key_type type = row->type;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (zt_text_begins(row->key, without[i]))
            return false;
    return row->status == ZT_KEY_WORKS && row->size &&
           (type == ZT_KEY_BOOL || type == ZT_KEY_INT || type == ZT_KEY_NUMBER || type == ZT_KEY_CHOICE ||
            type == ZT_KEY_INDEX);
}

static bool tunes(const struct zt_reading *r) {
    const struct zt_json_node *enabled = zt_json_node_find(r->root, "autotuning.enabled");
    return enabled && zt_value_truth(enabled) == 1;
}

/* Checks each value, and lists it as JSON. */
static bool list_values(struct zt_reading *r, const struct zt_json_node *list, const struct zt_key_row *row,
                        struct zt_texts *to) {
    bool ok = true;
    for (struct zt_json_node *item = list->first; item; item = item->next) {
        struct zt_text text = { 0 };
        if (!zt_value_check(r, item, row)) {
            ok = false;
            continue;
        }
        if (item->automatic)
            ok = zt_key_fail(r, item, "\"auto\" is no value to try");
        zt_json_node_add_text(item, &text);
        zt_texts_add(r->arena, to, "%s", text.at);
        zt_text_finish(&text);
    }
    return ok;
}

static void become_first(struct zt_json_node *list) {
    const struct zt_json_node *first = list->first;
    list->kind = first->kind;
    list->truth = first->truth;
    list->number = first->number;
    list->whole = first->whole;
    list->integer = first->integer;
    list->text = first->text;
    list->first = NULL;
}

/* With autotuning.enabled a list becomes its first value, and its values an axis of config->tuning; else, and for other
 * values, nothing happens. False with an error. */
static bool take_axis(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    struct zt_tuning_config *tuning = &r->config->tuning;
    struct zt_tuning_axis axis = { .key = row->key };
    int combinations = 1;
    if (node->kind != ZT_JSON_NODE_LIST || !node->first || !may_be_axis(row) || !tunes(r))
        return true;
    if (!list_values(r, node, row, &axis.values))
        return false;
    for (int i = 0; i < tuning->axis_count; i++)
        combinations *= tuning->axes[i].values.count;
    if (tuning->axis_count == ZT_TUNING_AXES || combinations * axis.values.count > COMBINATIONS)
        return zt_key_fail(r, node, "autotuning tries at most %d lists of values with %d combinations", ZT_TUNING_AXES,
                           COMBINATIONS);
    tuning->axes[tuning->axis_count++] = axis;
    zt_texts_add(r->arena, &r->config->notes, "%s: autotuning tries %d values; the config as it is has the first, %s",
                 row->key, axis.values.count, axis.values.at[0]);
    become_first(node);
    return true;
}

/* ---- values ---- */

static void read_members(struct zt_reading *r, struct zt_json_node *object, const char *key, enum zt_key_type type,
                         bool many);

/* Checks one value and its members. `many`: below a list or free names, where a row has several values. */
static void read_value(struct zt_reading *r, struct zt_json_node *node, int index, bool many) {
    const struct zt_key_row *row = r->table->row[index];
    char key[160];
    if (node->kind == ZT_JSON_NODE_NULL || (!many && !take_axis(r, node, row)))
        return;
    if (!zt_value_check(r, node, row)) {
        if (node->kind == ZT_JSON_NODE_LIST && !many && may_be_axis(row))
            zt_key_hint(r, "autotuning.enabled tries the values of a list in turn");
        return;
    }
    if (!many) {
        r->node[index] = node;
        zt_value_store(r, node, row);
    }
    if (row->type == ZT_KEY_OBJECT || row->type == ZT_KEY_NAMED)
        read_members(r, node, row->key, row->type, many);
    snprintf(key, sizeof key, "%s[]", row->key);
    for (struct zt_json_node *item = node->first; item && row->type == ZT_KEY_OBJECTS; item = item->next)
        read_members(r, item, key, row->type, true);
}

static void read_members(struct zt_reading *r, struct zt_json_node *object, const char *key, enum zt_key_type type,
                         bool many) {
    many |= type == ZT_KEY_NAMED;
    for (struct zt_json_node *child = object->first; child; child = child->next) {
        char path[320]; /* longer than any row's key, so that a cut path matches none */
        bool exists;
        snprintf(path, sizeof path, "%s%s%s", key, key[0] ? "." : "", type == ZT_KEY_NAMED ? "*" : child->key);
        int index = find_row(r, path, &exists);
        if (index >= 0)
            read_value(r, child, index, many);
        else
            report_unknown(r, child, key, exists);
    }
}

/* The types decide which keys exist, so the keys that name them are read first. */
static void choose_type(struct zt_reading *r, enum zt_key_kind kind) {
    const char *key = zt_key_kind_key(kind);
    const struct zt_json_node *type = zt_json_node_find(r->root, key);
    const struct zt_key_choice *choice = NULL;
    if (type && type->kind == ZT_JSON_NODE_TEXT)
        choice = zt_key_choose(r->table->row[row_of(r, key)], type->text);
    if (choice)
        zt_key_table_choose(r->table, kind, choice->means ? choice->means : choice->name);
}

/* The struct that the chosen type's own keys fill. */
static void *create_params(struct zt_reading *r, enum zt_key_kind kind) {
    const struct zt_key_owner *owner = r->table->chosen[kind];
    return owner ? zt_arena_alloc(r->arena, owner->bytes) : NULL;
}

/* Joins two keys with one meaning. Either may be given; two values in one file are an error; the command line wins. */
static void join(struct zt_reading *r, int index) {
    struct zt_json_node *a = r->node[index];
    int other = row_of(r, r->table->row[index]->same);
    struct zt_json_node *b = r->node[other];
    char value[64], origin[ZT_JSON_ORIGIN];
    r->node[index] = NULL;
    if (a->automatic)
        return;
    if (b && !b->automatic && zt_json_node_layer(a) == zt_json_node_layer(b) &&
        (a->number != b->number || a->truth != b->truth || a->integer != b->integer)) {
        zt_json_node_show(b, value, sizeof value);
        zt_key_fail(r, a, "differs from %s (%s, %s); they mean the same", r->table->row[other]->key, value,
                    zt_json_node_origin(b, origin));
        return;
    }
    if (b && zt_json_node_layer(b) > zt_json_node_layer(a))
        return;
    r->node[other] = a;
    zt_value_store(r, a, r->table->row[other]);
}

/* Checks the length of a list with a value per parameter group. The groups are the optimizer's own, which has the
 * parameters that no other group matches, then those of ztrain.param_groups. */
static void check_group_list(struct zt_reading *r, const struct zt_json_node *list) {
    const int groups = 1 + r->config->group_count;
    int found = 0;
    for (const struct zt_json_node *item = list->first; item; item = item->next)
        found++;
    if (found != 1 && found != groups)
        zt_key_fail(r, list,
                    "expected %d value%s, one per parameter group: the optimizer's and those of ztrain.param_groups "
                    "(%d); found %d",
                    groups, zt_plural(groups), r->config->group_count, found);
}

static void check_group_lists(struct zt_reading *r) {
    const struct zt_json_node *groups = zt_json_node_find(r->root, "ztrain.param_groups");
    const bool wrong = groups && groups->kind != ZT_JSON_NODE_NULL && !zt_keys_node(r, "ztrain.param_groups");
    const struct zt_json_node *by_group = NULL;
    for (int i = 0; i < r->table->count && !wrong; i++) {
        const struct zt_key_row *row = r->table->row[i];
        const struct zt_json_node *list = r->node[i];
        if (row->type != ZT_KEY_EACH || !list || list->kind != ZT_JSON_NODE_LIST)
            continue;
        check_group_list(r, list);
        by_group = !row->bounds && list->first && list->first->next ? list : by_group;
    }
    for (int i = 0; by_group && i < r->config->group_count; i++)
        if (!isnan(r->config->groups[i].lr))
            zt_texts_add(r->arena, &r->config->notes,
                         "ztrain.param_groups[%d].lr has no effect: scheduler.params.%s gives each group its own value",
                         i, by_group->key);
}

void zt_keys_read(struct zt_reading *r) {
    const struct zt_key_table *t = r->table;
    for (enum zt_key_kind kind = 0; kind < ZT_KEY_KINDS; kind++)
        choose_type(r, kind);
    r->config->optimizer.params = create_params(r, ZT_KEY_OPTIMIZER);
    r->config->scheduler.params = create_params(r, ZT_KEY_SCHEDULER);
    r->config->data.params = create_params(r, ZT_KEY_FORMAT);
    for (int i = 0; i < t->count; i++)
        if (zt_key_has_value(t, i))
            zt_value_default(r, t->row[i]);
    read_members(r, r->root, "", ZT_KEY_OBJECT, false);
    for (int i = 0; i < r->table->count; i++)
        if (r->table->row[i]->same && r->node[i])
            join(r, i);
    check_group_lists(r);
}

bool zt_keys_checkpointing(const struct zt_reading *r) {
    static const char *const flags[] = {
        "partition_activations",           "cpu_checkpointing", "contiguous_memory_optimization",
        "synchronize_checkpoint_boundary", "profile",           "number_checkpoints"
    };
    char key[96];
    const struct zt_json_node *enabled = zt_keys_node(r, "activation_checkpointing.enabled");
    if (enabled)
        return enabled->truth;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        snprintf(key, sizeof key, "activation_checkpointing.%s", flags[i]);
        const struct zt_json_node *flag = zt_keys_node(r, key);
        if (flag && (flag->truth || (flag->kind == ZT_JSON_NODE_NUMBER && flag->number > 0)))
            return true;
    }
    return false;
}

/* The reason of the row, or of the object that holds it. */
static const char *reason(const struct zt_reading *r, const struct zt_key_row *row) {
    char parent[160];
    const char *dot = strrchr(row->key, '.');
    if (row->why || !dot)
        return row->why ? row->why : "no effect here";
    snprintf(parent, sizeof parent, "%.*s", (int)(dot - row->key), row->key);
    int i = row_of(r, parent);
    return i >= 0 ? reason(r, r->table->row[i]) : "no effect here";
}

void zt_keys_note(struct zt_reading *r) {
    struct zt_config *config = r->config;
    for (int i = 0; i < r->table->count; i++) {
        const struct zt_key_row *row = r->table->row[i];
        const struct zt_json_node *node = r->node[i];
        char value[96], path[256];
        if (!node)
            continue;
        const bool unlisted = node->automatic && !node->rule;
        zt_json_node_show(node, value, sizeof value);
        zt_json_node_path(node, path, sizeof path);
        if (unlisted && row->keeps_auto)
            zt_texts_add(r->arena, &config->resolved_auto, "%s = %s (auto: known with the model)", path,
                         row->rule ? row->rule : "default");
        else if (unlisted)
            zt_texts_add(r->arena, &config->resolved_auto, "%s = %s (auto: %s)", path,
                         node->kind == ZT_JSON_NODE_NULL ? "none" : value, row->rule ? row->rule : "default");
        if (row->status == ZT_KEY_ACCEPT && !node->ignored && node->kind != ZT_JSON_NODE_OBJECT)
            zt_texts_add(r->arena, &config->without_effect, "%s = %s (%s)", path, value, reason(r, row));
    }
}
