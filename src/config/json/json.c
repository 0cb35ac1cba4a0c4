#include "config/json/json.h"

#include "base/map.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scanner {
    const char *file;
    const unsigned char *text;
    size_t size, at;
    int line, column; /* of `at` */
    int last_line;    /* where the last value or key ended */
    int depth, values;
    bool broken; /* a value that is none was skipped */
    int problems;
    const struct zt_config_source *source;
    const char *option;
    struct zt_arena *arena;
    struct zt_err *err;
};

/* The place where something begins, for messages. */
struct place {
    int line, column;
};

/* The first ZT_JSON_PROBLEMS are all kept, so that a hostile file gives no endless list. */
static bool complain_at(struct scanner *s, struct place p, const char *what) {
    s->err->keeps_all = s->problems++ < ZT_JSON_PROBLEMS;
    return zt_fail(s->err, ZT_EXIT_CONFIG, "%s:%d:%d: %s", s->file, p.line, p.column, what);
}

static struct place here(const struct scanner *s) {
    return (struct place){ s->line, s->column };
}

static bool complain(struct scanner *s, const char *what) {
    return complain_at(s, here(s), what);
}

static int peek(const struct scanner *s, size_t ahead) {
    return s->at + ahead < s->size ? s->text[s->at + ahead] : -1;
}

static void step(struct scanner *s) {
    unsigned char c = s->text[s->at++];
    if (c == '\n') {
        s->line++;
        s->column = 1;
    } else if ((c & 0xc0) != 0x80) {
        s->column++;
    }
}

/* The text at the current place, for "found ...". */
static const char *found(const struct scanner *s, char *to) {
    int c = peek(s, 0);
    if (c < 0)
        return "the end of the file";
    if (c > 0x20 && c < 0x7f) {
        memcpy(to, "'?'", 4);
        to[1] = (char)c;
        return to;
    }
    return c < 0x20 ? "a control character" : "a letter outside any text";
}

static bool expected(struct scanner *s, const char *what) {
    char here_is[8];
    return zt_fail(s->err, ZT_EXIT_CONFIG, "%s:%d:%d: expected %s after the token that ends in line %d, found %s",
                   s->file, s->line, s->column, what, s->last_line, found(s, here_is));
}

static bool check_characters(struct scanner *s) {
    while (s->at < s->size) {
        uint32_t character;
        int n = zt_utf8_read(s->text + s->at, s->size - s->at, &character);
        if (n == 0 || character == 0)
            return complain(s, n ? "a NUL byte, which no JSON text has" : "a byte that is not UTF-8");
        while (n--)
            step(s);
    }
    s->at = 0;
    s->line = s->column = 1;
    return true;
}

static bool skip_comment(struct scanner *s) {
    struct place start = here(s);
    if (peek(s, 0) == '/' && peek(s, 1) == '*') {
        step(s);
        step(s);
        while (peek(s, 0) >= 0 && !(peek(s, 0) == '*' && peek(s, 1) == '/'))
            step(s);
        if (peek(s, 0) < 0)
            return complain_at(s, start, "a comment that begins here never ends");
        step(s);
        step(s);
        return true;
    }
    while (peek(s, 0) >= 0 && peek(s, 0) != '\n')
        step(s);
    return true;
}

static bool skip_space(struct scanner *s) {
    for (;;) {
        int c = peek(s, 0), d = peek(s, 1);
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            step(s);
        else if (c == '#' || (c == '/' && (d == '/' || d == '*'))) {
            if (!skip_comment(s))
                return false;
        } else
            return true;
    }
}

/* The four hexadecimal digits after \u, or -1. */
static int hex4(struct scanner *s) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(s, 0);
        if (c < 0 || !isxdigit(c))
            return -1;
        value = value * 16 + (isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
        step(s);
    }
    return value;
}

/* Appends the character as UTF-8 at *to. */
static void put_character(char **to, int code) {
    static const struct {
        int below, first, rest;
    } form[] = { { 0x80, 0, 0 }, { 0x800, 0xc0, 1 }, { 0x10000, 0xe0, 2 }, { 0x110000, 0xf0, 3 } };
    size_t i = 0;
    while (code >= form[i].below)
        i++;
    *(*to)++ = (char)(form[i].first | code >> 6 * form[i].rest);
    for (int left = form[i].rest - 1; left >= 0; left--)
        *(*to)++ = (char)(0x80 | (code >> 6 * left & 0x3f));
}

/* Whether the escape means a byte (json.h). */
static bool is_byte(int code) {
    return code >= ZT_JSON_BYTE_ESCAPE + 0x80 && code <= ZT_JSON_BYTE_ESCAPE + 0xff;
}

/* The character of an escape of four digits, or of a pair of them (a surrogate pair), or the escape of a byte; 0 or -1:
 * none. */
static int read_code(struct scanner *s) {
    int code = hex4(s);
    if (code >= 0xd800 && code <= 0xdbff) {
        bool second = peek(s, 0) == '\\' && peek(s, 1) == 'u';
        if (second) {
            step(s);
            step(s);
        }
        int low = second ? hex4(s) : -1;
        return low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)) : -1;
    }
    return code >= 0xdc00 && code <= 0xdfff && !is_byte(code) ? -1 : code;
}

static bool read_escape(struct scanner *s, char **to) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    struct place start = here(s);
    step(s);
    int c = peek(s, 0);
    const char *letter = c > 0 ? strchr(letters, c) : NULL;
    if (letter) {
        *(*to)++ = meanings[letter - letters];
        step(s);
        return true;
    }
    if (c != 'u')
        return complain_at(s, start, "an unknown escape: \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX exist");
    step(s);
    int code = read_code(s);
    if (code == 0)
        return complain_at(s, start, "\\u0000 cannot stand in a text");
    if (code < 0)
        return complain_at(s, start, "an escape \\u that is no character");
    if (is_byte(code))
        *(*to)++ = (char)(code - ZT_JSON_BYTE_ESCAPE);
    else
        put_character(to, code);
    return true;
}

/* Bytes up to the next quote, with escapes as written: the text is at most as long. */
static size_t text_room(const struct scanner *s) {
    size_t n = 1;
    while (peek(s, n) >= 0 && peek(s, n) != '"' && peek(s, n) != '\n')
        n += peek(s, n) == '\\' ? 2 : 1;
    return n;
}

/* Reads a text and returns it without its quotes; NULL with an error. */
static const char *read_text(struct scanner *s) {
    struct place start = here(s);
    char *text = zt_arena_alloc(s->arena, text_room(s)), *to = text;
    step(s);
    for (;;) {
        int c = peek(s, 0);
        if (c < 0 || c == '\n') {
            complain_at(s, start, "a text that begins here is not closed in its line");
            return NULL;
        }
        if (c < 0x20) {
            complain(s, "a control character inside a text");
            return NULL;
        }
        if (c == '"')
            break;
        if (c == '\\') {
            if (!read_escape(s, &to))
                return NULL;
        } else {
            *to++ = (char)c;
            step(s);
        }
    }
    step(s);
    s->last_line = s->line;
    return text;
}

static size_t digits_at(const char *text, size_t room) {
    size_t n = 0;
    while (n < room && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* The length of the number at the start of `text`: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?; 0: there is
 * none. */
static size_t number_length(const char *text, size_t room) {
    const size_t sign = room && text[0] == '-', whole = digits_at(text + sign, room - sign);
    size_t n = sign + whole, more;
    if (!whole || (whole > 1 && text[sign] == '0'))
        return 0;
    if (n < room && text[n] == '.') {
        more = digits_at(text + n + 1, room - n - 1);
        if (!more)
            return 0;
        n += 1 + more;
    }
    if (n < room && (text[n] == 'e' || text[n] == 'E')) {
        n += 1 + (n + 1 < room && (text[n + 1] == '+' || text[n + 1] == '-'));
        more = digits_at(text + n, room - n);
        n = more ? n + more : 0;
    }
    return n;
}

/* Reads a number without fraction or exponent exactly, since a double has 53 bits alone. */
static void take_number(struct zt_json_node *node) {
    bool plain = !strpbrk(node->text, ".eE");
    node->number = strtod(node->text, NULL);
    errno = 0;
    long long exact = plain ? strtoll(node->text, NULL, 10) : 0;
    node->whole = plain ? errno == 0 : fabs(node->number) < 9.2e18 && node->number == trunc(node->number);
    node->integer = plain ? exact : node->whole ? (int64_t)node->number : 0;
}

static bool read_number(struct scanner *s, struct zt_json_node *node) {
    const struct place start = here(s);
    const char *text = (const char *)s->text + s->at;
    const size_t length = number_length(text, s->size - s->at);
    for (size_t i = 0; i < length; i++)
        step(s);
    if (!length || isalnum(peek(s, 0)) || peek(s, 0) == '.')
        return complain_at(s, start, "this is not a JSON number");
    s->last_line = s->line;
    if (length > ZT_JSON_NUMBER)
        return complain_at(s, start, "a number of more than 60 characters");
    node->kind = ZT_JSON_NODE_NUMBER;
    node->text = zt_arena_strndup(s->arena, text, length);
    take_number(node);
    return true;
}

bool zt_json_unquote(struct zt_json_node *node) {
    const size_t length = node->kind == ZT_JSON_NODE_TEXT ? strlen(node->text) : 0;
    if (!length || length > ZT_JSON_NUMBER || number_length(node->text, length) != length ||
        !isfinite(strtod(node->text, NULL)))
        return false;
    node->kind = ZT_JSON_NODE_NUMBER;
    take_number(node);
    return true;
}

/* Hints what to write for a word, such as those of Python. Returns false. */
static bool hint_word(struct scanner *s) {
    static const char *const python[][2] = { { "True", "true" }, { "False", "false" }, { "None", "null" } };
    for (size_t i = 0; i < sizeof python / sizeof *python; i++) {
        const size_t n = strlen(python[i][0]);
        if (s->size - s->at >= n && memcmp(s->text + s->at, python[i][0], n) == 0 && !isalnum(peek(s, n)))
            return zt_hint(s->err, "write %s", python[i][1]);
    }
    return zt_hint(s->err, "put double quotes around it");
}

/* The length of a text without quotes, which ends before a delimiter, a comment or the end of the line, without the
 * spaces behind it. The braces of "${NAME}" belong to it. */
static size_t word_length(const struct scanner *s) {
    size_t n = 0, length = 0;
    int open = 0;
    for (int c; (c = peek(s, n)) >= 0; n++) {
        if (strchr(open ? "\n" : ",]}#\n", c) || (c == '/' && strchr("/*", peek(s, n + 1))))
            break;
        open += c == '{' ? 1 : c == '}' ? -1 : 0;
        length = isspace(c) ? length : n + 1;
    }
    return length;
}

/* Whether a text without quotes may begin so: a word, a path, a placeholder ("$NAME", "<name>"). */
static bool begins_word(int c) {
    return c > 0 && (isalpha(c) || strchr("_/$<~@", c));
}

/* Reports a text without quotes. Inside a file it is skipped, so that the next ones are reported too: a template has
 * many. */
static bool skip_word(struct scanner *s, struct zt_json_node *node) {
    enum { SHOWN = 60 };
    const size_t length = word_length(s);
    char what[SHOWN + 80];
    snprintf(what, sizeof what, "a text without quotes: %.*s; true, false and null are the only words",
             (int)(length < SHOWN ? length : SHOWN), (const char *)s->text + s->at);
    complain(s, what);
    hint_word(s);
    for (size_t i = 0; i < length; i++)
        step(s);
    s->last_line = s->line;
    s->broken = true;
    node->kind = ZT_JSON_NODE_NULL;
    return s->depth > 0 && !s->option;
}

static bool read_word(struct scanner *s, struct zt_json_node *node) {
    static const char *const words[] = { "true", "false", "null" };
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        int after = peek(s, n);
        if (s->size - s->at < n || memcmp(s->text + s->at, words[i], n) != 0 || isalnum(after) || after == '_')
            continue;
        while (n--)
            step(s);
        s->last_line = s->line;
        node->kind = i < 2 ? ZT_JSON_NODE_BOOL : ZT_JSON_NODE_NULL;
        node->truth = i == 0;
        return true;
    }
    int c = peek(s, 0);
    if (c == '\'')
        return complain(s, "texts take double quotes");
    if (c == ',' || c == ']' || c == '}' || c == ':' || c < 0)
        return expected(s, "a value");
    return begins_word(c) ? skip_word(s, node) : expected(s, "a value");
}

/* Reads a key and the colon after it; NULL with an error. */
static const char *read_key(struct scanner *s) {
    struct place start = here(s);
    int c = peek(s, 0);
    if (c != '"') {
        if (c == '\'' || (c >= 0 && (isalpha(c) || c == '_')))
            complain(s, "a key without double quotes");
        else
            expected(s, "a key in double quotes");
        return NULL;
    }
    size_t begin = s->at;
    const char *key = read_text(s);
    if (!key)
        return NULL;
    if (s->at - begin > ZT_JSON_KEY + 2) {
        complain_at(s, start, "a key of more than 128 bytes");
        return NULL;
    }
    if (!skip_space(s))
        return NULL;
    if (peek(s, 0) != ':') {
        expected(s, "':'");
        return NULL;
    }
    step(s);
    return skip_space(s) ? key : NULL;
}

/* ---- the tree ---- */

static struct zt_json_node *read_value(struct scanner *s, struct place at, const char *key);

/* Reads an object, or a list, which has no keys. A comma before the end is allowed. */
static bool read_members(struct scanner *s, struct zt_json_node *parent) {
    const bool keys = parent->kind == ZT_JSON_NODE_OBJECT;
    const int end = keys ? '}' : ']';
    struct zt_json_node **last = &parent->first;
    if (++s->depth > ZT_JSON_DEPTH)
        return complain(s, "nested deeper than 64 levels");
    step(s);
    if (!skip_space(s))
        return false;
    while (peek(s, 0) != end) {
        struct place at = here(s);
        const char *key = keys ? read_key(s) : NULL;
        struct zt_json_node *node = keys && !key ? NULL : read_value(s, at, key);
        if (!node || !skip_space(s))
            return false;
        node->parent = parent;
        *last = node;
        last = &node->next;
        if (peek(s, 0) == end)
            break;
        if (peek(s, 0) != ',')
            return expected(s, keys ? "',' or '}'" : "',' or ']'");
        s->last_line = s->line;
        step(s);
        if (!skip_space(s))
            return false;
    }
    step(s);
    s->last_line = s->line;
    s->depth--;
    return true;
}

static bool fill(struct scanner *s, struct zt_json_node *node) {
    int c = peek(s, 0);
    if (c == '{' || c == '[') {
        node->kind = c == '{' ? ZT_JSON_NODE_OBJECT : ZT_JSON_NODE_LIST;
        return read_members(s, node);
    }
    if (c == '"') {
        node->kind = ZT_JSON_NODE_TEXT;
        return (node->text = read_text(s)) != NULL;
    }
    return c == '-' || (c >= '0' && c <= '9') ? read_number(s, node) : read_word(s, node);
}

static struct zt_json_node *read_value(struct scanner *s, struct place at, const char *key) {
    if (s->values++ == ZT_JSON_VALUES) {
        complain(s, "more than 100000 values");
        return NULL;
    }
    struct zt_json_node *node = zt_json_node_create(s->arena, ZT_JSON_NODE_NULL, key, s->option);
    node->source = s->source;
    node->line = at.line;
    node->column = at.column;
    return fill(s, node) ? node : NULL;
}

static struct zt_json_node *read_file(struct scanner *s) {
    if (s->size > ZT_JSON_BYTES) {
        zt_fail(s->err, ZT_EXIT_CONFIG, "%s: %zu bytes, at most 16 MiB", s->file, s->size);
        return NULL;
    }
    if (!check_characters(s))
        return NULL;
    if (s->size >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
        s->at = 3;
    if (!skip_space(s))
        return NULL;
    if (s->at == s->size) {
        complain(s, "an empty file: expected '{'");
        return NULL;
    }
    struct zt_json_node *root = read_value(s, here(s), NULL);
    if (!root || !skip_space(s))
        return NULL;
    return s->at == s->size || expected(s, "the end of the file") ? root : NULL;
}

/* ---- errors in valid JSON ---- */

bool zt_json_is_comment(const char *key) {
    return key[0] == '_' || strncmp(key, "//", 2) == 0;
}

static void check_number(const struct scanner *s, const struct zt_json_node *node) {
    if (node->kind == ZT_JSON_NODE_NUMBER && !isfinite(node->number))
        zt_fail(s->err, ZT_EXIT_CONFIG, "%s:%d:%d: the number %s is too large", s->file, node->line, node->column,
                node->text);
}

/* Reports numbers beyond a double, and duplicate keys, of which the first stays. Sets the index of every node. */
static void check_members(const struct scanner *s, struct zt_json_node *parent) {
    struct zt_map seen = { 0 }; /* key -> line */
    int kept = 0;
    check_number(s, parent);
    for (struct zt_json_node **at = &parent->first; *at;) {
        struct zt_json_node *node = *at;
        node->index = kept;
        check_members(s, node);
        bool unique = node->key && !zt_json_is_comment(node->key);
        int first = unique ? zt_map_get(&seen, node->key, 0) : 0;
        if (first) {
            char path[256];
            zt_fail(s->err, ZT_EXIT_CONFIG, "%s:%d:%d: %s: given twice, in line %d and in line %d", s->file, node->line,
                    node->column, zt_json_node_path(node, path, sizeof path), first, node->line);
            *at = node->next;
            continue;
        }
        if (unique)
            zt_map_put(&seen, node->key, node->line);
        kept++;
        at = &node->next;
    }
    zt_map_finish(&seen);
}

struct zt_json_node *zt_json_read(const struct zt_json_text *text, struct zt_arena *arena, struct zt_err *err) {
    struct scanner s = { .file = text->file,
                         .text = text->at,
                         .size = text->size,
                         .source = text->source,
                         .option = text->option,
                         .line = 1,
                         .column = 1,
                         .last_line = 1,
                         .arena = arena,
                         .err = err };
    const int before = err->count;
    struct zt_json_node *root = read_file(&s);
    if (root)
        check_members(&s, root);
    if (root)
        root->holes = s.broken;
    err->keeps_all = false;
    return err->count == before || !text->option ? root : NULL;
}
