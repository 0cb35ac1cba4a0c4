/* The commands: one file each, and one row each in main.c (struct zt_command_row). */
#ifndef ZT_CLI_COMMANDS_H
#define ZT_CLI_COMMANDS_H

#include "session/options.h"

/* Each runs its command with parsed options. It prints results to standard output and returns false with an error. */
bool zt_cli_train(const struct zt_options *options, struct zt_err *err);
bool zt_cli_plan(const struct zt_options *options, struct zt_err *err);
bool zt_cli_inspect(const struct zt_options *options, struct zt_err *err);
bool zt_cli_evaluate(const struct zt_options *options, struct zt_err *err);
bool zt_cli_predict(const struct zt_options *options, struct zt_err *err);
bool zt_cli_grad(const struct zt_options *options, struct zt_err *err);
bool zt_cli_bench(const struct zt_options *options, struct zt_err *err);
bool zt_cli_diff(const struct zt_options *options, struct zt_err *err);
bool zt_cli_doctor(const struct zt_options *options, struct zt_err *err);
bool zt_cli_report(const struct zt_options *options, struct zt_err *err);
bool zt_cli_verify(const struct zt_options *options, struct zt_err *err);
bool zt_cli_ops(const struct zt_options *options, struct zt_err *err);

#endif
