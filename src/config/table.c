#include "config/table.h"
#include "config/rows.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct zt_key_rows *const tables[] = { &zt_key_rows_train,   &zt_key_rows_zero,  &zt_key_rows_tools,
                                                    &zt_key_rows_removed, &zt_key_rows_later, &zt_key_rows_ztrain };
enum { TABLES = sizeof tables / sizeof tables[0] };

/* ---- the table of one configuration ---- */

static const struct {
    const char *type;  /* the key whose value is a type */
    const char *first; /* the key that the keys of the types follow */
    const char *parent;
    const struct zt_key_owner *const *refused;
} kinds[ZT_KEY_KINDS] = {
    [ZT_KEY_OPTIMIZER] = { "optimizer.type", "optimizer.params", "optimizer.params", zt_refused_optimizers },
    [ZT_KEY_SCHEDULER] = { "scheduler.type", "scheduler.params", "scheduler.params", zt_refused_schedulers },
    [ZT_KEY_FORMAT] = { "ztrain.data.format", "ztrain.data.drop_last", "ztrain.data", zt_refused_formats },
};

/* Type `i` of a kind: those of the catalog, then those that are refused; NULL past the end. */
static const struct zt_key_owner *owner_at(const struct zt_key_catalog *catalog, enum zt_key_kind kind, int i) {
    const struct zt_key_owner *const *list = catalog->owners[kind];
    for (; *list && i > 0; list++)
        i--;
    return *list ? *list : kinds[kind].refused[i];
}

static int type_count(const struct zt_key_catalog *catalog, enum zt_key_kind kind) {
    int count = 0;
    while (owner_at(catalog, kind, count))
        count++;
    return count;
}

static int alias_count(const struct zt_key_owner *owner) {
    int count = 0;
    while (owner->aliases && owner->aliases[count])
        count++;
    return count;
}

/* The row of a key whose value is a type, with the types and their other names as its choices. */
static const struct zt_key_row *with_types(struct zt_arena *arena, const struct zt_key_catalog *catalog,
                                           enum zt_key_kind kind, const struct zt_key_row *row) {
    int types = type_count(catalog, kind), room = types, count = types;
    for (int i = 0; i < types; i++)
        room += alias_count(owner_at(catalog, kind, i));
    struct zt_key_choice *choices = ZT_NEW_N(arena, struct zt_key_choice, room + 1);
    struct zt_key_row *copy = zt_arena_copy(arena, row, sizeof *row);
    for (int i = 0; i < types; i++) {
        const struct zt_key_owner *owner = owner_at(catalog, kind, i);
        choices[i] = (struct zt_key_choice){ .name = owner->name, .status = owner->status, .why = owner->why };
        for (int k = 0; k < alias_count(owner); k++) {
            choices[count] = choices[i];
            choices[count].name = owner->aliases[k];
            choices[count++].means = owner->name;
        }
    }
    copy->choices = choices;
    return copy;
}

/* Puts a row at the end. While the rows are only counted, the table has no room for them. */
static void add(struct zt_key_table *t, const struct zt_key_row *row, const struct zt_key_owner *owner,
                enum zt_key_kind kind) {
    if (t->row) {
        t->row[t->count] = row;
        t->owner[t->count] = owner;
        t->kind[t->count] = kind;
    }
    t->count++;
}

static void add_types(struct zt_key_table *t, enum zt_key_kind kind) {
    const struct zt_key_owner *owner;
    for (int i = 0; (owner = owner_at(t->catalog, kind, i)); i++)
        for (const struct zt_key_row *row = owner->keys; row && row->key; row++)
            add(t, row, owner, kind);
}

static void add_row(struct zt_key_table *t, const struct zt_key_row *row, struct zt_arena *arena) {
    const struct zt_key_row *added = row;
    for (enum zt_key_kind kind = 0; t->row && kind < ZT_KEY_KINDS; kind++)
        if (strcmp(row->key, kinds[kind].type) == 0)
            added = with_types(arena, t->catalog, kind, row);
    add(t, added, NULL, ZT_KEY_KINDS);
    for (enum zt_key_kind kind = 0; kind < ZT_KEY_KINDS; kind++)
        if (strcmp(row->key, kinds[kind].first) == 0)
            add_types(t, kind);
}

static void add_all(struct zt_key_table *t, struct zt_arena *arena) {
    t->count = 0;
    for (size_t k = 0; k < TABLES; k++)
        for (size_t i = 0; i < tables[k]->count; i++)
            add_row(t, &tables[k]->row[i], arena);
}

struct zt_key_table *zt_key_table_create(struct zt_arena *arena, const struct zt_key_catalog *catalog) {
    struct zt_key_table *t = ZT_NEW(arena, struct zt_key_table);
    t->catalog = catalog;
    add_all(t, arena);
    t->row = ZT_NEW_N(arena, const struct zt_key_row *, t->count);
    t->owner = ZT_NEW_N(arena, const struct zt_key_owner *, t->count);
    t->kind = ZT_NEW_N(arena, enum zt_key_kind, t->count);
    add_all(t, arena);
    return t;
}

void zt_key_table_choose(struct zt_key_table *table, enum zt_key_kind kind, const char *name) {
    const struct zt_key_owner *owner;
    for (int i = 0; (owner = owner_at(table->catalog, kind, i)); i++)
        if (strcmp(owner->name, name) == 0 && owner->status != ZT_KEY_REJECT)
            table->chosen[kind] = owner;
}

const char *zt_key_kind_key(enum zt_key_kind kind) {
    return kinds[kind].type;
}

enum zt_key_kind zt_key_kind_of(const char *parent) {
    enum zt_key_kind kind = 0;
    while (kind < ZT_KEY_KINDS && strcmp(kinds[kind].parent, parent) != 0)
        kind++;
    return kind;
}

bool zt_key_exists(const struct zt_key_table *table, int i) {
    const struct zt_key_owner *owner = table->owner[i];
    const struct zt_key_owner *chosen = owner ? table->chosen[table->kind[i]] : NULL;
    return !owner || !chosen || owner == chosen || table->row[i]->shared;
}

bool zt_key_has_value(const struct zt_key_table *table, int i) {
    const struct zt_key_owner *owner = table->owner[i];
    return !owner || owner == table->chosen[table->kind[i]] || table->row[i]->shared;
}

void *zt_key_stored(const struct zt_config *config, const struct zt_key_row *row) {
    void *const params[] = { [ZT_IN_CONFIG] = (void *)config,
                             [ZT_IN_OPTIMIZER] = config->optimizer.params,
                             [ZT_IN_SCHEDULER] = config->scheduler.params,
                             [ZT_IN_FORMAT] = config->data.params };
    return params[row->in] ? (char *)params[row->in] + row->at : NULL;
}

bool zt_key_is_default(const struct zt_key_table *table, const char *key, const char *value) {
    for (int i = 0; i < table->count; i++) {
        const struct zt_key_row *row = table->row[i];
        if (strcmp(row->key, key) == 0 && row->def && strcmp(row->def, value) == 0)
            return true;
    }
    return false;
}

/* ---- choices and names ---- */

const struct zt_key_row *zt_key_row_called(const char *key) {
    for (size_t k = 0; k < TABLES; k++)
        for (size_t i = 0; i < tables[k]->count; i++)
            if (strcmp(tables[k]->row[i].key, key) == 0)
                return &tables[k]->row[i];
    return NULL;
}

const struct zt_key_choice *zt_key_choose(const struct zt_key_row *row, const char *name) {
    for (const struct zt_key_choice *c = row->choices; c->name; c++) {
        size_t n = strlen(c->name);
        if (n && c->name[n - 1] == '*' ? strncmp(c->name, name, n - 1) == 0
                                       : (row->any_case ? strcasecmp(c->name, name) : strcmp(c->name, name)) == 0)
            return c;
    }
    return NULL;
}

void zt_key_list_choices(const struct zt_key_row *row, struct zt_text *to) {
    const char *comma = "";
    for (const struct zt_key_choice *c = row->choices; c->name; c++)
        if (!c->means && (c->status == ZT_KEY_WORKS || c->status == ZT_KEY_ACCEPT)) {
            zt_text_add(to, "%s%s", comma, c->name[0] ? c->name : "\"\"");
            comma = ", ";
        }
}

const char *zt_key_range(const struct zt_key_row *row, char *to) {
    bool low = row->min > -HUGE_VAL, high = row->max < HUGE_VAL;
    if (low && high && !row->above && !row->below)
        snprintf(to, 64, "%.15g..%.15g", row->min, row->max);
    else if (low && high)
        snprintf(to, 64, "in %c%.15g, %.15g%c", row->above ? '(' : '[', row->min, row->max, row->below ? ')' : ']');
    else if (low)
        snprintf(to, 64, "%s %.15g", row->above ? ">" : ">=", row->min);
    else
        to[0] = 0;
    return to;
}
