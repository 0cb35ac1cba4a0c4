/* The text of a configuration's value. */
#ifndef ZT_CONFIG_NODE_TEXT_H
#define ZT_CONFIG_NODE_TEXT_H

#include "config/json/node.h"

#include <stdio.h>

struct zt_text; /* base/text.h */

/* Appends the value as JSON on one line. Numbers keep the characters in which they were written. */
void zt_json_node_add_text(const struct zt_json_node *node, struct zt_text *to);
/* Prints JSON whose texts may have bytes that are not UTF-8, as file names do: they become escapes (json.h). */
void zt_json_print(FILE *to, const char *json, size_t bytes);

#endif
