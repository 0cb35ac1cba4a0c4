/* Shared by DFT and STFT: reading a node as numbers (formulas: ops/signal/dft_plan.h). */
#ifndef ZT_OPS_SIGNAL_DFT_H
#define ZT_OPS_SIGNAL_DFT_H

#include "graph/ir/op.h"
#include "ops/signal/dft_plan.h"

static inline int64_t zt_dft_start(const struct zt_dft_places *p, int64_t slice) {
    return slice / p->count * p->outer + slice % p->count * p->inner;
}

/* Reads a DFT or STFT node; its lengths, steps and axis must be known. */
bool zt_dft_read(const struct zt_graph *g, int node, struct zt_dft *to, struct zt_err *err);
bool zt_stft_read(const struct zt_graph *g, int node, struct zt_dft *to, struct zt_err *err);
/* The axis of a DFT node, 0..rank-2. */
bool zt_dft_axis(const struct zt_graph *g, int node, int *axis, struct zt_err *err);
/* Number of frames of a STFT node, and their distance. */
struct zt_stft_frames {
    int64_t count, step;
};
bool zt_stft_frames(const struct zt_graph *g, int node, struct zt_stft_frames *to, struct zt_err *err);

/* Either of them, by its row. */
struct zt_dft_row {
    bool (*read)(const struct zt_graph *g, int node, struct zt_dft *to, struct zt_err *err);
};
static inline bool zt_dft_of(const struct zt_graph *g, int node, struct zt_dft *to, struct zt_err *err) {
    return ((const struct zt_dft_row *)g->nodes[node]->op->detail)->read(g, node, to, err);
}
/* `flops` and `describe` (a struct zt_dft) of the rows. */
double zt_dft_flops(const struct zt_graph *g, int node);
bool zt_dft_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err);
/* w[k] of the onesided inverse transform. */
static inline double zt_dft_weight(int64_t length, int64_t k) {
    return k == 0 || 2 * k == length ? 1 : 2;
}

#endif
