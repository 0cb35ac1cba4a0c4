/* Values by type: a function that checks and normalises, and one that stores. */
#include "config/value.h"
#include "config/json/json.h"
#include "config/json/quoted.h"
#include "config/nearest_key.h"

#include "base/file.h"
#include "base/text.h"
#include "config/json/node_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *kind_name(enum zt_json_node_kind kind) {
    static const char *const names[] = { "null", "a boolean", "a number", "a text", "a list", "an object" };
    return names[kind];
}

static bool wrong_type(struct zt_reading *r, const struct zt_json_node *node, const char *wants) {
    char value[64];
    zt_key_fail(r, node, "wants %s, found %s: %s", wants, kind_name(node->kind),
                zt_json_node_show(node, value, sizeof value));
    if (node->not_json)
        zt_key_hint(r, "read as a text, because it is not JSON: %s", node->not_json);
    return false;
}

/* Whether DeepSpeed reads the key with pydantic, in its lax mode; a key whose value is "auto" is dropped there. */
static bool is_of_pydantic(const struct zt_key_row *row) {
    static const char *const sections[] = { "zero_optimization.",
                                            "fp16.",
                                            "bf16.",
                                            "tensorboard.",
                                            "csv_monitor.",
                                            "wandb.",
                                            "comet.",
                                            "comms_logger.",
                                            "timers.throughput.",
                                            "tensor_parallel.",
                                            "compile.",
                                            "hybrid_engine." };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (zt_text_begins(row->key, sections[i]))
            return true;
    return false;
}

static bool is_of_ztrain(const struct zt_key_row *row) {
    return zt_text_begins(row->key, "ztrain.");
}

/* Lists a conversion: `found` is the value as the file has it. */
static void note_conversion(struct zt_reading *r, const struct zt_json_node *node, const char *found, const char *as) {
    char path[256];
    zt_texts_add(r->arena, &r->config->notes, "%s: %s is read as %s", zt_json_node_path(node, path, sizeof path), found,
                 as);
}

/* Where DeepSpeed does not read a section with pydantic, a value stays as it is: any number but 0 is true then, and any
 * text. */
static bool check_bool(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    const bool keeps = !is_of_pydantic(row) && !is_of_ztrain(row);
    char shown[96];
    int truth = zt_value_truth(node);
    zt_json_node_show(node, shown, 64);
    if (truth < 0 && node->kind == ZT_JSON_NODE_NUMBER && keeps) {
        truth = true;
        note_conversion(r, node, shown, "true");
    }
    if (truth < 0)
        return wrong_type(r, node, "true or false");
    if (node->kind == ZT_JSON_NODE_TEXT && !truth && node->source && keeps) {
        snprintf(shown, sizeof shown, "the text \"%.64s\"", node->text);
        note_conversion(r, node, shown, "false; DeepSpeed takes it for true");
    }
    node->kind = ZT_JSON_NODE_BOOL;
    node->truth = truth;
    return true;
}

static void become_number(struct zt_json_node *node, bool one) {
    node->kind = ZT_JSON_NODE_NUMBER;
    node->truth = false;
    node->number = node->integer = one;
    node->whole = true;
    node->text = one ? "1" : "0";
}

/* Makes the node a number: a number in quotes, and for DeepSpeed's keys a boolean, which is 1 or 0 in Python. `whole`:
 * an integer, for which pydantic takes digits alone. False: it is none. */
static bool coerce_number(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row, bool whole) {
    char found[96];
    if (node->kind == ZT_JSON_NODE_NUMBER)
        return true;
    if (node->kind == ZT_JSON_NODE_BOOL && !is_of_ztrain(row)) {
        note_conversion(r, node, node->truth ? "true" : "false", node->truth ? "1" : "0");
        become_number(node, node->truth);
        return true;
    }
    if (node->kind == ZT_JSON_NODE_TEXT)
        snprintf(found, sizeof found, "the text \"%.64s\"", node->text);
    if (!zt_json_read_quoted(node, r->arena, whole && is_of_pydantic(row)))
        return false;
    note_conversion(r, node, found, "a number");
    return true;
}

static bool in_range(struct zt_reading *r, const struct zt_json_node *node, const struct zt_key_row *row) {
    char range[64], value[64];
    bool low = row->above ? node->number > row->min : node->number >= row->min;
    bool high = row->below ? node->number < row->max : node->number <= row->max;
    return (low && high) || zt_key_fail(r, node, "%s, allowed %s", zt_json_node_show(node, value, sizeof value),
                                        zt_key_range(row, range));
}

static bool check_number(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    return coerce_number(r, node, row, false) ? in_range(r, node, row) : wrong_type(r, node, "a number");
}

static bool check_int(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    char value[64];
    if (!coerce_number(r, node, row, true)) {
        struct zt_json_node number = *node;
        wrong_type(r, node, "an integer");
        if (is_of_pydantic(row) && zt_json_read_quoted(&number, r->arena, false))
            zt_key_hint(r, "write it without quotes: DeepSpeed takes only digits in quotes for an integer");
        return false;
    }
    if (!node->whole && fabs(node->number) < 9.2e18)
        return zt_key_fail(r, node, "wants an integer, found %s", zt_json_node_show(node, value, sizeof value));
    if (!node->whole)
        return zt_key_fail(r, node, "%s does not fit a 64-bit integer", zt_json_node_show(node, value, sizeof value));
    return in_range(r, node, row);
}

/* Whether the node is a number beyond a double, which zt_json_read() has reported. */
static bool is_reported(const struct zt_json_node *node) {
    return node->kind == ZT_JSON_NODE_NUMBER && !isfinite(node->number);
}

static bool check_list(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row, const char *wants,
                       bool (*check)(struct zt_reading *, struct zt_json_node *, const struct zt_key_row *)) {
    bool ok = true;
    if (node->kind != ZT_JSON_NODE_LIST)
        return wrong_type(r, node, wants);
    for (struct zt_json_node *item = node->first; item; item = item->next)
        ok &= !is_reported(item) && check(r, item, row);
    return ok;
}

static bool check_numbers(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    return row->whole ? check_list(r, node, row, "a list of integers", check_int)
                      : check_list(r, node, row, "a list of numbers", check_number);
}

static bool check_each(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    if (coerce_number(r, node, row, false))
        return in_range(r, node, row);
    if (!check_list(r, node, row, "a number or a list of numbers", check_number))
        return false;
    return node->first || zt_key_fail(r, node, "an empty list, wants a number or a list of numbers");
}

static bool check_pair(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    char value[64];
    if (!check_list(r, node, row, "a list of two numbers", check_number))
        return false;
    bool two = node->first && node->first->next && !node->first->next->next;
    return two || zt_key_fail(r, node, "wants two numbers, found %s", zt_json_node_show(node, value, sizeof value));
}

static bool check_text(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    (void)row;
    return node->kind == ZT_JSON_NODE_TEXT || wrong_type(r, node, "a text");
}

static bool check_filled(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    if (!check_text(r, node, row))
        return false;
    return node->text[0] || zt_key_fail(r, node, "an empty text");
}

static bool check_texts(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    return check_list(r, node, row, "a list of texts", check_filled);
}

static bool check_group(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    if (!check_texts(r, node, row))
        return false;
    return (node->first && node->first->next) || zt_key_fail(r, node, "wants at least two names");
}

static bool check_groups(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    return check_list(r, node, row, "a list of lists of texts", check_group);
}

static bool check_choice(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    if (!check_text(r, node, row))
        return false;
    const struct zt_key_choice *choice = zt_key_choose(row, node->text);
    if (choice) {
        size_t n = strlen(choice->name);
        if (!n || choice->name[n - 1] != '*')
            node->text = choice->means ? choice->means : choice->name;
        return true;
    }
    struct zt_text all = { 0 };
    const char *nearest = zt_key_nearest_choice(row, node->text);
    if (row->otherwise && !nearest) {
        char path[256];
        zt_texts_add(r->arena, &r->config->notes, "%s: \"%s\" is unknown and read as \"%s\", as DeepSpeed does",
                     zt_json_node_path(node, path, sizeof path), node->text, row->otherwise);
        node->text = row->otherwise;
        return true;
    }
    zt_key_list_choices(row, &all);
    zt_key_fail(r, node, "unknown \"%s\"%s%s%s", node->text, nearest ? ", did you mean \"" : "", nearest ? nearest : "",
                nearest ? "\"?" : "");
    zt_key_hint(r, "known are: %s", all.at);
    zt_text_finish(&all);
    return false;
}

static bool check_choices(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    return check_list(r, node, row, "a list of texts", check_choice);
}

/* The bytes of "8GiB", "500 MB", "1e9" or a number; 0: it is not a size, or more than 2^62. */
static int64_t bytes_of(const struct zt_json_node *node) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        { "", 1 },      { "B", 1 },      { "KB", 1e3 },        { "MB", 1e6 },           { "GB", 1e9 },
        { "TB", 1e12 }, { "KiB", 1024 }, { "MiB", 1048576.0 }, { "GiB", 1073741824.0 }, { "TiB", 1099511627776.0 }
    };
    double number = node->number, unit = 1;
    if (node->kind == ZT_JSON_NODE_TEXT) {
        char *end;
        number = strtod(node->text, &end);
        while (*end == ' ')
            end++;
        unit = 0;
        for (size_t i = 0; i < sizeof units / sizeof units[0] && end != node->text; i++)
            if (strcasecmp(end, units[i].name) == 0)
                unit = units[i].bytes;
    }
    return number * unit >= 1 && number * unit <= 4.6e18 ? (int64_t)(number * unit) : 0;
}

static bool check_bytes(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    char value[64];
    (void)row;
    if (node->kind != ZT_JSON_NODE_TEXT && node->kind != ZT_JSON_NODE_NUMBER)
        return wrong_type(r, node, "a size such as \"8GiB\"");
    return bytes_of(node) > 0 ||
           zt_key_fail(r, node, "%s is not a size: wants a positive number and a unit, such as \"8GiB\"",
                       zt_json_node_show(node, value, sizeof value));
}

static bool check_any(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    (void)r, (void)node, (void)row;
    return true;
}

static bool check_object(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    char key[96];
    if (node->kind == ZT_JSON_NODE_OBJECT)
        return true;
    wrong_type(r, node, "an object");
    snprintf(key, sizeof key, "%s.enabled", row->key);
    if (zt_map_get(&r->by_key, key, -1) >= 0)
        zt_key_hint(r, "\"%s\" switches it on and off", key);
    return false;
}

static bool check_objects(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    return check_list(r, node, row, "a list of objects", check_object);
}

static void store_bool(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    (void)r, (void)row;
    *(bool *)to = node->truth;
}

static void store_int(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    (void)r;
    if (row->size == sizeof(int))
        *(int *)to = (int)node->integer;
    else
        *(int64_t *)to = node->integer;
}

static void store_bytes(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    (void)r, (void)row;
    *(int64_t *)to = bytes_of(node);
}

static void store_number(struct zt_reading *r, void *to, const struct zt_json_node *node,
                         const struct zt_key_row *row) {
    (void)r, (void)row;
    *(double *)to = node->kind == ZT_JSON_NODE_LIST ? node->first->number : node->number;
}

static void store_pair(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    (void)r, (void)row;
    ((double *)to)[0] = node->first->number;
    ((double *)to)[1] = node->first->next->number;
}

static int length(const struct zt_json_node *list) {
    int count = 0;
    for (const struct zt_json_node *item = list->first; item; item = item->next)
        count++;
    return count;
}

static void store_numbers(struct zt_reading *r, void *to, const struct zt_json_node *node,
                          const struct zt_key_row *row) {
    struct zt_numbers *numbers = to;
    (void)row;
    numbers->count = 0;
    numbers->at = ZT_NEW_N(r->arena, double, length(node));
    for (const struct zt_json_node *item = node->first; item; item = item->next)
        numbers->at[numbers->count++] = item->number;
}

/* A number is a list of one. */
static void store_each(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    struct zt_numbers *numbers = to;
    if (node->kind == ZT_JSON_NODE_LIST) {
        store_numbers(r, to, node, row);
        return;
    }
    numbers->count = 1;
    numbers->at = ZT_NEW(r->arena, double);
    numbers->at[0] = node->number;
}

static void store_text(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    (void)r, (void)row;
    *(const char **)to = node->text;
}

static void store_free(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    struct zt_text text = { 0 };
    (void)row;
    zt_json_node_add_text(node, &text);
    *(const char **)to = zt_arena_strdup(r->arena, text.at);
    zt_text_finish(&text);
}

/* A path of the file is relative to the file's folder, one of the command line to the current folder. */
static void store_path(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    (void)row;
    char *path = zt_path_join(node->source ? node->source->folder : "", node->text);
    *(const char **)to = zt_arena_strdup(r->arena, path);
    free(path);
}

static void store_index(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    int index = (int)(zt_key_choose(row, node->text) - row->choices);
    (void)r;
    if (row->size == sizeof(bool))
        *(bool *)to = index == 1;
    else
        *(int *)to = index;
}

static void store_texts(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    struct zt_texts *texts = to;
    (void)row;
    texts->count = 0;
    texts->at = ZT_NEW_N(r->arena, const char *, length(node));
    for (const struct zt_json_node *item = node->first; item; item = item->next)
        texts->at[texts->count++] = item->text;
}

static void store_groups(struct zt_reading *r, void *to, const struct zt_json_node *node,
                         const struct zt_key_row *row) {
    struct zt_text_lists *lists = to;
    lists->count = 0;
    lists->at = ZT_NEW_N(r->arena, struct zt_texts, length(node));
    for (const struct zt_json_node *item = node->first; item; item = item->next)
        store_texts(r, &lists->at[lists->count++], item, row);
}

static void store_has(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    (void)r;
    for (const struct zt_json_node *item = node->first; item; item = item->next)
        *(bool *)to |= strcmp(item->text, row->choices[0].name) == 0;
}

/* param_groups, the only list of objects. */
static void store_objects(struct zt_reading *r, void *to, const struct zt_json_node *node,
                          const struct zt_key_row *row) {
    struct zt_config *config = r->config;
    (void)to, (void)row;
    config->groups = ZT_NEW_N(r->arena, struct zt_group_config, length(node));
    for (const struct zt_json_node *item = node->first; item; item = item->next) {
        const struct zt_json_node *match = zt_json_node_child(item, "match"), *lr = zt_json_node_child(item, "lr");
        const struct zt_json_node *decay = zt_json_node_child(item, "weight_decay"),
                                  *use = zt_json_node_child(item, "use_muon");
        config->groups[config->group_count++] = (struct zt_group_config){
            .match = match ? match->text : NULL,
            .lr = lr && lr->kind == ZT_JSON_NODE_NUMBER && !lr->automatic ? lr->number : NAN,
            .weight_decay = decay && decay->kind == ZT_JSON_NODE_NUMBER && !decay->automatic ? decay->number : NAN,
            .use_muon = use && use->kind == ZT_JSON_NODE_BOOL ? use->truth : -1,
        };
    }
}

/* padding_idx, the only object of free names that is stored. */
static void store_named(struct zt_reading *r, void *to, const struct zt_json_node *node, const struct zt_key_row *row) {
    struct zt_config *config = r->config;
    (void)to, (void)row;
    config->paddings = ZT_NEW_N(r->arena, struct zt_padding_config, length(node));
    for (const struct zt_json_node *item = node->first; item; item = item->next)
        if (item->kind == ZT_JSON_NODE_NUMBER) /* the row refuses other values */
            config->paddings[config->padding_count++] = (struct zt_padding_config){ item->key, item->integer };
}

static const struct {
    bool (*check)(struct zt_reading *, struct zt_json_node *, const struct zt_key_row *);
    void (*store)(struct zt_reading *, void *, const struct zt_json_node *, const struct zt_key_row *);
    bool automatic; /* "auto" is legal in every section */
} types[] = {
    [ZT_KEY_BOOL] = { check_bool, store_bool, true },
    [ZT_KEY_INT] = { check_int, store_int, true },
    [ZT_KEY_NUMBER] = { check_number, store_number, true },
    [ZT_KEY_EACH] = { check_each, store_each, true },
    [ZT_KEY_PAIR] = { check_pair, store_pair, true },
    [ZT_KEY_NUMBERS] = { check_numbers, store_numbers, false },
    [ZT_KEY_TEXT] = { check_text, store_text, false },
    [ZT_KEY_PATH] = { check_filled, store_path, false },
    [ZT_KEY_BYTES] = { check_bytes, store_bytes, false },
    [ZT_KEY_CHOICE] = { check_choice, store_text, false },
    [ZT_KEY_INDEX] = { check_choice, store_index, false },
    [ZT_KEY_TEXTS] = { check_texts, store_texts, false },
    [ZT_KEY_HAS] = { check_choices, store_has, false },
    [ZT_KEY_GROUPS] = { check_groups, store_groups, false },
    [ZT_KEY_ANY] = { check_any, NULL, false },
    [ZT_KEY_FREE] = { check_object, store_free, false },
    [ZT_KEY_OBJECT] = { check_object, NULL, false },
    [ZT_KEY_NAMED] = { check_object, store_named, false },
    [ZT_KEY_OBJECTS] = { check_objects, store_objects, false },
};

static void number_from(struct zt_json_node *node, const char *text) {
    node->kind = ZT_JSON_NODE_NUMBER;
    node->number = strtod(text, NULL);
    node->whole = node->number == trunc(node->number);
    node->integer = node->whole ? (int64_t)node->number : 0;
}

/* Gives `node` the value that `text` (a default of the table, trusted) means for the row. */
static void from_text(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row, const char *text) {
    struct zt_json_node *item;
    switch (row->type) {
    case ZT_KEY_BOOL:
        node->kind = ZT_JSON_NODE_BOOL;
        node->truth = strcmp(text, "true") == 0;
        break;
    case ZT_KEY_INT:
    case ZT_KEY_NUMBER:
    case ZT_KEY_EACH:
        number_from(node, text);
        break;
    case ZT_KEY_PAIR:
        node->kind = ZT_JSON_NODE_LIST;
        node->first = NULL;
        for (int i = 0; i < 2; i++) {
            item = zt_json_node_beside(r->arena, ZT_JSON_NODE_NUMBER, NULL, node);
            number_from(item, i ? strchr(text, ' ') : text);
            zt_json_node_append(node, item);
        }
        break;
    case ZT_KEY_TEXTS:
        node->kind = ZT_JSON_NODE_LIST;
        item = zt_json_node_beside(r->arena, ZT_JSON_NODE_TEXT, NULL, node);
        item->text = text;
        zt_json_node_append(node, item);
        break;
    default:
        node->kind = ZT_JSON_NODE_TEXT;
        node->text = text;
    }
}

int zt_value_truth(const struct zt_json_node *node) {
    static const char *const words[2][6] = { { "false", "f", "no", "n", "off", "0" },
                                             { "true", "t", "yes", "y", "on", "1" } };
    for (int i = 0; i < 12 && node->kind == ZT_JSON_NODE_TEXT; i++)
        if (strcasecmp(node->text, words[i / 6][i % 6]) == 0)
            return i / 6;
    if (node->kind == ZT_JSON_NODE_NUMBER && (node->number == 0 || node->number == 1))
        return node->number == 1;
    return node->kind == ZT_JSON_NODE_BOOL ? node->truth : -1;
}

bool zt_value_check(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row) {
    if (row->false_is_off && zt_value_truth(node) == 0) {
        node->kind = ZT_JSON_NODE_OBJECT;
        return true;
    }
    const bool choice = row->choices && zt_key_choose(row, "auto");
    const bool legal = !choice && (types[row->type].automatic || is_of_pydantic(row));
    if (legal && node->kind == ZT_JSON_NODE_TEXT && strcmp(node->text, "auto") == 0) {
        const char *value = row->automatic ? row->automatic : row->def;
        node->automatic = true;
        node->kind = ZT_JSON_NODE_NULL;
        if (value)
            from_text(r, node, row, value);
        return true;
    }
    return !is_reported(node) && types[row->type].check(r, node, row);
}

void zt_value_store(struct zt_reading *r, const struct zt_json_node *node, const struct zt_key_row *row) {
    void *to = row->size ? zt_key_stored(r->config, row) : NULL;
    if (to && node->kind != ZT_JSON_NODE_NULL)
        types[row->type].store(r, to, node, row);
}

void zt_value_set(struct zt_reading *r, const struct zt_key_row *row, const char *text) {
    struct zt_json_node node = { 0 };
    from_text(r, &node, row, text);
    zt_value_store(r, &node, row);
}

void zt_value_default(struct zt_reading *r, const struct zt_key_row *row) {
    if (row->size && row->def)
        zt_value_set(r, row, row->def);
}

bool zt_value_is(const struct zt_json_node *node, const char *text) {
    if (node->kind == ZT_JSON_NODE_BOOL)
        return node->truth == (strcmp(text, "true") == 0);
    if (node->kind == ZT_JSON_NODE_NUMBER)
        return node->number == strtod(text, NULL);
    return node->kind == ZT_JSON_NODE_TEXT && strcasecmp(node->text, text) == 0;
}

/* Whether an object has nothing but empty objects in it. */
static bool is_bare(const struct zt_json_node *node) {
    bool bare = node->kind == ZT_JSON_NODE_OBJECT;
    for (const struct zt_json_node *child = node->first; bare && child; child = child->next)
        bare = child->kind == ZT_JSON_NODE_NULL || is_bare(child);
    return bare;
}

/* Whether one of the switches `enabled` in an object is on; *has_switch: there is one. */
static bool switched_on(const struct zt_json_node *node, bool *has_switch) {
    bool on = false;
    for (const struct zt_json_node *child = node->first; child; child = child->next) {
        if (child->key && strcmp(child->key, "enabled") == 0) {
            *has_switch = true;
            on |= child->kind != ZT_JSON_NODE_NULL && zt_value_truth(child) != 0;
        }
        on |= switched_on(child, has_switch);
    }
    return on;
}

bool zt_value_neutral(const struct zt_json_node *node, const struct zt_key_row *row) {
    bool has_switch = false;
    const char *neutral[] = { row->def, row->off };
    switch (node->kind) {
    case ZT_JSON_NODE_NULL:
        return true;
    case ZT_JSON_NODE_LIST:
        return !node->first;
    case ZT_JSON_NODE_OBJECT:
        return !switched_on(node, &has_switch) && (has_switch || is_bare(node));
    default:
        break;
    }
    for (int i = 0; i < 2; i++)
        if (neutral[i] && zt_value_is(node, neutral[i]))
            return true;
    return node->kind == ZT_JSON_NODE_BOOL && !row->def && !node->truth;
}
