/* Reading a config from a text, for the tests of src/config. */
#ifndef ZT_TESTS_CONFIG_READ_H
#define ZT_TESTS_CONFIG_READ_H

#include "base/text.h"
#include "config/config.h"
#include "config/table.h"
#include "data/data.h"
#include "optim/types/types.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The keys that every config needs. */
#define BATCH "\"train_batch_size\": 8"
#define ADAM  "\"optimizer\": {\"type\": \"Adam\"}"

static const struct zt_key_catalog catalog = { .owners = { [ZT_KEY_OPTIMIZER] = zt_optimizer_types,
                                                           [ZT_KEY_SCHEDULER] = zt_lr_rule_types,
                                                           [ZT_KEY_FORMAT] = zt_format_types } };

struct result {
    struct zt_config *config; /* NULL: refused */
    struct zt_err err;
    char text[ZT_ERR_LINES * 2 * ZT_ERR_TEXT]; /* all problems and hints, a line each */
};

static inline struct zt_config_overrides no_overrides(void) {
    return (struct zt_config_overrides){ .epochs = -1, .steps = -1, .seed = -1 };
}

/* Reads `count` files, each laid over those before it. */
static inline void read_paths(struct result *to, const char **paths, int count,
                              const struct zt_config_overrides *over) {
    *to = (struct result){ 0 };
    to->config = zt_config_read(&(struct zt_texts){ paths, count }, over, &catalog, &to->err);
    ck_assert_int_eq(to->config == NULL, to->err.count > 0);
    for (int i = 0; i < to->err.count && i < ZT_ERR_LINES; i++) {
        size_t n = strlen(to->text);
        snprintf(to->text + n, sizeof to->text - n, "%s\n%s\n", to->err.text[i], to->err.hint[i]);
    }
    if (!to->config)
        ck_assert_int_eq(to->err.code, ZT_EXIT_CONFIG);
}

static inline void read_path(struct result *to, const char *path, const struct zt_config_overrides *over) {
    read_paths(to, &path, 1, over);
}

/* A new file with this text. `path`: TEMPORARY, a name in the current folder. */
#define TEMPORARY "zt-config-XXXXXX"
static inline void write_temporary(char *path, const void *text, size_t size) {
    int fd = mkstemp(path);
    ck_assert(fd >= 0);
    ck_assert(write(fd, text, size) == (ssize_t)size);
    close(fd);
}

static inline void read_bytes(struct result *to, const void *text, size_t size,
                              const struct zt_config_overrides *over) {
    char path[] = TEMPORARY;
    write_temporary(path, text, size);
    read_path(to, path, over);
    unlink(path);
}

static inline void read_text(struct result *to, const char *text) {
    struct zt_config_overrides over = no_overrides();
    read_bytes(to, text, strlen(text), &over);
}

/* Reads `text`, which must pass; destroy the config after use. */
static inline struct zt_config *accept(const char *text) {
    struct result got;
    read_text(&got, text);
    ck_assert_msg(got.config != NULL, "refused: %s\n%s", text, got.text);
    return got.config;
}
#define CONFIG(...) accept("{" BATCH ", " __VA_ARGS__ "}")

/* The same with a command line. */
static inline struct zt_config *with(const char *text, const struct zt_config_overrides *over) {
    struct result got;
    read_bytes(&got, text, strlen(text), over);
    ck_assert_msg(got.config != NULL, "%s", got.text);
    return got.config;
}

/* Reads `text`, which must be refused with all of `words` (separated by '|') and exactly `count` problems (0: any). */
static inline void refuse_with(const char *text, const struct zt_config_overrides *over, const char *words, int count) {
    struct result got;
    char word[256];
    read_bytes(&got, text, strlen(text), over);
    ck_assert_msg(got.config == NULL, "not refused: %s", text);
    while (*words) {
        size_t n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        ck_assert_msg(strstr(got.text, word) != NULL, "\"%s\" is not in\n%sof %s", word, got.text, text);
        words += words[n] ? n + 1 : n;
    }
    if (count)
        ck_assert_msg(got.err.count == count, "%d problems, wants %d:\n%sof %s", got.err.count, count, got.text, text);
}

static inline void refuse(const char *text, const char *words, int count) {
    struct zt_config_overrides over = no_overrides();
    refuse_with(text, &over, words, count);
}

/* The value of a number, flag or choice that the chosen type owns. */
static inline double param(const struct zt_config *c, const char *key) {
    const struct zt_key_table *t = c->table;
    int i = 0;
    while (i < t->count && (strcmp(t->row[i]->key, key) != 0 || !zt_key_exists(t, i)))
        i++;
    ck_assert_msg(i < t->count, "%s does not exist", key);
    const void *at = zt_key_stored(c, t->row[i]);
    switch (t->row[i]->type) {
    case ZT_KEY_BOOL:
    case ZT_KEY_INDEX:
        return *(const bool *)at;
    case ZT_KEY_INT:
        return (double)*(const int64_t *)at;
    case ZT_KEY_EACH:
        return ((const struct zt_numbers *)at)->at[0];
    default:
        return *(const double *)at;
    }
}

static inline bool mentions(const struct zt_texts *texts, const char *word) {
    for (int i = 0; i < texts->count; i++)
        if (strstr(texts->at[i], word))
            return true;
    return false;
}

static inline int run_cases(const char *name, const TTest *const *cases, int count) {
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 300);
    for (int i = 0; i < count; i++)
        tcase_add_test(tcase, cases[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
