/* Completions of the command line for bash, zsh and fish, from the tables of commands and options. */
#ifndef ZT_CLI_PAGES_COMPLETIONS_H
#define ZT_CLI_PAGES_COMPLETIONS_H

#include "session/options.h"

/* Prints the script of `shell`. `commands` ends with a NULL name. Fails for other shells. */
bool zt_completions_print(const struct zt_command_row *commands, const char *shell, FILE *to, struct zt_err *err);

#endif
