/* Macros for the rows of the key table, so that a row is one line: for rows_*.c, and for the files of
 * optimizers, learning-rate rules and data formats. */
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
#define FREE        .type = ZT_KEY_FREE
#define OBJECT      .type = ZT_KEY_OBJECT
#define CHOICE(of_) .type = ZT_KEY_CHOICE, .choices = (of_)
#define TYPE        .type = ZT_KEY_CHOICE /* table.c adds the types */
#define INDEX(of_)  .type = ZT_KEY_INDEX, .choices = (of_)

#define FROM(low)         .min = (low), .max = HUGE_VAL
#define WITHIN(low, high) .min = (low), .max = (high)
#define POSITIVE          .min = 0, .max = HUGE_VAL, .above = true
#define BELOW_ONE         .min = 0, .max = 1, .below = true
#define ANY_NUMBER        .min = -HUGE_VAL, .max = HUGE_VAL
#define INT(low)          .type = ZT_KEY_INT, FROM(low)
#define NUMBER            .type = ZT_KEY_NUMBER
#define EACH              .type = ZT_KEY_EACH
#define NUMBERS           .type = ZT_KEY_NUMBERS
#define COUNT(low, high)  .type = ZT_KEY_INT, WITHIN(low, high)

#define DEF(text)        .def = (text)
#define AUTO(text, from) .automatic = (text), .rule = (from)
#define AT(field)        PLACE(ZT_IN_CONFIG, struct zt_config, field)
/* In the params of the type that owns the key. */
#define PLACE(place, params, field) .in = (place), .at = offsetof(params, field), .size = sizeof(((params *)0)->field)
#define ACCEPT(reason)              .status = ZT_KEY_ACCEPT, .why = (reason)
#define ACCEPTED                    .status = ZT_KEY_ACCEPT
#define LATER(what)                 .status = ZT_KEY_LATER, .why = (what)
#define REJECT(instead)             .status = ZT_KEY_REJECT, .why = (instead)

/* The keys of DeepSpeed's "params" objects, and the origin of many of their "auto" values. */
#define OPTIMIZER "optimizer.params."
#define SCHEDULER "scheduler.params."
#define HF        "Hugging Face's default"

/* The rows of one file, for table.c. */
struct zt_key_rows {
    const struct zt_key_row *row;
    size_t count;
};
#define ZT_KEY_ROWS(rows)                                                                                              \
    { .row = (rows), .count = sizeof(rows) / sizeof(rows)[0] }

extern const struct zt_key_rows zt_key_rows_train, zt_key_rows_zero, zt_key_rows_tools, zt_key_rows_removed,
    zt_key_rows_later, zt_key_rows_ztrain;
/* Types that are refused by name; the lists end with NULL. */
extern const struct zt_key_owner *const zt_refused_optimizers[], *const zt_refused_schedulers[],
                                                                     *const zt_refused_formats[];

#endif
