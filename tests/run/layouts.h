/* One small training in any layout, and whether two layouts learn the same. */
#ifndef ZT_TESTS_RUN_LAYOUTS_H
#define ZT_TESTS_RUN_LAYOUTS_H

#include "tests/run/tiny.h"

enum { LAYOUT_STEPS = 6 };

/* 22 samples in steps of 8: the third step of an epoch has 6, which four ranks must fill up. */
struct layout {
    int ranks, stages, zero, micro;
    const char *schedule, *more; /* NULL: 1f1b; NULL: nothing */
    int samples;                 /* 0: 22 */
    const char *optimizer;       /* NULL: AdamW */
    const char *mode, *loss;     /* NULL: ddp; NULL: plain cross entropy */
    bool sync;                   /* sync_batch_norm */
    double ema;                  /* 0: none */
    bool stream;                 /* ztrain.dataloader "deepspeed" */
    const char *partition;       /* NULL: best */
    int seed;                    /* ztrain.seed */
    bool seed_layers;
    struct zt_device *(*device)(void); /* as struct tiny has it */
};

/* Fails the test where the training does. */
struct tiny_run layout_train(struct zt_graph *(*make)(void), struct layout l);

/* layout_train, whose result is kept: for the run that several others are compared with. Not from two threads at once.
 */
struct tiny_run layout_train_once(struct zt_graph *(*make)(void), struct layout l);

/* That `a`, trained in layout `l`, has the losses of `b`: `tolerance` is relative, ten times as large for norms. */
void layout_check_close(const struct tiny_run *a, const struct tiny_run *b, double tolerance, struct layout l);

#endif
