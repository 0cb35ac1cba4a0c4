#include "config_table.h"
#include "config_rows.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct zt_key_rows *const tables[] = { &zt_key_rows_train, &zt_key_rows_zero, &zt_key_rows_tools,
                                                    &zt_key_rows_ztrain };
enum { TABLES = sizeof tables / sizeof tables[0] };

size_t zt_key_count(void) {
    size_t count = 0;
    for (size_t i = 0; i < TABLES; i++)
        count += tables[i]->count;
    return count;
}

const struct zt_key_row *zt_key_at(size_t index) {
    size_t i = 0;
    for (; i < TABLES && index >= tables[i]->count; i++)
        index -= tables[i]->count;
    return &tables[i]->row[index];
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

/* A name farther off than this is no misspelling of it. */
static int farthest(const char *name) {
    int half = (int)strnlen(name, 64) / 2;
    return half < 2 ? 2 : half;
}

const char *zt_key_nearest_choice(const struct zt_key_row *row, const char *name) {
    const char *nearest = NULL;
    int least = farthest(name) + 1;
    for (const struct zt_key_choice *c = row->choices; c->name; c++) {
        int d = zt_edit_distance(c->name, name);
        if (c->status != ZT_KEY_REJECT && d < least) {
            least = d;
            nearest = c->name;
        }
    }
    return nearest;
}

const char *zt_key_nearest(const char *parent, const char *name, unsigned types) {
    const char *nearest = NULL, *elsewhere = NULL;
    size_t prefix = strlen(parent);
    int least = farthest(name) + 1;
    for (size_t i = 0, n = zt_key_count(); i < n; i++) {
        const struct zt_key_row *row = zt_key_at(i);
        const char *dot = strrchr(row->key, '.'), *leaf = dot ? dot + 1 : row->key;
        if (row->now || (row->of && !(row->of & types)))
            continue;
        size_t folder = dot ? (size_t)(dot - row->key) : 0;
        if (folder != prefix || strncmp(row->key, parent, folder) != 0) {
            if (!elsewhere && strcasecmp(leaf, name) == 0)
                elsewhere = row->key;
            continue;
        }
        int d = zt_edit_distance(leaf, name);
        if (d < least) {
            least = d;
            nearest = row->key;
        }
    }
    return elsewhere && least > 2 ? elsewhere : nearest;
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
