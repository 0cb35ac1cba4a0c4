#include "config/table.h"
#include "config/rows.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct zt_key_rows *const tables[] = { &zt_key_rows_train, &zt_key_rows_zero, &zt_key_rows_tools,
                                                    &zt_key_rows_ztrain };
enum { TABLES = sizeof tables / sizeof tables[0] };

size_t zt_key_count(void) {
    size_t count = 0;
    for (size_t i = 0; i < TABLES; i++)
        count += tables[i]->count;
    return count;
}

const struct zt_key_row *zt_key_at(size_t index) {
    size_t i = 0;
    for (; i < TABLES && index >= tables[i]->count; i++)
        index -= tables[i]->count;
    return &tables[i]->row[index];
}

const struct zt_key_choice *zt_key_choose(const struct zt_key_row *row, const char *name) {
    for (const struct zt_key_choice *c = row->choices; c->name; c++) {
        size_t n = strlen(c->name);
        if (n && c->name[n - 1] == '*' ? strncmp(c->name, name, n - 1) == 0
                                       : (row->any_case ? strcasecmp(c->name, name) : strcmp(c->name, name)) == 0)
            return c;
    }
    return NULL;
}

/* A name farther off than this is no misspelling of it. */
static int farthest(const char *name) {
    int half = (int)strnlen(name, 64) / 2;
    return half < 2 ? 2 : half;
}

const char *zt_key_nearest_choice(const struct zt_key_row *row, const char *name) {
    const char *nearest = NULL;
    int least = farthest(name) + 1;
    for (const struct zt_key_choice *c = row->choices; c->name; c++) {
        int d = zt_edit_distance(c->name, name);
        if (c->status != ZT_KEY_REJECT && d < least) {
            least = d;
            nearest = c->name;
        }
    }
    return nearest;
}

/* What other programs call a key, and its last part here. */
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
    };
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcasecmp(synonyms[i].other, name) == 0)
            return synonyms[i].leaf;
    return NULL;
}

const char *zt_key_nearest(const char *parent, const char *name, unsigned types) {
    const char *nearest = NULL, *elsewhere = NULL, *synonym = synonym_of(name);
    size_t prefix = strlen(parent);
    name = synonym ? synonym : name;
    int least = farthest(name) + 1;
    for (size_t i = 0, n = zt_key_count(); i < n; i++) {
        const struct zt_key_row *row = zt_key_at(i);
        const char *dot = strrchr(row->key, '.'), *leaf = dot ? dot + 1 : row->key;
        if (row->now || (row->of && !(row->of & types)))
            continue;
        size_t folder = dot ? (size_t)(dot - row->key) : 0;
        if (folder != prefix || strncmp(row->key, parent, folder) != 0) {
            if (!elsewhere && strcasecmp(leaf, name) == 0)
                elsewhere = row->key;
            continue;
        }
        int d = zt_edit_distance(leaf, name);
        if (d < least) {
            least = d;
            nearest = row->key;
        }
    }
    return elsewhere && least > (synonym ? 0 : 2) ? elsewhere : nearest;
}

const char *zt_key_range(const struct zt_key_row *row, char *to) {
    bool low = row->min > -HUGE_VAL, high = row->max < HUGE_VAL;
    if (low && high && !row->above && !row->below)
        snprintf(to, 64, "%.15g..%.15g", row->min, row->max);
    else if (low && high)
        snprintf(to, 64, "in %c%.15g, %.15g%c", row->above ? '(' : '[', row->min, row->max, row->below ? ')' : ']');
    else if (low)
        snprintf(to, 64, "%s %.15g", row->above ? ">" : ">=", row->min);
    else
        to[0] = 0;
    return to;
}
