#include "config/nearest_key.h"

#include "base/text.h"

#include <string.h>

/* The largest distance of a misspelling from `name`: a letter of a short name, two of a long one. */
static int farthest(const char *name) {
    return strnlen(name, 64) < 6 ? 1 : 2;
}

const char *zt_key_nearest_choice(const struct zt_key_row *row, const char *name) {
    const char *nearest = NULL;
    int least = farthest(name) + 1;
    name = strcasecmp(name, "gpu") == 0 ? "cuda" : name; /* not "cpu" */
    for (const struct zt_key_choice *c = row->choices; c->name; c++) {
        int d = zt_edit_distance(c->name, name);
        if (c->status != ZT_KEY_REJECT && d < least) {
            least = d;
            nearest = c->name;
        }
    }
    return nearest;
}

/* The last part of the key that other programs call `name`; NULL: no other name is known. */
static const char *synonym_of(const char *name) {
    static const struct {
        const char *other, *leaf;
    } synonyms[] = {
        { "learning_rate", "lr" },
        { "batch_size", "train_batch_size" },
        { "global_batch_size", "train_batch_size" },
        { "micro_batch_size", "train_micro_batch_size_per_gpu" },
        { "per_device_train_batch_size", "train_micro_batch_size_per_gpu" },
        { "grad_accum", "gradient_accumulation_steps" },
        { "accumulate_grad_batches", "gradient_accumulation_steps" },
        { "max_grad_norm", "gradient_clipping" },
        { "clip_grad_norm", "gradient_clipping" },
        { "grad_clip", "gradient_clipping" },
        { "beta1", "betas" },
        { "beta2", "betas" },
        { "adam_beta1", "betas" },
        { "adam_beta2", "betas" },
        { "epsilon", "eps" },
        { "adam_epsilon", "eps" },
        { "wd", "weight_decay" },
        { "warmup_steps", "warmup_num_steps" },
        { "max_steps", "steps" },
        { "num_steps", "steps" },
        { "total_steps", "total_num_steps" },
        { "num_epochs", "epochs" },
        { "num_train_epochs", "epochs" },
        { "max_epochs", "epochs" },
        { "random_seed", "seed" },
        { "criterion", "loss" },
        { "dataset", "data" },
        { "label", "target" },
        { "labels", "target" },
        { "lr_scheduler", "scheduler" },
        { "lr_scheduler_type", "scheduler" },
        { "optim", "optimizer" },
        { "use_bf16", "bf16" },
        { "num_stages", "stages" },
        { "entity", "team" },
        { "gradient_accumulation_dtype", "grad_accum_dtype" },
        { "cpu_offload_pin_memory", "pin_memory" },
        { "r", "rank" },
    };
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcasecmp(synonyms[i].other, name) == 0)
            return synonyms[i].leaf;
    return NULL;
}

static const char *leaf_of(const struct zt_key_row *row) {
    const char *dot = strrchr(row->key, '.');
    return dot ? dot + 1 : row->key;
}

/* Whether row i is a key of the object `parent`. */
static bool is_member(const struct zt_key_table *table, int i, const char *parent) {
    const char *key = table->row[i]->key, *leaf = leaf_of(table->row[i]);
    size_t length = strlen(parent), folder = leaf == key ? 0 : (size_t)(leaf - key) - 1;
    return folder == length && strncmp(key, parent, folder) == 0;
}

static bool is_offered(const struct zt_key_table *table, int i) {
    return !table->row[i]->now && zt_key_exists(table, i);
}

/* The key whose last part is `leaf`: of the object `parent`, else the first elsewhere. */
static const char *key_called(const struct zt_key_table *table, const char *parent, const char *leaf) {
    const char *elsewhere = NULL;
    for (int i = 0; i < table->count; i++) {
        if (!is_offered(table, i) || strcmp(leaf_of(table->row[i]), leaf) != 0)
            continue;
        if (is_member(table, i, parent))
            return table->row[i]->key;
        elsewhere = elsewhere ? elsewhere : table->row[i]->key;
    }
    return elsewhere;
}

/* Whether a row belongs to an item of a list or to an object with free names. */
static bool is_repeated(const struct zt_key_row *row) {
    return strstr(row->key, "[]") || strchr(row->key, '*');
}

const char *zt_key_home(const struct zt_key_table *table, const char *name) {
    const char *home = NULL;
    for (int i = 0; i < table->count; i++) {
        const struct zt_key_row *row = table->row[i];
        if (!is_offered(table, i) || is_repeated(row) || strcmp(leaf_of(row), name) != 0 ||
            row->status != ZT_KEY_WORKS || strncmp(row->key, "ztrain.", 7) == 0 ||
            (home && strcmp(home, row->key) == 0))
            continue;
        if (home)
            return NULL;
        home = row->key;
    }
    return home;
}

/* The key with the last part `name` in an object of the object `parent`; NULL: none. */
static const char *key_inside(const struct zt_key_table *table, const char *parent, const char *name) {
    const size_t length = strlen(parent);
    for (int i = 0; length && i < table->count; i++) {
        const struct zt_key_row *row = table->row[i];
        if (is_offered(table, i) && !is_repeated(row) && strcmp(leaf_of(row), name) == 0 &&
            strncmp(row->key, parent, length) == 0 && row->key[length] == '.')
            return row->key;
    }
    return NULL;
}

/* The shortest key of the object `parent` that `name` is the beginning of. */
static const char *key_beginning(const struct zt_key_table *table, const char *parent, const char *name) {
    enum { SHORTEST = 4 };
    const char *found = NULL;
    const size_t length = strlen(name);
    for (int i = 0; length >= SHORTEST && i < table->count; i++) {
        const char *key = table->row[i]->key;
        if (is_offered(table, i) && is_member(table, i, parent) && strncmp(leaf_of(table->row[i]), name, length) == 0 &&
            (!found || strlen(key) < strlen(found)))
            found = key;
    }
    return found;
}

/* The key of the object `parent` from which `name` differs by the least edit distance, within what a misspelling has;
 * NULL: none. `old`: of the deprecated ones. */
static const char *key_near(const struct zt_key_table *table, const char *parent, const char *name, bool old) {
    const char *nearest = NULL;
    int least = farthest(name) + 1;
    for (int i = 0; i < table->count; i++) {
        if ((table->row[i]->now != NULL) != old || !zt_key_exists(table, i) || !is_member(table, i, parent))
            continue;
        int d = zt_edit_distance(leaf_of(table->row[i]), name);
        if (d < least) {
            least = d;
            nearest = table->row[i]->key;
        }
    }
    return nearest;
}

const char *zt_key_nearest(const struct zt_key_table *table, const char *parent, const char *name) {
    const char *synonym = synonym_of(name);
    const char *called = synonym ? key_called(table, parent, synonym) : NULL;
    if (called)
        return called;
    const char *nearest = key_near(table, parent, name, false);
    nearest = nearest ? nearest : key_beginning(table, parent, name);
    nearest = nearest ? nearest : key_near(table, parent, name, true);
    return nearest ? nearest : key_inside(table, parent, name);
}
