#include "tests/run/layouts.h"

#include <check.h>
#include <math.h>

struct tiny_run layout_train(struct zt_graph *(*make)(void), struct layout l) {
    char config[800];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'train_micro_batch_size_per_gpu': %d, 'zero_optimization': {'stage': %d%s}, "
             "'pipeline': {'stages': %d, 'partition': '%s'}, 'ztrain': {'parallel': {'communicator': 'thread', "
             "'schedule': '%s', 'mode': "
             "'%s', 'sync_batch_norm': %s}, 'loss': {'label_smoothing': 0.1%s}, "
             "'data': {'samples': %d}, 'ema': %g, 'dataloader': '%s'}, 'gradient_clipping': 0.7, "
             "'optimizer': {'type': '%s', 'params': {'lr': 0.01, 'weight_decay': 0.01}}",
             l.micro, l.zero, l.more ? l.more : "", l.stages, l.partition ? l.partition : "best",
             l.schedule ? l.schedule : "1f1b", l.mode ? l.mode : "ddp", l.sync ? "true" : "false", l.loss ? l.loss : "",
             l.samples ? l.samples : 22, l.ema, l.stream ? "deepspeed" : "ztrain", l.optimizer ? l.optimizer : "AdamW");
    return tiny_learn(make(), config, l.ranks, LAYOUT_STEPS, l.device);
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
