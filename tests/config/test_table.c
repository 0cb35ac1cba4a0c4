/* The key table itself: a row that contradicts itself would be found by no user in time. */
#include "read.h"

#include "config/meanings/meanings.h"
#include "config/read.h"

/* All keys of all types. */
static const struct zt_key_table *table;

static const struct zt_key_row *row_at(size_t i) {
    return table->row[i];
}

static int index_of(const char *key) {
    for (size_t i = 0, n = (size_t)table->count; i < n; i++)
        if (strcmp(row_at(i)->key, key) == 0)
            return (int)i;
    return -1;
}

START_TEST(every_key_stands_below_its_object) {
    for (size_t i = 0, n = (size_t)table->count; i < n; i++) {
        char parent[160];
        snprintf(parent, sizeof parent, "%s", row_at(i)->key);
        char *dot = strrchr(parent, '.');
        if (!dot)
            continue;
        *dot = 0;
        size_t end = strlen(parent);
        if (parent[end - 1] == ']')
            parent[end - 2] = 0;
        int at = index_of(parent);
        ck_assert_msg(at >= 0 && at < (int)i, "%s", row_at(i)->key);
        for (int k = at + 1; k < (int)i;
             k++) /* one object, one block: the writer and readers of the table rely on it */
            ck_assert_msg(strncmp(row_at((size_t)k)->key, parent, strlen(parent)) == 0, "%s: %s is between",
                          row_at(i)->key, row_at((size_t)k)->key);
    }
}
END_TEST

START_TEST(keys_repeat_only_for_different_types) {
    for (size_t i = 0, n = (size_t)table->count; i < n; i++) {
        const struct zt_key_row *row = row_at(i);
        for (size_t k = i + 1; k < n; k++)
            if (strcmp(row->key, row_at(k)->key) == 0) {
                ck_assert_msg(table->owner[i] && table->owner[k] && table->owner[i] != table->owner[k], "%s", row->key);
            }
    }
}
END_TEST

START_TEST(rows_name_keys_that_exist_and_say_why) {
    for (size_t i = 0, n = (size_t)table->count; i < n; i++) {
        const struct zt_key_row *row = row_at(i);
        char today[160];
        const char *dot = strrchr(row->key, '.');
        ck_assert_msg(!row->same || index_of(row->same) >= 0, "%s", row->key);
        snprintf(today, sizeof today, "%.*s%s", dot ? (int)(dot - row->key) + 1 : 0, row->key,
                 row->now ? row->now : "");
        ck_assert_msg(!row->now || index_of(today) >= 0, "%s", row->key);
        bool refused = row->status == ZT_KEY_LATER || row->status == ZT_KEY_REJECT;
        ck_assert_msg(!refused || row->why, "%s", row->key);
        bool stored = row->size || row->same || row->now || strstr(row->key, "[]") || strstr(row->key, ".*") ||
                      row->type >= ZT_KEY_OBJECT;
        ck_assert_msg(row->status != ZT_KEY_WORKS || stored, "%s works but goes nowhere", row->key);
        for (const struct zt_key_choice *c = row->choices; c && c->name; c++)
            ck_assert_msg(c->status != ZT_KEY_REJECT || c->why, "%s %s", row->key, c->name);
    }
}
END_TEST

START_TEST(stored_rows_have_the_size_of_their_type) {
    static const struct {
        enum zt_key_type type;
        size_t size, other;
    } sizes[] = {
        { ZT_KEY_BOOL, sizeof(bool), 0 },
        { ZT_KEY_INT, sizeof(int), sizeof(int64_t) },
        { ZT_KEY_BYTES, sizeof(int64_t), 0 },
        { ZT_KEY_NUMBER, sizeof(double), 0 },
        { ZT_KEY_PAIR, sizeof(double), 0 },
        { ZT_KEY_EACH, sizeof(struct zt_numbers), 0 },
        { ZT_KEY_NUMBERS, sizeof(struct zt_numbers), 0 },
        { ZT_KEY_TEXT, sizeof(char *), 0 },
        { ZT_KEY_PATH, sizeof(char *), 0 },
        { ZT_KEY_CHOICE, sizeof(char *), 0 },
        { ZT_KEY_INDEX, sizeof(bool), sizeof(int) },
        { ZT_KEY_TEXTS, sizeof(struct zt_texts), 0 },
        { ZT_KEY_GROUPS, sizeof(struct zt_text_lists), 0 },
        { ZT_KEY_HAS, sizeof(bool), 0 },
        { ZT_KEY_FREE, sizeof(char *), 0 },
        { ZT_KEY_NAMED, sizeof(void *), 0 },
        { ZT_KEY_OBJECTS, sizeof(void *), 0 },
    };
    for (size_t i = 0, n = (size_t)table->count; i < n; i++) {
        const struct zt_key_row *row = row_at(i);
        bool fits = !row->size;
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            fits |= row->type == sizes[k].type && (row->size == sizes[k].size || row->size == sizes[k].other);
        ck_assert_msg(fits, "%s", row->key);
        ck_assert_msg(row->type != ZT_KEY_INT || row->size != sizeof(int) || row->max <= 2147483647, "%s overflows",
                      row->key);
    }
}
END_TEST

/* Every default, given as a value, is accepted by its own row and is neutral. */
START_TEST(defaults_are_in_range) {
    for (size_t i = 0, n = (size_t)table->count; i < n; i++) {
        const struct zt_key_row *row = row_at(i);
        bool number = row->type == ZT_KEY_INT || row->type == ZT_KEY_NUMBER;
        if (!row->def)
            continue;
        if (number && !row->keeps_auto) {
            double value = strtod(row->def, NULL);
            ck_assert_msg(value >= row->min && value <= row->max, "%s", row->key);
        }
        ck_assert_msg(!row->choices || row->type == ZT_KEY_HAS || zt_key_choose(row, row->def), "%s", row->key);
        ck_assert_msg(row->type != ZT_KEY_BOOL || !strcmp(row->def, "true") || !strcmp(row->def, "false"), "%s",
                      row->key);
    }
}
END_TEST

START_TEST(a_section_of_deepspeed_is_known_whole) {
    static const char *const keys[] = { "zero_optimization.stage3_max_reuse_distance",
                                        "fp16.hysteresis",
                                        "aio.block_size",
                                        "flops_profiler.recompute_fwd_factor",
                                        "elasticity.prefer_larger_batch",
                                        "autotuning.tuner_early_stopping",
                                        "pipeline.grad_partitioned",
                                        "nebula.enabled",
                                        "wandb.team",
                                        "comet.mode",
                                        "timers.throughput.synchronized",
                                        "eigenvalue.layer_num",
                                        "hybrid_engine.tp_gather_partition_size",
                                        "progressive_layer_drop.gamma",
                                        "ztrain.parallel.sync_batch_norm",
                                        "ztrain.checkpoint.best" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        ck_assert_msg(index_of(keys[i]) >= 0, "%s", keys[i]);
    ck_assert_int_gt(table->count, 380);
}
END_TEST

static void check_sentence(const char *key, const char *text) {
    size_t n = strlen(text);
    ck_assert_msg(n > 1 && text[n - 1] == '.' && text[0] != ' ', "%s: \"%s\" is no sentence", key, text);
}

START_TEST(every_key_has_a_meaning_and_every_meaning_a_key) {
    for (size_t i = 0, n = (size_t)table->count; i < n; i++)
        ck_assert_msg(row_at(i)->now || zt_meaning_of(row_at(i)->key), "%s has no meaning", row_at(i)->key);
    const struct zt_meaning *meaning;
    for (int i = 0; (meaning = zt_meaning_at(i)); i++) {
        ck_assert_msg(index_of(meaning->key) >= 0, "%s is no key", meaning->key);
        ck_assert_msg(zt_meaning_of(meaning->key) == meaning, "%s has two meanings", meaning->key);
        check_sentence(meaning->key, meaning->meaning);
        if (meaning->difference)
            check_sentence(meaning->key, meaning->difference);
    }
}
END_TEST

int main(void) {
    struct zt_arena *arena = zt_arena_create();
    table = zt_key_table_create(arena, &catalog);
    const TTest *const cases[] = { every_key_stands_below_its_object,
                                   keys_repeat_only_for_different_types,
                                   rows_name_keys_that_exist_and_say_why,
                                   stored_rows_have_the_size_of_their_type,
                                   defaults_are_in_range,
                                   a_section_of_deepspeed_is_known_whole,
                                   every_key_has_a_meaning_and_every_meaning_a_key };
    int failed = run_cases("config table", cases, sizeof cases / sizeof cases[0]);
    zt_arena_destroy(arena);
    return failed;
}
