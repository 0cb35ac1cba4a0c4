/* The command line as values. main parses it once; commands borrow it.
 *
 * All options are long and have one spelling, as `--name value` or `--name=value`, in any order after the command.
 * Commands and options are rows of tables. */
#ifndef ZT_SESSION_OPTIONS_H
#define ZT_SESSION_OPTIONS_H

#include "base/err.h"
#include "base/log.h"
#include "config/config.h"

struct zt_supervisor_channel;

struct zt_options {
    const struct zt_command_row *command;
    bool named;                 /* argv contains the name of the command */
    bool help, version;         /* given: later arguments were not checked */
    const char *model, *output; /* output: NULL means runs/<model name> for commands that write a run */
    struct zt_texts configs;    /* files, in the order of the command line */
    const char *config;         /* their names, joined by " + ", for messages */
    const char *inputs;         /* predict, grad: the input arrays */
    const char *emit;           /* grad: file for the training graph; NULL: none */
    const char *modes, *rank_list,
        *batch_sizes;          /* bench: comma-separated lists; batch_sizes NULL: the batch size of the config */
    const char *trace, *nodes; /* plan: output files for the trace and the node table of the simulated step */
    bool profile;              /* train */
    int warmup, repeats;       /* bench; -1 and 0: not given */
    const char *hostfile, *include, *exclude; /* train; NULL: not given */
    bool overwrite, resume, quiet, verbose, json;
    bool strict;             /* warnings about the model are errors */
    bool weights_only;       /* with --load */
    const char *load;        /* checkpoint or model whose weights the run starts from; NULL: none */
    const char *resume_from; /* the checkpoint; NULL: the latest one in the output folder */
    const char *operands[2]; /* positional arguments of the command */
    const char **runs;       /* all positional arguments of a command whose operand may be repeated */
    int run_count;
    char *const *argv; /* argv of main, to start ranks with the same arguments */
    struct zt_supervisor_channel
        *supervisor; /* channel to the parent process that started this rank; NULL: none. Set by main, borrowed */
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
    ZT_TAKES_LOAD = 1 << 21, /* --load, --weights-only */
    ZT_TAKES_HELP = 1 << 30, /* --help alone; every command takes it */
};

/* A command: one file in src/cli and one row in main.c. `run` returns false with an error. It prints results to
 * standard output and messages to standard error. */
struct zt_command_row {
    const char *name, *summary;
    unsigned takes, needs; /* options it accepts, and options it requires */
    bool (*run)(const struct zt_options *options, struct zt_err *err);
    const char *help; /* text of COMMAND --help: usage and purpose; the options follow from the table in options.c */
    const char *operands[2]; /* names of the required positional arguments; NULL: none */
    bool repeats_operand;    /* the first operand may be given several times */
};

/* Parses argv. `commands` ends with a NULL name; its first row is the default command. Texts are borrowed from argv.
 * Free with zt_options_finish(), also after an error. */
bool zt_options_parse(struct zt_options *o, const struct zt_command_row *commands, int argc, char *const *argv,
                      struct zt_err *err);
void zt_options_finish(struct zt_options *o);

/* Prints the text of --help, for the command that was named or for all commands. */
void zt_options_help(const struct zt_options *o, const struct zt_command_row *commands, FILE *to);

#endif
