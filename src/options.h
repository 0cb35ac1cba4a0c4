/* The command line as values (contract.md, "Commands"). Parsed once by main; subcommands borrow it. */
#ifndef ZT_OPTIONS_H
#define ZT_OPTIONS_H

#include "base/err.h"
#include "base/log.h"
#include "config.h"

struct zt_options {
    const struct zt_command_row *command;
    const char *model, *config, *output; /* output NULL: runs/<model name> where the command writes a run */
    const char *inputs;                  /* predict, grad */
    bool overwrite, quiet, verbose, json;
    struct zt_config_overrides over;     /* --set, --data, --device, --ranks, --epochs, --steps, --seed, --threads */
    struct zt_log log;
};

/* A subcommand: one file in src/cli and one row in main.c. Returns false with an error; results go to stdout, talk to stderr. */
struct zt_command_row {
    const char *name, *summary;
    unsigned takes; /* set of options it knows, one bit each (options.c) */
    bool (*run)(const struct zt_options *options, struct zt_err *err);
    const char *help; /* printed by SUBCOMMAND --help: usage, then one line an option */
};

bool zt_cli_train(const struct zt_options *options, struct zt_err *err);
bool zt_cli_plan(const struct zt_options *options, struct zt_err *err);
bool zt_cli_inspect(const struct zt_options *options, struct zt_err *err);
bool zt_cli_evaluate(const struct zt_options *options, struct zt_err *err);
bool zt_cli_predict(const struct zt_options *options, struct zt_err *err);
bool zt_cli_grad(const struct zt_options *options, struct zt_err *err);
bool zt_cli_ops(const struct zt_options *options, struct zt_err *err);

#endif
