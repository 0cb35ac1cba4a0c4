/* Numbers in quotes, as Python reads them from a text. */
#ifndef ZT_CONFIG_QUOTED_H
#define ZT_CONFIG_QUOTED_H

#include "config/json/node.h"

/* Makes a text of one number a number: Python's float(), finite ("8", " +8.0 ", "1_000", ".5", "5e-5"). integer: only
 * what pydantic's lax mode takes for an integer, digits and a point with zeros ("8", "8.0"; not "8e0"), and the number
 * is then without the point (https://docs.pydantic.dev/latest/concepts/conversion_table/). The number's characters are
 * JSON's, in the arena. False, and nothing is changed: the node is something else. */
bool zt_json_read_quoted(struct zt_json_node *node, struct zt_arena *arena, bool integer);

#endif
