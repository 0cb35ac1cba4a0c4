// Hostile bytes as a command line, its words ended by zero bytes.
#include "fuzz.h"
#include "session/options.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 64 };

static bool run(const struct zt_options *options, struct zt_err *err) {
    (void)options, (void)err;
    return true;
}

static const struct zt_command_row commands[] = {
    { .name = "train", .summary = "all options", .takes = ~0u, .needs = ZT_TAKES_MODEL, .run = run, .help = "usage\n" },
    { .name = "verify",
      .summary = "a word",
      .takes = ZT_TAKES_HELP,
      .run = run,
      .help = "usage\n",
      .operands = { "A", "B" } },
    { .name = "bench",
      .summary = "lists",
      .takes = ZT_TAKES_COMBINATIONS | ZT_TAKES_REPEATS,
      .run = run,
      .help = "usage\n" },
    { 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_options options;
    char *text = malloc(size + 1), *words[MOST_WORDS + 2] = { "ztrain" };
    int count = 1;
    memcpy(text, data, size);
    text[size] = 0;
    for (char *at = text; at < text + size && count <= MOST_WORDS; at += strlen(at) + 1)
        words[count++] = at;
    bool ok = zt_options_parse(&options, commands, count, words, &err);
    fuzz_promise(ok ? err.count == 0 : err.count > 0 && err.code == ZT_EXIT_CONFIG);
    fuzz_promise(!ok || options.help || options.version || options.command->run(&options, &err));
    if (ok && options.help) {
        FILE *to = fopen("/dev/null", "w");
        zt_options_help(&options, commands, to);
        fclose(to);
    }
    zt_options_finish(&options);
    free(text);
    return 0;
}
