/* The key table of the configuration as JSON, for tools/config_keys, which writes docs/config-keys.md. */
#ifndef ZT_CLI_PAGES_KEY_ROWS_H
#define ZT_CLI_PAGES_KEY_ROWS_H

#include <stdio.h>

/* Prints an object for each row, in the order of the table. Members that a row lacks are absent. Members:
 *
 *   key, type            "zero_optimization.stage", "integer"
 *   of                   the type that owns the key: "Adam"
 *   allowed              "0..3"
 *   choices, aliases     names of choices, other names of them
 *   later, refused       names of choices that are not accepted
 *   default, automatic   what an absent key is, what "auto" becomes or its rule
 *   status               works, no effect, not yet, refused, section, old name, same key
 *   why                  the reason of the status, the current name, or the other key
 *   meaning, difference  of src/config/meanings */
void zt_key_rows_print(FILE *to);

#endif
