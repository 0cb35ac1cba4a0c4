#include "cli/html.h"

#include "base/utf8.h"

#include <string.h>

/* Returns the entity of a character; NULL: none. */
static const char *entity_of(char c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* Whether XML 1.0 allows the character. */
static int is_allowed(uint32_t c) {
    return c == '\n' || c == '\t' || (c >= ' ' && c != 0x7f && c != 0xfffe && c != 0xffff);
}

void zt_html_escape(struct zt_text *to, const char *text) {
    const char *end = text + strlen(text);
    while (text < end) {
        uint32_t character = 0;
        const int n = zt_utf8_read((const unsigned char *)text, (size_t)(end - text), &character);
        const char *entity = entity_of(*text);
        if (n == 0)
            zt_text_add(to, "\\x%02x", (unsigned char)*text);
        else if (entity || !is_allowed(character))
            zt_text_add(to, "%s", entity ? entity : "?");
        else
            zt_text_add_bytes(to, text, (size_t)n);
        text += n ? n : 1;
    }
}

void zt_html_write(const char *text, FILE *to) {
    struct zt_text escaped = { 0 };
    zt_html_escape(&escaped, text);
    fputs(escaped.at ? escaped.at : "", to);
    zt_text_finish(&escaped);
}

static const char style_of_all[] =
    ":root { color-scheme: light dark; --line: #8884; --soft: #8881; }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 88rem; margin: 2rem auto; padding: 0 1rem; }\n"
    "h1 { margin-bottom: 0; } h2 { margin-top: 2.2rem; }\n"
    ".quiet { opacity: 0.75; } pre { background: var(--soft); padding: 0.6rem; white-space: pre-wrap; "
    "overflow-wrap: anywhere; }\n"
    ".wide { overflow-x: auto; }\n"
    "table { border-collapse: collapse; font-size: 0.8rem; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: 0.25rem 0.4rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; "
    "}\n"
    "th { vertical-align: bottom; } th:first-child, td:first-child, td.text { text-align: left; }\n"
    "td.reason { white-space: normal; opacity: 0.75; text-align: left; } code { font-size: 0.9em; }\n"
    ".warning { border-left: 4px solid #d9822b; padding: 0.4rem 0.9rem; background: var(--soft); }\n"
    ".agree { border-left: 4px solid #3a9d5d; padding: 0.4rem 0.9rem; background: var(--soft); }\n"
    "dt { font-weight: 600; } figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; }\n"
    "figure svg text { fill: currentColor; } figure svg g { color: inherit; }\n";

void zt_html_begin(const char *title, const char *style, FILE *to) {
    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
        to);
    zt_html_write(title, to);
    fprintf(to, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n", style_of_all, style);
}

void zt_html_end(FILE *to) {
    fputs("</body>\n</html>\n", to);
}
