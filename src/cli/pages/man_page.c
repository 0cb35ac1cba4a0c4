#include "cli/pages/man_page.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Prints text as roff prints it unchanged. `dashes`: '-' is the character that is typed, not a hyphen. */
static void print_escaped(FILE *to, const char *text, size_t length, bool dashes) {
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if ((c == '.' || c == '\'') && i == 0) /* a macro at the start of a line */
            fputs("\\&", to);
        if (c == '\\')
            fputs("\\e", to);
        else if (c == '\'')
            fputs("\\(aq", to);
        else if (c == '`')
            fputs("\\(ga", to);
        else if (c == '^' || c == '~')
            fputs(c == '^' ? "\\(ha" : "\\(ti", to);
        else if (c == '-' && (dashes || (i + 1 < length && text[i + 1] == '-') || (i && text[i - 1] == '-')))
            fputs("\\-", to);
        else
            fputc(c, to);
    }
}

static void print_line(FILE *to, const char *text) {
    print_escaped(to, text, strlen(text), true);
    fputc('\n', to);
}

/* Prints text as lines of at most 72 characters; an empty line begins a paragraph. */
static void print_filled(FILE *to, const char *text) {
    size_t column = 0;
    for (size_t n; *text; text += n) {
        n = strcspn(text, " \n");
        if (n == 0) {
            bool paragraph = strncmp(text, "\n\n", 2) == 0;
            fputs(paragraph ? "\n.PP\n" : "", to);
            column = paragraph ? 0 : column;
            n = paragraph ? 2 : 1;
            continue;
        }
        bool fits = column + n < 72;
        if (column)
            fputc(fits ? ' ' : '\n', to);
        print_escaped(to, text, n, false);
        column = (column && fits ? column + 1 : 0) + n;
    }
    fputc('\n', to);
}

static void print_head(FILE *to) {
    const char *given = getenv("SOURCE_DATE_EPOCH");
    int64_t seconds;
    char date[32];
    struct tm parts;
    time_t at = given && zt_text_number(given, &seconds) ? (time_t)seconds : time(NULL);
    gmtime_r(&at, &parts);
    strftime(date, sizeof date, "%Y-%m-%d", &parts);
    fprintf(to, ".\\\" Written by `ztrain help --man`.\n.TH ZTRAIN 1 %s \"ztrain %s\" \"User Commands\"\n", date,
            ZT_VERSION);
    fputs(".SH NAME\nztrain \\- train ONNX models under a DeepSpeed configuration\n.SH SYNOPSIS\n", to);
}

/* The usage is the first line of a command's help. */
static const char *usage_of(const struct zt_command_row *command, int *length) {
    const char *text = command->help + strlen("usage: ");
    *length = (int)strcspn(text, "\n");
    return text;
}

static void print_synopsis(const struct zt_command_row *commands, FILE *to) {
    for (const struct zt_command_row *c = commands; c->name; c++) {
        int length;
        const char *usage = usage_of(c, &length);
        fputs(".B ", to);
        print_escaped(to, usage, (size_t)length, true);
        fputs(c[1].name ? "\n.br\n" : "\n", to);
    }
}

static void print_command(const struct zt_command_row *command, FILE *to) {
    struct zt_option option;
    fprintf(to, ".SS ztrain %s\n", command->name);
    print_filled(to, strstr(command->help, "\n\n") + 2);
    fputs(".PP\nOptions:\n", to);
    for (int i = 0; zt_options_at(command, i, &option); i++) {
        fputs(i ? ",\n.B \\-\\-" : ".B \\-\\-", to);
        print_escaped(to, option.name, strlen(option.name), true);
    }
    fputs("\n", to);
}

static bool takes(const struct zt_command_row *command, const struct zt_option *wanted) {
    struct zt_option option;
    for (int i = 0; zt_options_at(command, i, &option); i++)
        if (option.help == wanted->help)
            return true;
    return false;
}

/* Prints an option and the commands that take it. */
static void print_option(const struct zt_command_row *commands, const struct zt_option *option, FILE *to) {
    const char *comma = "";
    fputs(".TP\n.B \\-\\-", to);
    print_escaped(to, option->name, strlen(option->name), true);
    if (option->argument) {
        fputs(" \\fI", to);
        print_escaped(to, option->argument, strlen(option->argument), true);
        fputs("\\fR", to);
    }
    fputc('\n', to);
    print_filled(to, option->help);
    fputs("(", to);
    for (const struct zt_command_row *c = commands; c->name; c++)
        if (takes(c, option)) {
            fprintf(to, "%s%s", comma, c->name);
            comma = ",\n";
        }
    fputs(")\n", to);
}

/* Every option once, with the first command that takes it. */
static void print_options(const struct zt_command_row *commands, FILE *to) {
    fputs(".SH OPTIONS\nThe commands that take an option are in parentheses.\n", to);
    for (const struct zt_command_row *c = commands; c->name; c++) {
        struct zt_option option;
        for (int i = 0; zt_options_at(c, i, &option); i++) {
            const struct zt_command_row *first = commands;
            while (!takes(first, &option))
                first++;
            if (first == c)
                print_option(commands, &option, to);
        }
    }
    fputs(".TP\n.B \\-\\-version\nprint the version\n", to);
}

struct item {
    const char *name, *text;
};

static void print_items(const char *title, const struct item *item, FILE *to) {
    fprintf(to, ".SH %s\n", title);
    for (; item->name; item++) {
        fputs(".TP\n.B ", to);
        print_line(to, item->name);
        print_filled(to, item->text);
    }
}

static const struct item statuses[] = {
    { "0", "The command is done." },
    { "1", "The run failed: a non-finite loss, too little memory, an error of a device." },
    { "2", "The command line or the configuration is wrong." },
    { "3", "The model is wrong or not supported." },
    { "4", "Data, a checkpoint or output files are wrong or cannot be written." },
    { "5", "Another rank failed or was lost." },
    { "128 + N", "Signal N stopped training after a checkpoint was saved." },
    { 0 },
};
static const struct item variables[] = {
    { "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT", "The ranks of a run, as torchrun sets them." },
    { "ZTRAIN_SECRET, ZTRAIN_SECRET_FILE", "The secret that ranks of one run share when they connect over TCP." },
    { "ZTRAIN_ISA",
      "The instructions that the CPU's kernels may use at most: generic, avx2, avx512, avx512_bf16 or amx. For tests "
      "and "
      "comparisons; the CPU's best by default." },
    { "NO_COLOR", "Output has no colours." },
    { "XDG_CACHE_HOME", "The folder of caches; $HOME/.cache by default." },
    { 0 },
};
static const struct item run_files[] = {
    { "runs/NAME", "The output folder of a run of the model NAME.onnx, unless --output names one." },
    { "model.onnx", "In the output folder: the trained model." },
    { "metrics.jsonl", "In the output folder: a JSON object for each optimizer step." },
    { "config.resolved.json", "In the output folder: the configuration with every default." },
    { "plan.txt", "In the output folder: the plan of the run." },
    { "checkpoints/", "In the output folder: checkpoints step-N, and latest." },
    { 0 },
};

void zt_man_page_print(const struct zt_command_row *commands, FILE *to) {
    print_head(to);
    print_synopsis(commands, to);
    fputs(".SH DESCRIPTION\n", to);
    print_filled(to,
                 "ztrain loads an ONNX model, differentiates it, plans data, pipeline and ZeRO parallelism, trains it "
                 "under a DeepSpeed configuration and writes a trained ONNX model. Results go to standard output, "
                 "messages to standard error.");
    fputs(".SH COMMANDS\n", to);
    for (const struct zt_command_row *c = commands; c->name; c++)
        print_command(c, to);
    print_options(commands, to);
    print_items("EXIT STATUS", statuses, to);
    print_items("ENVIRONMENT", variables, to);
    print_items("FILES", run_files, to);
}
