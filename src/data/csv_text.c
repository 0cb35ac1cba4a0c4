#include "data/csv_text.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_NUMBER = 64 };

static bool is_line_end(const struct zt_csv_cursor *c) {
    return c->at == c->end || *c->at == '\n' || *c->at == '\r';
}

bool zt_csv_row(struct zt_csv_cursor *c) {
    while (c->at < c->end && (*c->at == '\n' || *c->at == '\r'))
        c->at++;
    return c->at < c->end;
}

static bool is_blank(const struct zt_csv_cursor *c, char byte) {
    return byte != c->delimiter && (byte == ' ' || byte == '\t');
}

static void skip_blanks(struct zt_csv_cursor *c) {
    while (c->at < c->end && is_blank(c, *c->at))
        c->at++;
}

/* Moves behind the delimiter or the line end that closes a field. */
static bool close_field(struct zt_csv_cursor *c, struct zt_csv_field *field) {
    if (c->at < c->end && *c->at == c->delimiter) {
        c->at++;
        return true;
    }
    field->last = true;
    if (c->at < c->end && *c->at == '\r')
        c->at++;
    if (c->at < c->end && *c->at == '\n')
        c->at++;
    return true;
}

static bool quoted_field(struct zt_csv_cursor *c, struct zt_csv_field *field) {
    field->quoted = true;
    field->at = ++c->at;
    for (; c->at < c->end; c->at++) {
        if (*c->at != '"')
            continue;
        if (c->at + 1 < c->end && c->at[1] == '"') {
            c->at++;
            continue;
        }
        field->length = (size_t)(c->at++ - field->at);
        skip_blanks(c);
        return (is_line_end(c) || *c->at == c->delimiter) && close_field(c, field);
    }
    field->length = (size_t)(c->end - field->at);
    return false;
}

bool zt_csv_field(struct zt_csv_cursor *c, struct zt_csv_field *field) {
    *field = (struct zt_csv_field){ 0 };
    skip_blanks(c);
    if (c->at < c->end && *c->at == '"')
        return quoted_field(c, field);
    field->at = c->at;
    while (!is_line_end(c) && *c->at != c->delimiter)
        c->at++;
    field->length = (size_t)(c->at - field->at);
    while (field->length && is_blank(c, field->at[field->length - 1]))
        field->length--;
    return close_field(c, field);
}

char *zt_csv_text(const struct zt_csv_field *field, char *to, size_t room) {
    size_t n = 0;
    for (size_t i = 0; i < field->length && n + 1 < room; i++) {
        to[n++] = field->at[i];
        i += field->quoted && field->at[i] == '"';
    }
    to[n] = 0;
    return to;
}

bool zt_csv_double(const struct zt_csv_field *field, double *number) {
    char text[LONGEST_NUMBER], *end;
    if (field->length == 0 || field->length >= sizeof text)
        return false;
    zt_csv_text(field, text, sizeof text);
    const char *word = text + (text[0] == '-' || text[0] == '+');
    const bool named =
        strcasecmp(word, "nan") == 0 || strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0;
    if (!named && strspn(text, "0123456789+-.eE") != strlen(text)) /* strtod() takes hexadecimal numbers too */
        return false;
    *number = strtod(text, &end);
    return end > text && !*end;
}

bool zt_csv_int(const struct zt_csv_field *field, int64_t *number) {
    char text[LONGEST_NUMBER];
    double whole;
    if (field->length < sizeof text && zt_text_number(zt_csv_text(field, text, sizeof text), number))
        return true;
    if (!zt_csv_double(field, &whole) || whole != trunc(whole) || fabs(whole) > 9007199254740992.0) /* 2^53 */
        return false;
    *number = (int64_t)whole;
    return true;
}
