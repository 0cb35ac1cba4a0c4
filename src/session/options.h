/* The command line as values (contract.md, "Commands"). Parsed once by main; subcommands borrow it.
 *
 * Long options only, one spelling each, as `--name value` or `--name=value`, in any order after the command. Commands
 * and options are rows. */
#ifndef ZT_SESSION_OPTIONS_H
#define ZT_SESSION_OPTIONS_H

#include "base/err.h"
#include "base/log.h"
#include "config/config.h"

struct zt_supervisor_channel;

struct zt_options {
    const struct zt_command_row *command;
    bool named;                                  /* argv named the command */
    bool help, version;                          /* asked for: nothing after it was checked */
    const char *model, *config, *output;         /* output NULL: runs/<model name> where the command writes a run */
    const char *inputs;                          /* predict, grad */
    const char *emit;                            /* grad: file for the joint graph, NULL: none */
    const char *modes, *rank_list, *batch_sizes; /* bench: lists with commas between; batch_sizes NULL: the config's */
    const char *trace, *nodes;                   /* plan: files for the simulated step, and for its nodes */
    bool profile;                                /* train */
    int warmup, repeats;                         /* bench: warmup -1, repeats 0: not given */
    const char *hostfile, *include, *exclude;    /* train: NULL where not given */
    bool overwrite, resume, quiet, verbose, json;
    bool strict;             /* what would be a warning about the model is an error */
    const char *resume_from; /* checkpoint; NULL: the latest of the output folder */
    const char *operands[2]; /* arguments without a name, as many as the command has */
    char *const *argv;       /* as main got it, for ranks that are started with the same words */
    struct zt_supervisor_channel
        *line;                       /* to the parent that started this rank; NULL: none did. Set by main, borrowed */
    struct zt_config_overrides over; /* --set, --data, --device, --ranks, --epochs, --steps, --seed, --threads */
    struct zt_log log;
};

/* Sets of options, for `takes` and `needs`. */
enum zt_option_bit {
    ZT_TAKES_MODEL = 1 << 0,
    ZT_TAKES_CONFIG = 1 << 1,
    ZT_TAKES_OUTPUT = 1 << 2,
    ZT_TAKES_INPUTS = 1 << 3,
    ZT_TAKES_OVERWRITE = 1 << 4,
    ZT_TAKES_SET = 1 << 5, /* --set, --data */
    ZT_TAKES_DEVICE = 1 << 6,
    ZT_TAKES_RANKS = 1 << 7,
    ZT_TAKES_LENGTH = 1 << 8, /* --epochs, --steps */
    ZT_TAKES_SEED = 1 << 9,
    ZT_TAKES_THREADS = 1 << 10,
    ZT_TAKES_CONTROL = 1 << 11, /* --quiet, --verbose */
    ZT_TAKES_JSON = 1 << 12,
    ZT_TAKES_EMIT = 1 << 13,
    ZT_TAKES_PLAN = 1 << 14,         /* --cluster, --trace, --nodes */
    ZT_TAKES_COMBINATIONS = 1 << 15, /* --modes, --ranks as a list */
    ZT_TAKES_REPEATS = 1 << 16,      /* --batch-sizes, --steps, --warmup, --repeats */
    ZT_TAKES_HOSTS = 1 << 17,        /* --hostfile, --include, --exclude */
    ZT_TAKES_RESUME = 1 << 18,
    ZT_TAKES_STRICT = 1 << 19,
    ZT_TAKES_PROFILE = 1 << 20,
    ZT_TAKES_HELP = 1 << 30, /* --help alone; every command takes it */
};

/* A subcommand: one file in src/cli and one row in main.c. `run` returns false with an error; results go to stdout,
 * talk to stderr. */
struct zt_command_row {
    const char *name, *summary;
    unsigned takes, needs; /* sets of options it knows, and of those it cannot do without */
    bool (*run)(const struct zt_options *options, struct zt_err *err);
    const char
        *help; /* printed by SUBCOMMAND --help: usage and what it does; the options come from the table in options.c */
    const char *operands[2]; /* names of the arguments that it must get without an option's name; NULL: none */
};

/* Parses argv. `commands` ends with a NULL name; its first row is the command where argv names none. Texts are borrowed
 * from argv. Finish with zt_options_finish(), also after an error. */
bool zt_options_parse(struct zt_options *o, const struct zt_command_row *commands, int argc, char *const *argv,
                      struct zt_err *err);
void zt_options_finish(struct zt_options *o);

/* What --help prints: about all commands, or about the one that was named. */
void zt_options_help(const struct zt_options *o, const struct zt_command_row *commands, FILE *to);

#endif
