/* Data format csv: a table of numbers as text. One row is one sample. The file is mapped and its rows are indexed once,
 * when every cell that is read is checked; a sample is parsed when it is read. */
#include "data/column.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/text.h"
#include "base/vec.h"
#include "config/rows.h"
#include "data/csv_text.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_ROOM = 256, MOST_FIELDS = 1 << 20 };

struct params {
    bool header;
    const char *delimiter;
    struct zt_texts columns, target_columns; /* names or numbers; none: by the rules of choose_columns() */
};

/* The place of a field in a sample: element `element` of column `want`; -1: the field is not read. */
struct use {
    int want;
    int64_t element;
};

struct csv {
    char *path;
    struct zt_file_map map;
    char delimiter;
    ZT_VEC(char *) names; /* of the fields; "" without a header */
    struct use *use;      /* by field */
    int64_t width[ZT_COLUMNS];
    int64_t *row; /* offsets of the rows, the place behind the last one at the end */
    int64_t room;
};

static struct zt_csv_cursor cursor_at(const struct csv *c, int64_t offset) {
    const char *text = (const char *)c->map.data;
    return (struct zt_csv_cursor){ text + offset, text + c->map.size, c->delimiter };
}

/* ---- names of fields ---- */

/* Reads the first row: the names of the fields, or their number. */
static bool read_header(struct csv *c, bool header, struct zt_csv_cursor *cursor, struct zt_err *err) {
    struct zt_csv_cursor at = *cursor;
    struct zt_csv_field field = { 0 };
    char name[NAME_ROOM];
    if (!zt_csv_row(&at))
        return zt_fail(err, ZT_EXIT_DATA, "%s: holds no rows", c->path);
    while (!field.last) {
        if (!zt_csv_field(&at, &field))
            return zt_fail(err, ZT_EXIT_DATA, "%s: line 1: quotes that do not close", c->path);
        if (c->names.count == MOST_FIELDS)
            return zt_fail(err, ZT_EXIT_DATA, "%s: line 1: has more than %d columns", c->path, MOST_FIELDS);
        zt_vec_push(&c->names, zt_strdup(header ? zt_csv_text(&field, name, sizeof name) : ""));
    }
    if (header)
        *cursor = at;
    return true;
}

/* The field that `name` means: by its name in the header, else by its number, from the end where it is negative. */
static int find_field(const struct csv *c, const char *name) {
    int64_t number;
    for (int i = 0; i < c->names.count; i++)
        if (c->names.at[i][0] && strcmp(c->names.at[i], name) == 0)
            return i;
    if (!zt_text_number(name, &number))
        return -1;
    number += number < 0 ? c->names.count : 0;
    return number >= 0 && number < c->names.count ? (int)number : -1;
}

static bool missing(const struct csv *c, const char *name, struct zt_err *err) {
    struct zt_text list = { 0 };
    for (int i = 0; i < c->names.count && list.length < 256; i++)
        zt_text_add(&list, "%s%s", i ? ", " : "", c->names.at[i]);
    if (c->names.at[0][0])
        zt_fail(err, ZT_EXIT_DATA, "%s: no column named \"%s\" (it has: %s)", c->path, name, list.at);
    else
        zt_fail(err, ZT_EXIT_DATA, "%s: no column \"%s\" (it has %d, numbered from 0)", c->path, name, c->names.count);
    zt_text_finish(&list);
    return zt_hint(err, "ztrain.data.columns and ztrain.data.target_columns name the columns of inputs and target%s",
                   c->names.at[0][0] ? "; the first line has the names, unless ztrain.data.header is false" : "");
}

/* ---- which fields a column has ---- */

static bool use_field(struct csv *c, int want, const char *name, struct zt_err *err) {
    const int field = find_field(c, name);
    if (field < 0)
        return missing(c, name, err);
    if (c->use[field].want >= 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: column \"%s\" is read twice", c->path, name);
    c->use[field] = (struct use){ want, c->width[want]++ };
    return true;
}

static bool use_listed(struct csv *c, int want, const struct zt_texts *names, struct zt_err *err) {
    bool ok = true;
    for (int i = 0; ok && i < names->count; i++)
        ok = use_field(c, want, names->at[i], err);
    return ok;
}

/* The target: the listed fields, else that of its name, without a header the last one. A weight has its name. */
static bool choose_target(struct csv *c, int i, const struct zt_want *want, const struct params *params,
                          struct zt_err *err) {
    if (want->use == ZT_WANT_TARGET && params->target_columns.count)
        return use_listed(c, i, &params->target_columns, err);
    return use_field(c, i, want->use == ZT_WANT_TARGET && !params->header ? "-1" : want->name, err);
}

/* The inputs after the targets: an only input has the listed fields, else all that are left; several have the fields of
 * their names. */
static bool choose_columns(struct csv *c, const struct zt_want *wants, int count, const struct params *params,
                           struct zt_err *err) {
    int inputs = 0;
    bool ok = true;
    c->use = zt_calloc((size_t)c->names.count, sizeof *c->use);
    for (int f = 0; f < c->names.count; f++)
        c->use[f].want = -1;
    for (int i = 0; ok && i < count; i++) {
        inputs += wants[i].use == ZT_WANT_INPUT;
        ok = wants[i].use == ZT_WANT_INPUT || choose_target(c, i, &wants[i], params, err);
    }
    for (int i = 0; ok && i < count; i++) {
        if (wants[i].use != ZT_WANT_INPUT)
            continue;
        if (inputs > 1)
            ok = use_field(c, i, wants[i].name, err);
        else if (params->columns.count)
            ok = use_listed(c, i, &params->columns, err);
        else
            for (int f = 0; f < c->names.count; f++)
                if (c->use[f].want < 0)
                    c->use[f] = (struct use){ i, c->width[i]++ };
    }
    return ok;
}

/* ---- columns ---- */

/* A sample has the wanted shape where the number of fields fits it, else is a list of numbers, or one number. */
static bool accept_want(struct zt_source *source, int i, const struct zt_want *want, struct zt_err *err) {
    const struct csv *c = source->state;
    struct zt_shape shape = { c->width[i] == 1 ? 0 : 1, { c->width[i] } };
    if (want->shape.rank >= 0 && zt_shape_known(&want->shape) && zt_shape_count(&want->shape) == c->width[i])
        shape = want->shape;
    const bool whole = want->dtype != ZT_UNDEFINED && !zt_dtype_in(want->dtype, ZT_ANY_FLOAT) &&
                       !(want->probabilities && c->width[i] > 1);
    const enum zt_dtype have = want->dtype == ZT_BOOL ? ZT_BOOL : whole ? ZT_INT64 : ZT_DOUBLE;
    return zt_column_accept(&source->column[i], want, have, &shape, c->path, err);
}

static bool bad_cell(const struct csv *c, int field, const struct zt_csv_field *cell, const char *wants,
                     struct zt_err *err) {
    char text[32], name[NAME_ROOM + 2];
    snprintf(name, sizeof name, c->names.at[field][0] ? "\"%s\"" : "%s", c->names.at[field]);
    if (!c->names.at[field][0])
        snprintf(name, sizeof name, "%d", field);
    return zt_fail(err, ZT_EXIT_DATA, "column %s: \"%s\" is not %s", name, zt_csv_text(cell, text, sizeof text), wants);
}

/* Writes a cell into the sample. */
static bool read_cell(const struct zt_source *source, int field, const struct zt_csv_field *cell, void *to,
                      struct zt_err *err) {
    const struct csv *c = source->state;
    const struct use *use = &c->use[field];
    const struct zt_column *column = &source->column[use->want];
    int64_t whole;
    double number;
    if (zt_dtype_in(column->dtype, ZT_ANY_FLOAT)) {
        if (!zt_csv_double(cell, &number))
            return bad_cell(c, field, cell, "a number", err);
        zt_store_double(column->dtype, to, use->element, number);
        return true;
    }
    if (!zt_csv_int(cell, &whole))
        return bad_cell(c, field, cell, "an integer", err);
    zt_store_int(column->dtype, to, use->element, whole);
    return zt_load_int(column->dtype, to, use->element) == whole ||
           bad_cell(c, field, cell, zt_dtype_name(column->dtype), err);
}

/* Walks over a row, and writes the cells of each column that has a place in `to`. */
static bool read_row(const struct zt_source *source, struct zt_csv_cursor *at, void *const to[ZT_COLUMNS],
                     struct zt_err *err) {
    const struct csv *c = source->state;
    struct zt_csv_field field = { 0 };
    int count = 0;
    for (; !field.last && count < c->names.count; count++) {
        if (!zt_csv_field(at, &field))
            return zt_fail(err, ZT_EXIT_DATA, "quotes that do not close");
        const int want = c->use[count].want;
        if (want >= 0 && to[want] && !read_cell(source, count, &field, to[want], err))
            return false;
    }
    return (field.last && count == c->names.count) ||
           zt_fail(err, ZT_EXIT_DATA, "has %s columns than the first row, which has %d", field.last ? "fewer" : "more",
                   c->names.count);
}

/* ---- the index ---- */

static int64_t line_of(const struct csv *c, const char *at) {
    int64_t line = 1;
    for (const char *p = (const char *)c->map.data; p < at; p++)
        line += *p == '\n';
    return line;
}

static void push_row(struct csv *c, int64_t row, const char *at) {
    if (row == c->room) {
        c->room = c->room ? 2 * c->room : 1024;
        c->row = zt_realloc(c->row, (size_t)c->room * sizeof *c->row);
    }
    c->row[row] = at - (const char *)c->map.data;
}

/* Reads and checks every row. */
static bool index_rows(struct zt_source *source, struct zt_csv_cursor at, const struct zt_want *wants,
                       struct zt_err *err) {
    struct csv *c = source->state;
    void *sample[ZT_COLUMNS] = { 0 };
    bool ok = true;
    for (int i = 0; i < source->column_count; i++)
        sample[i] = zt_calloc(source->column[i].sample_bytes + 1, 1);
    while (ok && zt_csv_row(&at)) {
        const char *start = at.at;
        const int first = err->count;
        push_row(c, source->samples, start);
        ok = read_row(source, &at, sample, err) ||
             zt_err_within(err, first, "%s: row %lld (line %lld)", c->path, (long long)source->samples,
                           (long long)line_of(c, start));
        for (int i = 0; ok && i < source->column_count; i++) {
            const struct zt_values values = { source->column[i].dtype, sample[i], 1, source->samples, c->path };
            ok = zt_column_check(&source->column[i], &wants[i], &values, err);
        }
        source->samples++;
    }
    for (int i = 0; i < source->column_count; i++)
        free(sample[i]);
    return ok && (source->samples > 0 || zt_fail(err, ZT_EXIT_DATA, "%s: holds no samples", c->path));
}

/* ---- members of the format ---- */

static void csv_close(struct zt_source *source) {
    struct csv *c = source->state;
    zt_file_unmap(&c->map);
    for (int i = 0; i < c->names.count; i++)
        free(c->names.at[i]);
    zt_vec_finish(&c->names);
    free(c->path);
    free(c->use);
    free(c->row);
    free(c);
}

static bool csv_intact(const struct zt_source *source, struct zt_err *err) {
    const struct csv *c = source->state;
    return zt_mapped_intact(c->map.mapped, err);
}

static bool open_table(struct zt_source *source, const struct params *params, const struct zt_want *wants, int count,
                       struct zt_err *err) {
    struct csv *c = source->state;
    if (!zt_file_map(&c->map, c->path, ZT_EXIT_DATA, err))
        return false;
    zt_mapped_checked_by_reader(c->map.mapped);
    const bool mark = c->map.size >= 3 && memcmp(c->map.data, "\xef\xbb\xbf", 3) == 0; /* byte order mark of UTF-8 */
    struct zt_csv_cursor at = cursor_at(c, mark ? 3 : 0);
    bool ok = read_header(c, params->header, &at, err) && choose_columns(c, wants, count, params, err);
    for (int i = 0; ok && i < count; i++)
        ok = accept_want(source, i, &wants[i], err);
    ok = ok && index_rows(source, at, wants, err);
    return csv_intact(source, err) && ok;
}

static bool csv_open(struct zt_source *source, const struct zt_config *config, const char *path,
                     const struct zt_want *wants, int want_count, struct zt_err *err) {
    static const struct params defaults = { .header = true, .delimiter = "," };
    const struct params *params = config->data.params ? config->data.params : &defaults;
    if (!zt_column_no_normalize(config, "csv", err))
        return false;
    struct csv *c = source->state = zt_calloc(1, sizeof *c);
    c->path = zt_strdup(path);
    c->delimiter = params->delimiter[0];
    bool ok = open_table(source, params, wants, want_count, err);
    if (!ok)
        csv_close(source);
    return ok;
}

static bool csv_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    const struct csv *c = source->state;
    const int first = err->count;
    void *places[ZT_COLUMNS] = { 0 };
    struct zt_csv_cursor at = cursor_at(c, c->row[index]);
    places[column] = to;
    return read_row(source, &at, places, err) || zt_err_within(err, first, "%s: row %lld", c->path, (long long)index);
}

static bool csv_fits(const void *at, struct zt_key_problem *problem) {
    const struct params *params = at;
    const char *d = params->delimiter;
    if (strlen(d) == 1 && !strchr("\"\r\n0123456789+-.eE", d[0]))
        return true;
    problem->key = "ztrain.data.delimiter";
    snprintf(problem->text, sizeof problem->text,
             "wants one character that stands in no number, and is neither a quote nor a line end");
    return false;
}

#define OWN(field) PLACE(ZT_IN_FORMAT, struct params, field)
static const struct zt_key_row keys[] = {
    { .key = "ztrain.data.header", BOOL, DEF("true"), OWN(header) },
    { .key = "ztrain.data.delimiter", TEXT, DEF(","), OWN(delimiter) },
    { .key = "ztrain.data.columns", TEXTS, OWN(columns) },
    { .key = "ztrain.data.target_columns", TEXTS, OWN(target_columns) },
    { 0 },
};

const struct zt_format zt_format_csv = {
    .type = { .name = "csv", .keys = keys, .bytes = sizeof(struct params), .fits = csv_fits },
    .open = csv_open,
    .read = csv_read,
    .intact = csv_intact,
    .close = csv_close,
};
