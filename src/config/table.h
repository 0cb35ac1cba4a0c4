/* The key table of the configuration: one row a key.
 *
 * A row says everything about its key: type, range, default, the meaning of "auto", the place of the value, and whether
 * the key works, has no effect, or is refused. Nothing else names a key unless the key has a rule of its own (check.c,
 * batch.c, deprecated.c). The rows that every configuration has stand in rows_*.c, grouped: the keys below an
 * object follow the object's row. An optimizer, a learning-rate rule and a data format each bring the rows of their own
 * keys (struct zt_key_owner); a table is put together for each configuration. */
#ifndef ZT_CONFIG_TABLE_H
#define ZT_CONFIG_TABLE_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

struct zt_config;
struct zt_text; /* base/text.h */

enum zt_key_type {
    ZT_KEY_BOOL,    /* true, false, or the texts true/false, yes/no, on/off, 1/0 -> bool */
    ZT_KEY_INT,     /* an integral number, 2e8 too -> int or int64_t, by `size` */
    ZT_KEY_NUMBER,  /* -> double */
    ZT_KEY_EACH,    /* a number, or a list of numbers, one per parameter group -> struct zt_numbers */
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
    ZT_KEY_FREE,    /* an object of any contents -> const char *, as JSON on one line */
    ZT_KEY_OBJECT,  /* an object whose keys are rows */
    ZT_KEY_NAMED, /* an object with free names; the rows of a member are those of "key.*". Stored: padding_idx -> struct
                     zt_padding_config */
    ZT_KEY_OBJECTS, /* a list of objects; the rows of an item are those of "key[]" */
};

enum zt_key_status {
    ZT_KEY_WORKS,  /* the value is stored */
    ZT_KEY_ACCEPT, /* validated, and listed in without_effect */
    ZT_KEY_LATER,  /* refused as "not supported yet" unless neutral (equal to `def` or `off`) */
    ZT_KEY_REJECT, /* refused for good unless neutral */
};

struct zt_key_choice {
    const char *name; /* '*' at the end matches any tail; NULL ends the list */
    enum zt_key_status status;
    const char *why; /* REJECT: the alternative; LATER: a way around it, or NULL */
    const char
        *means; /* another name of the choice `means`, which is stored and not listed; NULL: a choice of its own */
};

/* The keys whose value is a type that owns further keys: optimizer.type, scheduler.type, ztrain.data.format. */
enum zt_key_kind { ZT_KEY_OPTIMIZER, ZT_KEY_SCHEDULER, ZT_KEY_FORMAT, ZT_KEY_KINDS };

/* The struct that a key's value is stored in: struct zt_config, or the params of the type that owns the key. */
enum zt_key_place { ZT_IN_CONFIG, ZT_IN_OPTIMIZER, ZT_IN_SCHEDULER, ZT_IN_FORMAT };

struct zt_key_row {
    const char *key;
    enum zt_key_type type;
    enum zt_key_status status;
    const char *def; /* the default as text; NULL: none */
    const char *off; /* LATER, REJECT: another neutral value */
    const char *why; /* ACCEPT: the reason (NULL: that of its object); LATER: the feature; REJECT: the alternative */
    const char *automatic; /* "auto" becomes this; NULL: the default */
    const char *rule;      /* by this rule; NULL: "default" */
    double min, max;       /* numbers and list items; -HUGE_VAL and HUGE_VAL: unbounded */
    bool above, below;     /* min or max itself is outside */
    bool whole;            /* ZT_KEY_NUMBERS: the items are integers */
    bool any_case;         /* choices match whatever their case */
    const char
        *otherwise;    /* choices: what DeepSpeed reads a text as that is none of them, and near none, with a note */
    bool false_is_off; /* object: `false` in its place means absent */
    bool keeps_auto;   /* "auto" depends on the model: the value `automatic` means it, and is written as "auto" */
    const struct zt_key_choice *choices;
    bool needed;        /* the type that owns the key demands it */
    bool shared;        /* one type reads the key, but it exists for all types of the kind */
    bool bounds;        /* ZT_KEY_EACH: a bound of the group's own rate, beside which param_groups[].lr counts */
    bool auto_is_lr;    /* "auto" becomes optimizer.params.lr where there is an optimizer */
    const char *always; /* the only value, by the reason `why`: another one has no effect, and a note says so */
    const char *now;    /* deprecated: the current name in the same object, with the same meaning */
    bool now_wins;      /* deprecated: not read beside the current name; else both are an error */
    const char *same;   /* another key with the same meaning; either may be given */
    enum zt_key_place in;
    size_t at, size; /* offset and size in that struct; size 0: not stored */
};

/* A problem between the keys of one type: the key that it is reported at, and the text behind the key. */
struct zt_key_problem {
    const char *key;
    char text[160];
};

/* A finished configuration in which values that the file leaves open may depend on other keys. */
struct zt_settling {
    struct zt_config *config;
    /* Whether the file or the command line gives the key. */
    bool (*given)(const struct zt_settling *s, const char *key);
    /* Lists a key as without effect: "key = value (reason)". */
    void (*lists)(const struct zt_settling *s, const char *text);
    const void *reading; /* for these functions */
};

/* A type: a value of optimizer.type, scheduler.type or ztrain.data.format, with the keys that exist for it alone. */
struct zt_key_owner {
    const char *name; /* the canonical spelling */
    enum zt_key_status status;
    const char *why;               /* as in struct zt_key_choice */
    const char *const *aliases;    /* other names that configurations use for it; ends with NULL; NULL: none */
    const struct zt_key_row *keys; /* ends with a NULL key; NULL: none */
    size_t bytes;                  /* of its params: the struct that its keys with another place than the config fill */
    /* Holds the keys of the type against one another: `params` has valid values or defaults. NULL: nothing to check. */
    bool (*fits)(const void *params, struct zt_key_problem *problem);
    /* Sets values that were not given and whose default depends on other keys. NULL: there are none. */
    void (*settle)(const struct zt_settling *s);
    bool dynamic_scale;    /* optimizers: fp16 needs the dynamic loss scale */
    bool moves_momentum;   /* rules: cycle_momentum is refused for an optimizer with no_momentum */
    bool no_momentum;      /* optimizers: PyTorch's rules find neither betas nor a momentum in them */
    bool replicated;       /* optimizers: each rank has the whole model, which excludes ZeRO and pipeline stages */
    bool computed;         /* formats: the samples are computed, so that no path is needed */
    const char *eval_file; /* formats: the evaluation data below data.path, where this file exists and eval_path is not
                              given; NULL: none */
};

/* The types that the rest of the program implements: lists that end with NULL. src/config adds the types of DeepSpeed
 * that it refuses by name. */
struct zt_key_catalog {
    const struct zt_key_owner *const *owners[ZT_KEY_KINDS];
};

/* The keys of one configuration, in the order in which they are written. Lives in the config's arena. */
struct zt_key_table {
    const struct zt_key_catalog *catalog;
    const struct zt_key_row **row;
    const struct zt_key_owner **owner; /* of row i; NULL: the key exists whatever the types */
    enum zt_key_kind *kind;            /* of that owner */
    int count;
    const struct zt_key_owner *chosen[ZT_KEY_KINDS]; /* NULL: none was given, or an unknown one */
};

/* All keys for the types of `catalog`; none of them is chosen yet. */
struct zt_key_table *zt_key_table_create(struct zt_arena *arena, const struct zt_key_catalog *catalog);
/* Chooses the type that is called `name`. Unknown types and those that are refused for good leave the kind open. */
void zt_key_table_choose(struct zt_key_table *table, enum zt_key_kind kind, const char *name);
/* The key whose value is the type: "optimizer.type". */
const char *zt_key_kind_key(enum zt_key_kind kind);
/* The kind whose types may own keys in the object `parent`; ZT_KEY_KINDS: none. */
enum zt_key_kind zt_key_kind_of(const char *parent);
/* Whether row i exists for the chosen types. A kind without a chosen type has the keys of all its types. */
bool zt_key_exists(const struct zt_key_table *table, int i);
/* Whether row i has a value in the configuration: the one that was given, or the default. */
bool zt_key_has_value(const struct zt_key_table *table, int i);
/* Returns the address of a key's value; NULL: the params of its type do not exist, because no type was chosen. */
void *zt_key_stored(const struct zt_config *config, const struct zt_key_row *row);
/* Whether `value` is the default of a key called `key`. */
bool zt_key_is_default(const struct zt_key_table *table, const char *key, const char *value);

/* The row of a key that exists whatever the types are; NULL: there is none. */
const struct zt_key_row *zt_key_row_called(const char *key);
/* The choice named `name`, NULL where there is none. */
const struct zt_key_choice *zt_key_choose(const struct zt_key_row *row, const char *name);
/* Appends the choices that are not refused, separated by commas. */
void zt_key_list_choices(const struct zt_key_row *row, struct zt_text *to);
/* "0..3", ">= 0", "> 0", "in [0, 1)": the allowed range in words, into `to` (at least 64 bytes); "" where unbounded. */
const char *zt_key_range(const struct zt_key_row *row, char *to);

#endif
