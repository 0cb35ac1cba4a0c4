/* Tests of fusions in whole programs: small graphs, x [N, 8] -> ... -> y [N, 5], are planned and trained on a device of
 * the CUDA back end. */
#ifndef ZT_TESTS_GPU_FUSED_PROGRAMS_H
#define ZT_TESTS_GPU_FUSED_PROGRAMS_H

#include "tests/parallel/small_program.h"

struct fused {
    struct zt_device *(*device)(void);
    void (*list)(const struct zt_graph *g, struct zt_text *to); /* what the fusion has made of the nodes, in order */
    const char *optimizer;                                      /* its name and parameters, as JSON */
};

/* A device of the CUDA module in fused_folder, of far_device.h where that is NULL. */
extern const char *fused_folder;
struct zt_device *fused_device(void);

/* ---- graphs ---- */

/* Adds the input x [N, 8]; returns its value. */
int fused_input(struct zt_graph *g);
/* x w, with w called NAME.weight [in, out]. */
int fused_product(struct zt_graph *g, const char *name, int x, int64_t in, int64_t out);
/* y, a product of h [N, 8]. Returns g. */
struct zt_graph *fused_output(struct zt_graph *g, int h);

/* ---- what is merged: `list` gives `wanted`, and nothing that others read is lost ---- */

/* On one rank; takes over the graph. */
void fused_expect(const struct fused *f, struct zt_graph *graph, struct wish wish, const char *wanted);
/* On both of two stages, between which the value `crossing` goes. */
void fused_expect_stages(const struct fused *f, struct zt_graph *(*make)(void), const char *crossing,
                         const char *const wanted[2]);

/* ---- training ---- */

enum { FUSED_STEPS = 4 }; /* without capture, captured, the last of the epoch, replayed (src/run/rank/captured.c) */

struct fused_layout {
    int ranks;
    bool bf16;
    const char *more; /* of the config */
};
extern const struct fused_layout fused_layouts[],
    fused_half_layouts[]; /* end with no rank; the latter: in half types */

/* With the patterns that `fuse` names alone. */
struct tiny_run fused_train(const struct fused *f, struct zt_graph *(*make)(void), const struct fused_layout *layout,
                            const char *fuse);

/* Two such runs have the same losses but for a share `limit` of them. */
void fused_expect_losses(const struct fused *f, struct zt_graph *(*make)(void), const struct fused_layout *layout,
                         const char *fuse, const char *without, double limit);

#endif
