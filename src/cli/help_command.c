/* ztrain help: the texts of --help, and pages that packages install. */
#include "cli/commands.h"

#include "cli/pages/completions.h"
#include "cli/pages/key_rows.h"
#include "cli/pages/man_page.h"
#include "session/options.h"

#include <string.h>

static bool print_help(const struct zt_options *options, const char *name, struct zt_err *err) {
    struct zt_options shown = *options;
    shown.named = name != NULL;
    for (const struct zt_command_row *c = options->commands; c->name; c++)
        if (!name || strcmp(c->name, name) == 0) {
            shown.command = c;
            zt_options_help(&shown, options->commands, stdout);
            return true;
        }
    return zt_fail(err, ZT_EXIT_CONFIG, "unknown command %s", name) || zt_hint(err, "`ztrain help` lists the commands");
}

bool zt_cli_help(const struct zt_options *options, struct zt_err *err) {
    const char *shell = options->completions, *name = options->operands[0];
    if (options->man + options->keys + (shell != NULL) + (name != NULL) > 1)
        return zt_fail(err, ZT_EXIT_CONFIG, "COMMAND, --man, --completions and --keys exclude each other");
    if (shell)
        return zt_completions_print(options->commands, shell, stdout, err);
    if (options->man)
        zt_man_page_print(options->commands, stdout);
    else if (options->keys)
        zt_key_rows_print(stdout);
    else
        return print_help(options, name, err);
    return true;
}
