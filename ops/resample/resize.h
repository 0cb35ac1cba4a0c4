/* Resize and Upsample: the geometry of a node, read from its shapes and attributes, and the linear map of each axis.
 * The rows of resize.c and the kernels of all back ends use it. */
#ifndef ZT_OPS_RESAMPLE_RESIZE_H
#define ZT_OPS_RESAMPLE_RESIZE_H

#include "graph/ir/op.h"

enum zt_resize_mode { ZT_NEAREST, ZT_LINEAR, ZT_CUBIC };

struct zt_resize;
/* The coordinate in the input of element `o` of the result along an axis. */
typedef double zt_resize_coordinate(const struct zt_resize *r, int axis, double o);
/* The element nearest to coordinate `x`. */
typedef double zt_resize_nearest(double x, double scale);

struct zt_resize {
    struct zt_shape x, y;
    bool resized[ZT_MAX_RANK];
    double scale[ZT_MAX_RANK], start[ZT_MAX_RANK], end[ZT_MAX_RANK]; /* start, end: the region of interest */
    enum zt_resize_mode mode;
    zt_resize_coordinate *coordinate;
    zt_resize_nearest *nearest;
    bool crops; /* results whose coordinate is outside the input are `extrapolation` */
    bool antialias, exclude_outside;
    double cubic_a, extrapolation;
};

/* Resize, Upsample, ztrain.ResizeGrad (x: its attribute input_shape). Scales, sizes and region must be known. */
bool zt_resize_read(const struct zt_graph *g, int node, struct zt_resize *to, struct zt_err *err);

/* Upsample and Resize of opset 10, which have neither region nor sizes. */
bool zt_resize_is_old(const struct zt_node *n);

/* The linear map of one axis, a sparse matrix by rows: result d is the sum of weight[t] times element index[t],
 * begin[d] <= t < begin[d + 1]. An empty row: d is outside the input. */
struct zt_resize_map {
    int64_t *begin, *index;
    double *weight;
    void *block;
    size_t bytes;
};
/* From input to result. Free with zt_resize_map_finish. */
bool zt_resize_map_init(const struct zt_resize *r, int axis, struct zt_resize_map *to, struct zt_err *err);
/* Its transpose, from result to input. */
bool zt_resize_map_transpose(const struct zt_resize_map *m, int64_t from, int64_t to_size, struct zt_resize_map *to,
                             struct zt_err *err);
void zt_resize_map_finish(struct zt_resize_map *m);

/* The kernels: forward and ztrain.ResizeGrad. */
bool zt_resize_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_resize_grad_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_resize_run(const struct zt_call *call, struct zt_err *err);
void zt_resize_release(void *state);

#endif
