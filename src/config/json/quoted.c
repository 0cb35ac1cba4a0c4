#include "config/json/quoted.h"
#include "config/json/json.h"

#include <ctype.h>
#include <string.h>

enum { NUMBER = 3 * ZT_JSON_NUMBER + 1 }; /* a text of points alone gets two zeros at each */

static bool joins_digits(const char *at, const char *text) {
    return *at == '_' && at > text && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[1]);
}

/* Writes a number that Python's float() reads in JSON's spelling: without spaces around it, without "+", "_" between
 * digits and leading zeros, and with digits on both sides of the point. A text that is no number may give any text. */
static void spell(const char *text, char to[static NUMBER]) {
    size_t n = 0;
    while (isspace((unsigned char)*text))
        text++;
    if (*text == '-')
        to[n++] = '-';
    text += *text == '-' || *text == '+';
    while (*text == '0' && (isdigit((unsigned char)text[1]) || joins_digits(text + 1, text)))
        text += 1 + (text[1] == '_');
    for (const char *at = text; *at; at++) {
        const bool point = *at == '.';
        if (joins_digits(at, text))
            continue;
        if (point && (at == text || !isdigit((unsigned char)at[-1])))
            to[n++] = '0';
        to[n++] = *at;
        if (point && !isdigit((unsigned char)at[1]))
            to[n++] = '0';
    }
    while (n && isspace((unsigned char)to[n - 1]))
        n--;
    to[n] = 0;
}

/* Whether the text of a number is an integer in the spelling that pydantic takes: digits, and a point with zeros. */
static bool is_plain_integer(const char *text) {
    const char *point = strchr(text, '.');
    const size_t zeros = point ? strspn(point + 1, "0") : 1;
    return !strpbrk(text, "eE") && zeros &&
           (!point || (point > text && isdigit((unsigned char)point[-1]) &&
                       point[1 + zeros + strspn(point + 1 + zeros, " \t\n\r\f\v")] == 0));
}

bool zt_json_read_quoted(struct zt_json_node *node, struct zt_arena *arena, bool integer) {
    char spelled[NUMBER];
    if (node->kind != ZT_JSON_NODE_TEXT || strlen(node->text) > ZT_JSON_NUMBER ||
        (integer && !is_plain_integer(node->text)))
        return false;
    spell(node->text, spelled);
    if (integer)
        spelled[strcspn(spelled, ".")] = 0;
    struct zt_json_node number = *node;
    number.text = spelled;
    if (!zt_json_unquote(&number))
        return false;
    number.text = zt_arena_strdup(arena, spelled);
    *node = number;
    return true;
}
