#include "cli/pages/key_rows.h"

#include "config/meanings/meanings.h"
#include "config/table.h"
#include "session/session.h"

#include "base/arena.h"

#include <string.h>

static const char *type_name(const struct zt_key_row *row) {
    static const char *const names[] = {
        [ZT_KEY_BOOL] = "true or false",
        [ZT_KEY_INT] = "integer",
        [ZT_KEY_NUMBER] = "number",
        [ZT_KEY_EACH] = "list with a number per parameter group, or number",
        [ZT_KEY_PAIR] = "list of two numbers",
        [ZT_KEY_NUMBERS] = "list of numbers",
        [ZT_KEY_TEXT] = "text",
        [ZT_KEY_PATH] = "path",
        [ZT_KEY_BYTES] = "bytes, or a text such as \"8GiB\"",
        [ZT_KEY_CHOICE] = "one of",
        [ZT_KEY_INDEX] = "one of",
        [ZT_KEY_TEXTS] = "list of texts",
        [ZT_KEY_HAS] = "list of",
        [ZT_KEY_GROUPS] = "list of lists of names",
        [ZT_KEY_ANY] = "any",
        [ZT_KEY_OBJECT] = "object",
        [ZT_KEY_FREE] = "object of any contents",
        [ZT_KEY_NAMED] = "object of free names",
        [ZT_KEY_OBJECTS] = "list of objects",
    };
    return row->whole ? "list of integers" : names[row->type];
}

/* Texts of the tables, which have no control characters. */
static void print_text(const char *text, FILE *to) {
    fputc('"', to);
    for (; *text; text++)
        fprintf(to, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    fputc('"', to);
}

static void print_member(const char *name, const char *text, FILE *to) {
    if (!text || !text[0])
        return;
    fprintf(to, ", \"%s\": ", name);
    print_text(text, to);
}

/* Returns the list that a choice belongs to. */
static const char *list_of(const struct zt_key_choice *choice) {
    static const char *const lists[] = {
        [ZT_KEY_WORKS] = "choices", [ZT_KEY_ACCEPT] = "choices", [ZT_KEY_LATER] = "later", [ZT_KEY_REJECT] = "refused"
    };
    return choice->means ? "aliases" : lists[choice->status];
}

/* The choices of one list. */
static void print_choices(const struct zt_key_row *row, const char *list, FILE *to) {
    const char *comma = "";
    for (const struct zt_key_choice *c = row->choices; c && c->name; c++) {
        if (strcmp(list_of(c), list) != 0)
            continue;
        if (!comma[0])
            fprintf(to, ", \"%s\": [", list);
        fputs(comma, to);
        print_text(c->name, to);
        comma = ", ";
    }
    fputs(comma[0] ? "]" : "", to);
}

static const struct zt_key_row *row_of(const struct zt_key_table *table, const char *key, size_t length) {
    for (int i = 0; i < table->count; i++)
        if (strncmp(table->row[i]->key, key, length) == 0 && !table->row[i]->key[length])
            return table->row[i];
    return NULL;
}

/* The row of the object that holds `row`, or of the list or the free name. */
static const struct zt_key_row *parent_of(const struct zt_key_table *table, const struct zt_key_row *row) {
    const char *dot = strrchr(row->key, '.');
    size_t length = dot ? (size_t)(dot - row->key) : 0;
    if (length > 2 && dot[-1] == ']')
        length -= 2;
    return dot ? row_of(table, row->key, length) : NULL;
}

static bool is_refused(const struct zt_key_row *row) {
    return row->status == ZT_KEY_LATER || row->status == ZT_KEY_REJECT;
}

/* The row that has status and reason of `row`: an object that holds it and is refused, or one that is without effect
 * where the row says nothing itself, else the row. */
static const struct zt_key_row *status_of(const struct zt_key_table *table, const struct zt_key_row *row) {
    const struct zt_key_row *parent = parent_of(table, row), *of = parent ? status_of(table, parent) : row;
    bool silent = !row->why && !row->size && !row->same && !is_refused(row);
    return is_refused(of) || (silent && of->status == ZT_KEY_ACCEPT) ? of : row;
}

/* `owner`: of the row, NULL where all types have it. */
static void print_status(const struct zt_key_table *table, const struct zt_key_row *row,
                         const struct zt_key_owner *owner, FILE *to) {
    static const char *const names[] = { [ZT_KEY_WORKS] = "works",
                                         [ZT_KEY_ACCEPT] = "no effect",
                                         [ZT_KEY_LATER] = "not yet",
                                         [ZT_KEY_REJECT] = "refused" };
    const struct zt_key_row *of = status_of(table, row);
    bool later = owner && owner->status == ZT_KEY_LATER;
    bool section = row->type == ZT_KEY_OBJECT && (of->status == ZT_KEY_WORKS || of->status == ZT_KEY_ACCEPT);
    if (row->now || row->same)
        print_member("status", row->now ? "old name" : "same key", to);
    else
        print_member("status", later ? "not yet" : section ? "section" : names[of->status], to);
    if (row->now || row->same)
        print_member("why", row->now ? row->now : row->same, to);
    else if (!later && !section)
        print_member("why", of->why, to);
}

/* Returns the rule of "auto" if the row has one, else its value. */
static const char *automatic_of(const struct zt_key_row *row) {
    return row->rule && row->keeps_auto ? row->rule : row->automatic;
}

/* Whether the default of a key is what "auto" means. */
static bool is_automatic(const struct zt_key_row *row) {
    return row->keeps_auto && row->def && (!row->automatic || strcmp(row->automatic, row->def) == 0);
}

static void print_row(const struct zt_key_table *table, int i, FILE *to) {
    const struct zt_key_row *row = table->row[i];
    const struct zt_meaning *meaning = zt_meaning_of(row->key);
    char range[64] = "";
    bool ranged = row->min != 0 || row->max != 0;
    fputs("{\"key\": ", to);
    print_text(row->key, to);
    print_member("type", type_name(row), to);
    print_member("of", table->owner[i] && !row->shared ? table->owner[i]->name : NULL, to);
    print_member("allowed", ranged ? zt_key_range(row, range) : NULL, to);
    print_choices(row, "choices", to);
    print_choices(row, "aliases", to);
    print_choices(row, "later", to);
    print_choices(row, "refused", to);
    print_member("default", is_automatic(row) ? "auto" : row->def, to);
    print_member("automatic", automatic_of(row), to);
    print_status(table, row, table->owner[i], to);
    print_member("meaning", meaning ? meaning->meaning : NULL, to);
    print_member("difference", meaning ? meaning->difference : NULL, to);
    fputs("}\n", to);
}

void zt_key_rows_print(FILE *to) {
    struct zt_arena *arena = zt_arena_create();
    const struct zt_key_table *table = zt_key_table_create(arena, &zt_session_types);
    for (int i = 0; i < table->count; i++)
        print_row(table, i, to);
    zt_arena_destroy(arena);
}
