#include "cli/pages/completions.h"

#include <string.h>

/* Kinds of completions of a value. */
enum values { NOTHING, FILES, FOLDERS, COMMANDS, WORDS };

static enum values values_of(const char *argument) {
    static const struct {
        const char *name;
        enum values values;
    } known[] = {
        { "FILE", FILES },           { "SRC", FILES },          { "DIR", FOLDERS },
        { "[CHECKPOINT]", FOLDERS }, { "RUN", FOLDERS },        { "RUN_A", FOLDERS },
        { "RUN_B", FOLDERS },        { "CHECKPOINT", FOLDERS }, { "CHECKPOINT|FILE", FILES },
        { "[COMMAND]", COMMANDS },
    };
    for (size_t i = 0; argument && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, argument) == 0)
            return known[i].values;
    return argument && strchr(argument, '|') ? WORDS : NOTHING;
}

/* Prints "a b c" for "a|b|c". */
static void print_words(const char *words, FILE *to) {
    for (; *words; words++)
        fputc(*words == '|' ? ' ' : *words, to);
}

static void print_commands(const struct zt_command_row *commands, FILE *to) {
    for (const struct zt_command_row *c = commands; c->name; c++)
        fprintf(to, "%s%s", c == commands ? "" : " ", c->name);
}

static void print_head(const char *first, const char *shell, FILE *to) {
    fprintf(to, "%s# Completions of ztrain %s. Written by `ztrain help --completions %s`.\n", first, ZT_VERSION, shell);
}

/* Prints a text in single quotes, with `before` before the characters of `special`. */
static void print_quoted(const char *text, const char *special, const char *quote, FILE *to) {
    for (; *text; text++)
        if (*text == '\'')
            fputs(quote, to);
        else
            fprintf(to, "%s%c", strchr(special, *text) ? "\\" : "", *text);
}

/* ---- bash ---- */

static void print_bash_values(const struct zt_command_row *commands, enum values values, const char *words, FILE *to) {
    static const char *const action[] = { [FILES] = "_ztrain_complete -f", [FOLDERS] = "_ztrain_complete -d" };
    if (values == FILES || values == FOLDERS)
        fputs(action[values], to);
    else if (values != NOTHING)
        fputs("_ztrain_complete -W \"", to);
    if (values == COMMANDS)
        print_commands(commands, to);
    if (values == WORDS)
        print_words(words, to);
    if (values == COMMANDS || values == WORDS)
        fputc('"', to);
}

/* Prints the case of an option with a value, once for all commands. */
static void print_bash_option(const struct zt_command_row *commands, const struct zt_command_row *command,
                              const struct zt_option *option, FILE *to) {
    struct zt_option other;
    for (const struct zt_command_row *c = commands; c < command; c++)
        for (int i = 0; zt_options_at(c, i, &other); i++)
            if (strcmp(other.name, option->name) == 0)
                return;
    if (values_of(option->argument) == NOTHING) {
        fprintf(to, "    --%s) return ;;\n", option->name);
        return;
    }
    fprintf(to, "    --%s)\n        ", option->name);
    print_bash_values(commands, values_of(option->argument), option->argument, to);
    /* where the value may be left out, the next word may be an option */
    fprintf(to, "\n        %sreturn ;;\n", option->argument[0] == '[' ? "[[ $cur == -* ]] || " : "");
}

static void print_bash_command(const struct zt_command_row *commands, const struct zt_command_row *command, FILE *to) {
    struct zt_option option;
    fprintf(to, "    %s)\n        options=\"", command == commands ? "*" : command->name);
    for (int i = 0; zt_options_at(command, i, &option); i++)
        fprintf(to, "%s--%s", i ? " " : "", option.name);
    fputs("\"\n", to);
    if (command->operands[0]) {
        fputs("        [[ $cur == -* ]] || { ", to);
        print_bash_values(commands, values_of(command->operands[0]), NULL, to);
        fputs("; return; }\n", to);
    }
    fputs("        ;;\n", to);
}

static const char bash_start[] =
    "_ztrain_complete() {\n"
    "    [[ $1 == -W ]] || compopt -o filenames\n"
    "    mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$cur\")\n"
    "}\n\n"
    "_ztrain() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= options\n"
    "    if [[ $cur == = ]]; then # --name=, whose parts are words\n"
    "        cur=\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]}\n"
    "    COMPREPLY=()\n"
    "    case $prev in\n";

static void print_bash(const struct zt_command_row *commands, FILE *to) {
    struct zt_option option;
    print_head("", "bash", to);
    fputs(bash_start, to);
    for (const struct zt_command_row *c = commands; c->name; c++)
        for (int i = 0; zt_options_at(c, i, &option); i++)
            if (option.argument)
                print_bash_option(commands, c, &option, to);
    fputs("    esac\n    case $command in\n", to);
    for (const struct zt_command_row *c = commands + 1; c->name; c++)
        print_bash_command(commands, c, to);
    print_bash_command(commands, commands, to);
    fputs(
        "    esac\n    ((COMP_CWORD == 1)) && options=\"--version $options\"\n"
        "    ((COMP_CWORD == 1)) && [[ $cur != -* ]] && options=\"",
        to);
    print_commands(commands, to);
    fputs("\"\n    _ztrain_complete -W \"$options\"\n}\ncomplete -F _ztrain ztrain\n", to);
}

/* ---- zsh ---- */

static void print_zsh_values(const char *argument, FILE *to) {
    static const char *const action[] = {
        [NOTHING] = " ", [FILES] = "_files", [FOLDERS] = "_files -/", [COMMANDS] = "_ztrain_commands"
    };
    enum values values = values_of(argument);
    fprintf(to, ":%s:", argument[0] == '[' ? ":" : "");
    print_quoted(argument, ":[]", "", to);
    fputc(':', to);
    if (values != WORDS) {
        fputs(action[values], to);
        return;
    }
    fputc('(', to);
    print_words(argument, to);
    fputc(')', to);
}

static void print_zsh_option(const struct zt_option *option, FILE *to) {
    fprintf(to, "            '%s--%s%s[", option->repeats ? "*" : "", option->name, option->argument ? "=" : "");
    print_quoted(option->help, ":[]\\", "'\\''", to);
    fputc(']', to);
    if (option->argument)
        print_zsh_values(option->argument, to);
    fputs("'\n", to);
}

static void print_zsh_command(const struct zt_command_row *commands, const struct zt_command_row *command, FILE *to) {
    struct zt_option option;
    fprintf(to, "    %s)\n        options=(\n", command == commands ? "*" : command->name);
    for (int i = 0; zt_options_at(command, i, &option); i++)
        print_zsh_option(&option, to);
    for (int i = 0; i < 2 && command->operands[i]; i++) {
        fputs("            '", to);
        print_zsh_values(command->operands[i], to);
        fputs("'\n", to);
    }
    fputs("        ) ;;\n", to);
}

static const char zsh_start[] =
    "_ztrain() {\n"
    "    local -a options\n"
    "    if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
    "        _ztrain_commands\n"
    "        return\n"
    "    fi\n"
    "    local command=$words[2]\n"
    "    if [[ $command != -* ]]; then\n"
    "        shift words\n"
    "        ((CURRENT--))\n"
    "    fi\n"
    "    case $command in\n";

static void print_zsh(const struct zt_command_row *commands, FILE *to) {
    print_head("#compdef ztrain\n", "zsh", to);
    fputs("_ztrain_commands() {\n    local -a commands=(\n", to);
    for (const struct zt_command_row *c = commands; c->name; c++) {
        fprintf(to, "        '%s:", c->name);
        print_quoted(c->summary, "", "'\\''", to);
        fputs("'\n", to);
    }
    fputs("    )\n    _describe command commands\n}\n\n", to);
    fputs(zsh_start, to);
    for (const struct zt_command_row *c = commands + 1; c->name; c++)
        print_zsh_command(commands, c, to);
    print_zsh_command(commands, commands, to);
    fputs("    esac\n    _arguments $options\n}\n\n_ztrain \"$@\"\n", to);
}

/* ---- fish ---- */

/* Begins a line for the arguments of a command. The default command has those of lines without another command. */
static void print_fish_start(const struct zt_command_row *commands, const struct zt_command_row *command, FILE *to) {
    fputs("complete -c ztrain -n '", to);
    if (command == commands) {
        fputs("not __fish_seen_subcommand_from ", to);
        print_commands(commands + 1, to);
    } else
        fprintf(to, "__fish_seen_subcommand_from %s", command->name);
    fputs("'", to);
}

static void print_fish_values(const struct zt_command_row *commands, const char *argument, FILE *to) {
    enum values values = values_of(argument);
    const char *needed = argument[0] == '[' ? "" : " -r";
    if (values == FILES)
        fprintf(to, "%s -F", needed);
    else if (values == FOLDERS)
        fprintf(to, "%s -f -a '(__fish_complete_directories)'", needed);
    else if (values == NOTHING)
        fprintf(to, "%s -f", needed);
    else {
        fprintf(to, "%s -f -a '", needed);
        if (values == COMMANDS)
            print_commands(commands, to);
        else
            print_words(argument, to);
        fputc('\'', to);
    }
}

static void print_fish_command(const struct zt_command_row *commands, const struct zt_command_row *command, FILE *to) {
    struct zt_option option;
    for (int i = 0; zt_options_at(command, i, &option); i++) {
        print_fish_start(commands, command, to);
        fprintf(to, " -l %s", option.name);
        if (option.argument)
            print_fish_values(commands, option.argument, to);
        fputs(" -d '", to);
        print_quoted(option.help, "\\", "\\'", to);
        fputs("'\n", to);
    }
    if (command->operands[0]) {
        print_fish_start(commands, command, to);
        print_fish_values(commands, command->operands[0], to);
        fputc('\n', to);
    }
}

static void print_fish(const struct zt_command_row *commands, FILE *to) {
    print_head("", "fish", to);
    fputs("complete -c ztrain -f\ncomplete -c ztrain -n __fish_use_subcommand -l version -d 'print the version'\n", to);
    for (const struct zt_command_row *c = commands; c->name; c++) {
        fprintf(to, "complete -c ztrain -n __fish_use_subcommand -a %s -d '", c->name);
        print_quoted(c->summary, "\\", "\\'", to);
        fputs("'\n", to);
    }
    for (const struct zt_command_row *c = commands; c->name; c++)
        print_fish_command(commands, c, to);
}

bool zt_completions_print(const struct zt_command_row *commands, const char *shell, FILE *to, struct zt_err *err) {
    static const struct {
        const char *name;
        void (*print)(const struct zt_command_row *, FILE *);
    } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print(commands, to);
            return true;
        }
    return zt_fail(err, ZT_EXIT_CONFIG, "--completions: unknown shell \"%s\"", shell) ||
           zt_hint(err, "known are: bash, zsh, fish");
}
