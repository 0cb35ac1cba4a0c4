/* The key table of the configuration: one row a key, one row of choices a type name.
 *
 * A row says everything about its key: type, range, default, what "auto" becomes, where the value goes in struct
 * zt_config, for which optimizer or scheduler it exists, and whether it works, changes nothing here, or is refused.
 * Nothing else names a key unless the key has a rule of its own (check.c, batch.c, deprecated.c).
 * The rows stand in config_rows_*.c, grouped: the keys below an object follow the object's row. */
#ifndef ZT_CONFIG_TABLE_H
#define ZT_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum zt_key_type {
    ZT_KEY_BOOL,    /* true, false, or the texts true/false, yes/no, on/off, 1/0 -> bool */
    ZT_KEY_INT,     /* an integral number, 2e8 too -> int or int64_t, by `size` */
    ZT_KEY_NUMBER,  /* -> double */
    ZT_KEY_FIRST,   /* a number, or a list of numbers whose first is kept -> double */
    ZT_KEY_PAIR,    /* [a, b] -> two doubles in a row */
    ZT_KEY_NUMBERS, /* list of numbers -> struct zt_numbers */
    ZT_KEY_TEXT,    /* -> const char * */
    ZT_KEY_PATH,    /* a non-empty text, relative to the config file -> const char * */
    ZT_KEY_BYTES,   /* "8GiB" or a number of bytes -> int64_t; 0: not given */
    ZT_KEY_CHOICE,  /* a text of `choices` -> const char *, spelt as in `choices` */
    ZT_KEY_INDEX,   /* a text of `choices` -> its place there, as int or bool by `size` */
    ZT_KEY_TEXTS,   /* list of non-empty texts -> struct zt_texts */
    ZT_KEY_HAS,     /* list of texts of `choices` -> bool: the first choice is among them */
    ZT_KEY_GROUPS,  /* list of lists of at least two texts -> struct zt_text_lists */
    ZT_KEY_ANY,     /* anything */
    ZT_KEY_OBJECT,  /* an object whose keys are rows */
    ZT_KEY_OPEN,    /* an object that may also hold keys without a row */
    ZT_KEY_NAMED, /* an object with free names; the rows of a member are those of "key.*". Stored: padding_idx -> struct
                     zt_padding_config */
    ZT_KEY_OBJECTS, /* a list of objects; the rows of an item are those of "key[]" */
};

enum zt_key_status {
    ZT_KEY_WORKS,  /* the value lands in struct zt_config */
    ZT_KEY_ACCEPT, /* validated; named in without_effect when present */
    ZT_KEY_LATER,  /* refused as "not supported yet" unless neutral (equal to `def` or `off`) */
    ZT_KEY_REJECT, /* refused for good unless neutral */
};

struct zt_key_choice {
    const char *name; /* '*' at the end matches any tail; NULL ends the list */
    enum zt_key_status status;
    const char *why; /* REJECT: what to do instead; LATER: what there is today, NULL: unsaid */
    unsigned bit;    /* of an optimizer or scheduler, see `of` below */
};

struct zt_key_row {
    const char *key;
    enum zt_key_type type;
    enum zt_key_status status;
    const char *def; /* the default as text; NULL: none. Two rows may share a key when their `of` differ */
    const char *off; /* LATER, REJECT: another neutral value */
    const char *why; /* ACCEPT: why it has no effect (NULL: as its object); LATER: what is meant; REJECT: what to do */
    const char *automatic; /* "auto" becomes this; NULL: the default */
    const char *rule;      /* by this rule; NULL: "default" */
    double min, max;       /* numbers and list items; -HUGE_VAL and HUGE_VAL: unbounded */
    bool above, below;     /* min or max itself is outside */
    bool any_case;         /* choices match whatever their case */
    bool false_is_off;     /* object: `false` in its place means absent */
    bool keeps_auto; /* what "auto" means is only known with the model: its value stands for it, and is written so */
    const struct zt_key_choice *choices;
    unsigned of, need; /* optimizer or scheduler bits: those that have the key (0: all), those that demand it */
    const char *now;   /* deprecated: today's name in the same object, same meaning */
    const char *same;  /* a second key with the same meaning; this one may stand in its place */
    size_t at, size;   /* offset and size in struct zt_config; 0: not stored */
};

/* Bits of the types that own parameters. Optimizers and schedulers are disjoint, so that one mask holds a pair. */
enum {
    ZT_OF_ADAM = 1 << 0,
    ZT_OF_ADAMW = 1 << 1,
    ZT_OF_SGD = 1 << 2,
    ZT_OF_LAMB = 1 << 3,
    ZT_OF_LION = 1 << 4,
    ZT_OF_ADAGRAD = 1 << 5,
    ZT_OF_ONEBIT_ADAM = 1 << 6,
    ZT_OF_ZEROONE_ADAM = 1 << 7,
    ZT_OF_ONEBIT_LAMB = 1 << 8,
    ZT_OF_MUON = 1 << 9,
    ZT_OF_RMSPROP = 1 << 10,
    ZT_OF_OPTIMIZERS = (1 << 11) - 1,
    ZT_OF_WARMUP = 1 << 11,
    ZT_OF_WARMUP_DECAY = 1 << 12,
    ZT_OF_WARMUP_COSINE = 1 << 13,
    ZT_OF_RANGE_TEST = 1 << 14,
    ZT_OF_ONE_CYCLE = 1 << 15,
    ZT_OF_STEP = 1 << 16,
    ZT_OF_EXPONENTIAL = 1 << 17,
    ZT_OF_COSINE = 1 << 18,
    ZT_OF_PLATEAU = 1 << 19,
    ZT_OF_SCHEDULERS = (1 << 20) - (1 << 11),
};

/* The rows of all files in order; zt_key_count() of them. */
size_t zt_key_count(void);
const struct zt_key_row *zt_key_at(size_t index);

/* The choice named `name`, NULL where there is none. */
const struct zt_key_choice *zt_key_choose(const struct zt_key_row *row, const char *name);
/* The choice that `name` most resembles, NULL where it resembles none. */
const char *zt_key_nearest_choice(const struct zt_key_row *row, const char *name);
/* The key that `name` in the object `parent` ("" at the top) most resembles: a sibling, or the same name elsewhere.
 * NULL: none. `types`: the optimizer and scheduler bits that keys must fit. */
const char *zt_key_nearest(const char *parent, const char *name, unsigned types);
/* "0..3", ">= 0", "> 0", "in [0, 1)": the allowed range in words, into `to` (at least 64 bytes); "" where unbounded. */
const char *zt_key_range(const struct zt_key_row *row, char *to);

#endif
