#include "config/scan.h"

#include <ctype.h>
#include <string.h>

struct scanner {
    const char *file;
    const unsigned char *text;
    size_t size, at;
    int line, column; /* of `at` */
    int last_line;    /* where the last value or key ended */
    int depth;
    int room; /* of scan->mark */
    struct zt_scan *scan;
    struct zt_arena *arena;
    struct zt_err *err;
};

/* Where something began, to complain about it later. */
struct place {
    int line, column;
};

static bool complain_at(struct scanner *s, struct place p, const char *what) {
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

/* What stands here, for "found ...". */
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
    return zt_fail(s->err, ZT_EXIT_CONFIG, "%s:%d:%d: expected %s after what ends in line %d, found %s", s->file,
                   s->line, s->column, what, s->last_line, found(s, here_is));
}

/* Bytes of the UTF-8 character at p, 0 where there is none (RFC 3629: no surrogates, no overlong forms). */
static size_t utf8_length(const unsigned char *p, size_t left) {
    static const struct {
        unsigned char low, high, second_low, second_high, bytes;
    } form[] = {
        { 0x01, 0x7f, 0, 0, 1 },       { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
        { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
        { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
    };
    for (size_t i = 0; i < sizeof form / sizeof form[0]; i++) {
        if (p[0] < form[i].low || p[0] > form[i].high)
            continue;
        if (form[i].bytes > left || (form[i].bytes > 1 && (p[1] < form[i].second_low || p[1] > form[i].second_high)))
            return 0;
        for (size_t k = 2; k < form[i].bytes; k++)
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        return form[i].bytes;
    }
    return 0;
}

static bool check_characters(struct scanner *s) {
    while (s->at < s->size) {
        size_t n = utf8_length(s->text + s->at, s->size - s->at);
        if (n == 0)
            return complain(s, s->text[s->at] ? "a byte that is not UTF-8" : "a NUL byte");
        while (n--)
            step(s);
    }
    s->at = 0;
    s->line = s->column = 1;
    return true;
}

static void blank(struct scanner *s) {
    if (s->text[s->at] != '\n')
        s->scan->clean[s->at] = ' ';
    step(s);
}

static bool skip_comment(struct scanner *s) {
    struct place start = here(s);
    if (peek(s, 0) == '/' && peek(s, 1) == '*') {
        blank(s);
        blank(s);
        while (peek(s, 0) >= 0 && !(peek(s, 0) == '*' && peek(s, 1) == '/'))
            blank(s);
        if (peek(s, 0) < 0)
            return complain_at(s, start, "a comment that begins here never ends");
        blank(s);
        blank(s);
        return true;
    }
    while (peek(s, 0) >= 0 && peek(s, 0) != '\n')
        blank(s);
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

static bool scan_escape(struct scanner *s) {
    struct place start = here(s);
    step(s);
    int c = peek(s, 0);
    if (c > 0 && strchr("\"\\/bfnrt", c)) {
        step(s);
        return true;
    }
    if (c != 'u')
        return complain_at(s, start, "an unknown escape: \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX exist");
    step(s);
    int code = hex4(s);
    if (code == 0)
        return complain_at(s, start, "\\u0000 cannot stand in a text");
    if (code >= 0xd800 && code <= 0xdbff) { /* a surrogate pair */
        bool second = peek(s, 0) == '\\' && peek(s, 1) == 'u';
        if (second) {
            step(s);
            step(s);
        }
        int low = second ? hex4(s) : -1;
        code = low >= 0xdc00 && low <= 0xdfff ? code : -1;
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        code = -1;
    }
    return code > 0 || complain_at(s, start, "an escape \\u that is no character");
}

static bool scan_text(struct scanner *s) {
    struct place start = here(s);
    step(s);
    for (;;) {
        int c = peek(s, 0);
        if (c < 0 || c == '\n')
            return complain_at(s, start, "a text that begins here is not closed in its line");
        if (c < 0x20)
            return complain(s, "a control character inside a text");
        if (c == '"')
            break;
        if (c != '\\')
            step(s);
        else if (!scan_escape(s))
            return false;
    }
    step(s);
    s->last_line = s->line;
    return true;
}

static int scan_digits(struct scanner *s) {
    int n = 0;
    for (; peek(s, 0) >= '0' && peek(s, 0) <= '9'; n++)
        step(s);
    return n;
}

/* -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static bool scan_number(struct scanner *s) {
    struct place start = here(s);
    size_t begin = s->at;
    if (peek(s, 0) == '-')
        step(s);
    bool zero = peek(s, 0) == '0', ok = true;
    int digits = scan_digits(s);
    ok = digits > 0 && !(zero && digits > 1);
    if (ok && peek(s, 0) == '.') {
        step(s);
        ok = scan_digits(s) > 0;
    }
    if (ok && (peek(s, 0) == 'e' || peek(s, 0) == 'E')) {
        step(s);
        if (peek(s, 0) == '+' || peek(s, 0) == '-')
            step(s);
        ok = scan_digits(s) > 0;
    }
    if (!ok || isalnum(peek(s, 0)) || peek(s, 0) == '.')
        return complain_at(s, start, "this is not a JSON number");
    s->last_line = s->line;
    return s->at - begin <= ZT_SCAN_NUMBER || complain_at(s, start, "a number of more than 60 characters");
}

static bool scan_word(struct scanner *s) {
    static const char *const words[] = { "true", "false", "null" };
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        int after = peek(s, n);
        if (s->size - s->at < n || memcmp(s->text + s->at, words[i], n) != 0 || isalnum(after) || after == '_')
            continue;
        while (n--)
            step(s);
        s->last_line = s->line;
        return true;
    }
    int c = peek(s, 0);
    if (c == '\'')
        return complain(s, "texts take double quotes");
    if (c == ',' || c == ']' || c == '}' || c == ':' || c < 0)
        return expected(s, "a value");
    if (!isalpha(c) && c != '_')
        return expected(s, "a value");
    complain(s, "a text without quotes; true, false and null are the only words");
    return zt_hint(s->err, "put double quotes around it");
}

static bool add_mark(struct scanner *s, struct place at, int *index) {
    struct zt_scan *scan = s->scan;
    if (scan->count == ZT_SCAN_VALUES)
        return complain(s, "more than 100000 values");
    if (scan->count == s->room) {
        struct zt_scan_mark *old = scan->mark;
        s->room = s->room ? 2 * s->room : 256;
        scan->mark = ZT_NEW_N(s->arena, struct zt_scan_mark, s->room);
        if (old)
            memcpy(scan->mark, old, (size_t)scan->count * sizeof *old);
    }
    *index = scan->count++;
    scan->mark[*index] = (struct zt_scan_mark){ .line = at.line, .column = at.column };
    return true;
}

static bool scan_key(struct scanner *s) {
    struct place start = here(s);
    int c = peek(s, 0);
    if (c != '"') {
        if (c == '\'' || (c >= 0 && (isalpha(c) || c == '_')))
            return complain(s, "a key without double quotes");
        return expected(s, "a key in double quotes");
    }
    size_t begin = s->at;
    if (!scan_text(s))
        return false;
    if (s->at - begin > ZT_SCAN_KEY + 2)
        return complain_at(s, start, "a key of more than 128 bytes");
    if (!skip_space(s))
        return false;
    if (peek(s, 0) != ':')
        return expected(s, "':'");
    step(s);
    return skip_space(s);
}

static bool scan_value(struct scanner *s, struct place at);

/* An object or a list: the same but for keys. A comma before the end is blanked. */
static bool scan_members(struct scanner *s, bool keys) {
    int end = keys ? '}' : ']';
    if (++s->depth > ZT_SCAN_DEPTH)
        return complain(s, "nested deeper than 64 levels");
    step(s);
    if (!skip_space(s))
        return false;
    while (peek(s, 0) != end) {
        struct place at = here(s);
        if ((keys && !scan_key(s)) || !scan_value(s, at) || !skip_space(s))
            return false;
        if (peek(s, 0) == end)
            break;
        if (peek(s, 0) != ',')
            return expected(s, keys ? "',' or '}'" : "',' or ']'");
        size_t comma = s->at;
        s->last_line = s->line;
        step(s);
        if (!skip_space(s))
            return false;
        if (peek(s, 0) == end)
            s->scan->clean[comma] = ' ';
    }
    step(s);
    s->last_line = s->line;
    s->depth--;
    return true;
}

static bool scan_value(struct scanner *s, struct place at) {
    int index = 0, c = peek(s, 0);
    if (!add_mark(s, at, &index))
        return false;
    size_t begin = s->at;
    bool ok = c == '{' || c == '['                 ? scan_members(s, c == '{')
              : c == '"'                           ? scan_text(s)
              : c == '-' || (c >= '0' && c <= '9') ? scan_number(s)
                                                   : scan_word(s);
    s->scan->mark[index].begin = begin;
    s->scan->mark[index].end = s->at;
    return ok;
}

bool zt_config_scan(struct zt_scan *scan, struct zt_arena *arena, const char *file, const unsigned char *text,
                    size_t size, struct zt_err *err) {
    *scan = (struct zt_scan){ 0 };
    if (size > ZT_SCAN_BYTES)
        return zt_fail(err, ZT_EXIT_CONFIG, "%s: %zu bytes, at most 16 MiB", file, size);
    struct scanner s = { .file = file,
                         .text = text,
                         .size = size,
                         .line = 1,
                         .column = 1,
                         .last_line = 1,
                         .scan = scan,
                         .arena = arena,
                         .err = err };
    scan->clean = zt_arena_alloc(arena, size + 1);
    memcpy(scan->clean, text, size);
    if (!check_characters(&s))
        return false;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        memset(scan->clean, ' ', 3);
        s.at = 3;
    }
    if (!skip_space(&s))
        return false;
    if (s.at == s.size)
        return complain(&s, "an empty file: expected '{'");
    if (!scan_value(&s, here(&s)) || !skip_space(&s))
        return false;
    return s.at == s.size || expected(&s, "the end of the file");
}
