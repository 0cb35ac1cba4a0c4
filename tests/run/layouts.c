#include "tests/run/layouts.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { CONFIG_SIZE = 800, KEPT = 16 };

static void describe(char *config, struct layout l) {
    snprintf(config, CONFIG_SIZE,
             "'train_batch_size': 8, 'train_micro_batch_size_per_gpu': %d, 'zero_optimization': {'stage': %d%s}, "
             "'pipeline': {'stages': %d, 'partition': '%s', 'seed_layers': %s}, 'ztrain': {'seed': %d, "
             "'parallel': {'communicator': 'thread', 'schedule': '%s', 'mode': '%s', 'sync_batch_norm': %s}, 'loss': "
             "{'label_smoothing': 0.1%s}, "
             "'data': {'samples': %d}, 'ema': %g, 'dataloader': '%s'}, 'gradient_clipping': 0.7, "
             "'optimizer': {'type': '%s', 'params': {'lr': 0.01, 'weight_decay': 0.01}}",
             l.micro, l.zero, l.more ? l.more : "", l.stages, l.partition ? l.partition : "best",
             l.seed_layers ? "true" : "false", l.seed, l.schedule ? l.schedule : "1f1b", l.mode ? l.mode : "ddp",
             l.sync ? "true" : "false", l.loss ? l.loss : "", l.samples ? l.samples : 22, l.ema,
             l.stream ? "deepspeed" : "ztrain", l.optimizer ? l.optimizer : "AdamW");
}

struct tiny_run layout_train(struct zt_graph *(*make)(void), struct layout l) {
    char config[CONFIG_SIZE];
    describe(config, l);
    return tiny_learn(make(), config, l.ranks, LAYOUT_STEPS, l.device);
}

struct tiny_run layout_train_once(struct zt_graph *(*make)(void), struct layout l) {
    static struct {
        struct zt_graph *(*make)(void);
        struct layout layout;
        char config[CONFIG_SIZE];
        struct tiny_run run;
    } kept[KEPT];
    static size_t used;
    char config[CONFIG_SIZE];
    describe(config, l);
    for (size_t i = 0; i < used && i < KEPT; i++)
        if (kept[i].make == make && kept[i].layout.ranks == l.ranks && kept[i].layout.device == l.device &&
            strcmp(kept[i].config, config) == 0)
            return kept[i].run;
    size_t at = used++ % KEPT;
    kept[at].make = make;
    kept[at].layout = l;
    memcpy(kept[at].config, config, sizeof config);
    kept[at].run = layout_train(make, l);
    return kept[at].run;
}

static void check(const char *what, int step, double a, double b, double tolerance, const struct layout *l) {
    ck_assert_msg(fabs(a - b) <= tolerance * fabs(b),
                  "%d ranks, %d stages, zero %d, %s, %s%s: %s %d is %.9g, wants %.9g", l->ranks, l->stages, l->zero,
                  l->mode ? l->mode : "ddp", l->schedule ? l->schedule : "1f1b", l->more ? l->more : "", what, step, a,
                  b);
}

void layout_check_close(const struct tiny_run *a, const struct tiny_run *b, double tolerance, struct layout l) {
    for (int i = 0; i < LAYOUT_STEPS; i++) {
        check("loss", i, a->loss[i], b->loss[i], tolerance, &l);
        check("norm", i, a->norm[i], b->norm[i], 10 * tolerance, &l);
    }
    check("evaluation", 0, a->eval_loss, b->eval_loss, tolerance, &l);
}
