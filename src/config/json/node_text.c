#include "config/json/node_text.h"

#include "base/text.h"
#include "base/utf8.h"
#include "config/json/json.h"

static void add_quoted(struct zt_text *to, const char *text) {
    zt_text_add(to, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            zt_text_add(to, "\\%c", *c);
        else if (*c < 0x20)
            zt_text_add(to, "\\u%04x", *c);
        else
            zt_text_add_bytes(to, c, 1);
    }
    zt_text_add(to, "\"");
}

static void add_number(struct zt_text *to, const struct zt_json_node *node) {
    if (node->text)
        zt_text_add(to, "%s", node->text);
    else if (node->whole)
        zt_text_add(to, "%lld", (long long)node->integer);
    else
        zt_text_add(to, "%.17g", node->number);
}

/* The depth of recursion is that of the JSON text, which the parser limits. */
static void add_members(struct zt_text *to, const struct zt_json_node *node) {
    const bool object = node->kind == ZT_JSON_NODE_OBJECT;
    zt_text_add(to, object ? "{" : "[");
    for (const struct zt_json_node *child = node->first; child; child = child->next) {
        zt_text_add(to, child == node->first ? "" : ", ");
        if (object) {
            add_quoted(to, child->key);
            zt_text_add(to, ": ");
        }
        zt_json_node_add_text(child, to);
    }
    zt_text_add(to, object ? "}" : "]");
}

void zt_json_node_add_text(const struct zt_json_node *node, struct zt_text *to) {
    switch (node->kind) {
    case ZT_JSON_NODE_NULL:
        zt_text_add(to, "null");
        break;
    case ZT_JSON_NODE_BOOL:
        zt_text_add(to, node->truth ? "true" : "false");
        break;
    case ZT_JSON_NODE_NUMBER:
        add_number(to, node);
        break;
    case ZT_JSON_NODE_TEXT:
        add_quoted(to, node->text);
        break;
    case ZT_JSON_NODE_LIST:
    case ZT_JSON_NODE_OBJECT:
        add_members(to, node);
    }
}

void zt_json_print(FILE *to, const char *json, size_t bytes) {
    const unsigned char *at = (const unsigned char *)json;
    uint32_t character;
    while (bytes) {
        const int n = zt_utf8_read(at, bytes, &character);
        if (n)
            fwrite(at, 1, (size_t)n, to);
        else
            fprintf(to, "\\u%04x", ZT_JSON_BYTE_ESCAPE + *at);
        at += n ? n : 1;
        bytes -= n ? (size_t)n : 1;
    }
}
