/* Linear quantization: the geometry and the rules of QuantizeLinear, DequantizeLinear, ztrain.FakeQuantize and its
 * gradient, which the kernels of all back ends read.
 *
 *     v = x / scale                          in the precision of the division
 *     q = clip(round(v) + zero_point)        an integer type: rounded to even, clipped to its range; NaN: its lowest
 *     q = narrow(v + zero_point)             a float type of 8 or 4 bits
 *     y = (q - zero_point) * scale           in float, then rounded to the type of y */
#ifndef ZT_OPS_QUANTIZE_QUANTIZE_H
#define ZT_OPS_QUANTIZE_QUANTIZE_H

#include "graph/ir/op.h"

/* The tensor is [outer, length, inner]. Element (o, k, i) has scale number o * outer_step + k / block * step +
 * i * inner_step; all steps are 0 where one scale serves the tensor. */
struct zt_quantize {
    int64_t outer, length, inner, block;
    int64_t outer_step, step, inner_step, scales;
    enum zt_dtype type;      /* of q */
    enum zt_dtype precision; /* of the division: a float type; ZT_UNDEFINED of nodes that do not divide */
    bool saturate, integer;  /* integer: q is one */
    double low, high;        /* the range of q */
};

/* Reads a node whose inputs from number `first` on are the tensor, scale and zero point. Fails where shapes, types and
 * attributes do not fit. */
bool zt_quantize_read(const struct zt_graph *g, int node, int first, struct zt_quantize *to, struct zt_err *err);
/* The first of these inputs: 1 of ztrain.FakeQuantizeGrad, which reads dy before them, else 0. */
int zt_quantize_first(const struct zt_node *n);

/* Stretches of adjacent elements that have one scale each (step 0) or adjacent scales (step 1). */
struct zt_quantize_run {
    int64_t at, count, scale;
    int step;
};
/* The number of runs; run i follows run i - 1 in memory. */
int64_t zt_quantize_runs(const struct zt_quantize *q);
struct zt_quantize_run zt_quantize_run_at(const struct zt_quantize *q, int64_t i);

/* The runs cut into units for threads, by the shape alone. */
struct zt_quantize_units {
    const struct zt_quantize *q;
    int64_t runs, parts, group, units; /* a unit is one of `parts` parts of a run, or `group` runs */
};
enum { ZT_QUANTIZE_PART = 1 << 14 }; /* elements of a part */
struct zt_quantize_units zt_quantize_units_of(const struct zt_quantize *q);
/* Piece `i` of a unit: its number of pieces is what zt_quantize_pieces() returns. */
int64_t zt_quantize_pieces(const struct zt_quantize_units *u, int64_t unit);
struct zt_quantize_run zt_quantize_piece(const struct zt_quantize_units *u, int64_t unit, int64_t i);

/* LSQ's factor of the gradient of a scale (Esser et al., "Learned Step Size Quantization", 2020): 1 / sqrt(N Qp), N the
 * elements of a scale, Qp the largest q. */
double zt_quantize_scale_factor(const struct zt_quantize *q);

#endif
