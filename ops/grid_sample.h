/* What GridSample computes, read from the node: shared by its kernels. */
#ifndef ZT_OPS_GRID_SAMPLE_H
#define ZT_OPS_GRID_SAMPLE_H

#include "graph/op.h"

enum { ZT_SAMPLE_TAPS = 4 };
enum zt_sample_mode { ZT_SAMPLE_NEAREST, ZT_SAMPLE_LINEAR, ZT_SAMPLE_CUBIC };
enum zt_sample_padding { ZT_SAMPLE_ZEROS, ZT_SAMPLE_BORDER, ZT_SAMPLE_REFLECTION };

struct zt_sampler {
    enum zt_sample_mode mode;
    enum zt_sample_padding padding;
    bool align;
    int axes; /* spatial */
    int64_t n, channels, pixels, places;
    int64_t size[ZT_MAX_RANK], stride[ZT_MAX_RANK];
};

/* The pixels of an axis that a place reads: offset -1 reads zero. */
struct zt_sample_taps {
    int count;
    int64_t offset[ZT_SAMPLE_TAPS];
    double weight[ZT_SAMPLE_TAPS], slope[ZT_SAMPLE_TAPS]; /* slope: of the weight along grid */
};

/* x and grid are inputs `first` and `first` + 1: 0 for GridSample, 1 for ztrain.GridSampleGrad. */
bool zt_sampler_read(const struct zt_graph *g, int node, int first, struct zt_sampler *to, struct zt_err *err);
/* The taps of all axes at place `at` of all samples. */
void zt_sampler_taps(const struct zt_sampler *s, const struct zt_view *grid, int64_t at, struct zt_sample_taps *to);

#endif
