/* Words that make a row of the key table one line; for config_rows_*.c alone. */
#ifndef ZT_CONFIG_ROWS_H
#define ZT_CONFIG_ROWS_H

#include "config/config.h"
#include "config/table.h"

#include <math.h>

#define BOOL        .type = ZT_KEY_BOOL
#define TEXT        .type = ZT_KEY_TEXT
#define PATH        .type = ZT_KEY_PATH
#define TEXTS       .type = ZT_KEY_TEXTS
#define ANY         .type = ZT_KEY_ANY
#define OBJECT      .type = ZT_KEY_OBJECT
#define OPEN        .type = ZT_KEY_OPEN
#define CHOICE(of_) .type = ZT_KEY_CHOICE, .choices = (of_)
#define INDEX(of_)  .type = ZT_KEY_INDEX, .choices = (of_)

#define FROM(low)         .min = (low), .max = HUGE_VAL
#define WITHIN(low, high) .min = (low), .max = (high)
#define POSITIVE          .min = 0, .max = HUGE_VAL, .above = true
#define BELOW_ONE         .min = 0, .max = 1, .below = true
#define ANY_NUMBER        .min = -HUGE_VAL, .max = HUGE_VAL
#define INT(low)          .type = ZT_KEY_INT, FROM(low)
#define NUMBER            .type = ZT_KEY_NUMBER
#define COUNT(low, high)  .type = ZT_KEY_INT, WITHIN(low, high)

#define DEF(text)        .def = (text)
#define AUTO(text, from) .automatic = (text), .rule = (from)
#define AT(field)        .at = offsetof(struct zt_config, field), .size = sizeof(((struct zt_config *)0)->field)
#define ACCEPT(reason)   .status = ZT_KEY_ACCEPT, .why = (reason)
#define ACCEPTED         .status = ZT_KEY_ACCEPT
#define LATER(what)      .status = ZT_KEY_LATER, .why = (what)
#define REJECT(instead)  .status = ZT_KEY_REJECT, .why = (instead)

/* What every row file offers to table.c. */
struct zt_key_rows {
    const struct zt_key_row *row;
    size_t count;
};
#define ZT_KEY_ROWS(rows)                                                                                              \
    { .row = (rows), .count = sizeof(rows) / sizeof(rows)[0] }

extern const struct zt_key_rows zt_key_rows_train, zt_key_rows_zero, zt_key_rows_tools, zt_key_rows_ztrain;

#endif
