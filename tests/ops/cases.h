/* Op cases: one list a family serves every mode of run_ops.
 *
 * Inputs and attributes are text, so that a case is one line:
 *
 *     { "Pad", .in = "float[2,3] int64{0,1,0,2} float{0.5}", .attrs = "mode=reflect", .grad = 1 << 0 },
 *
 * Inputs, separated by spaces:  DTYPE[2,3]        random: floats standard normal, integers in 0..9, bool
 *                               DTYPE[2,3]:LO..HI uniform in LO..HI (integers: HI included)
 *                               DTYPE{1,2,3}      these values as a constant of rank 1; DTYPE(5): as a scalar
 *                               -                 omitted
 * Attributes, separated by spaces:  name=3  name=0.5  name=text  name=[1,2]  name=[0.5,1.0]  name=[Tanh,Relu], and
 * tensors: name=float{1}. Whether a number is an integer or a float shows by its point. */
#ifndef ZT_TESTS_OPS_CASES_H
#define ZT_TESTS_OPS_CASES_H

#include "base/err.h"
#include "graph/ir/graph.h"

struct zt_case {
    const char *op;
    const char *in, *attrs; /* NULL: none */
    const char *domain;     /* NULL: ai.onnx */
    int opset;              /* 0: ZT_OPSET */
    int outs;               /* 0: one output */
    int results;            /* outputs with a gradient, the others are kept for the backward pass; 0: all have */
    unsigned grad;          /* bit i: the gradient of input i is held against finite differences */
    double tolerance;       /* 0: that of the dtype */
    double on_host;         /* the tolerance of check on the CPU, where a device rounds more; 0: the same */
    bool image;             /* bench: between convolutions, activations lie as these leave them */
    bool checked;           /* of a family of training sizes: cheap enough for check */
    bool typed;             /* the operator does not take double: check of the reference has nothing to compare with */
    bool rounded;           /* rounding hides finite differences: `grad` leaves the case to `backward` */
};

struct zt_case_family {
    const char *name;
    const struct zt_case *cases; /* ends with a NULL op */
    bool training; /* training sizes: bench and support take them all, check those marked, grad and backward none */
};

extern const struct zt_case_family zt_case_families[]; /* ends with a NULL name */

enum { CASE_INPUTS = 16, CASE_OUTPUTS = 16 };

/* A case made into a graph of one node: node 0, resolved and inferred where its shapes do not depend on data. */
struct zt_case_graph {
    struct zt_graph *graph;
    int in_count;
    int in[CASE_INPUTS];                /* value ids, -1: omitted */
    struct zt_tensor feed[CASE_INPUTS]; /* contents (in the graph's arena), also of constants */
    bool constant[CASE_INPUTS];
};

/* `wide`: every float type becomes double (values stay those of the case's type). The contents depend on the case
 * alone. Free with zt_graph_destroy(made->graph), also on failure. */
bool zt_case_make(const struct zt_case *c, bool wide, struct zt_case_graph *made, struct zt_err *err);

/* Outputs that have gradients: the first ones. */
int zt_case_results(const struct zt_case *c, const struct zt_graph *g);
/* Standard normal numbers in double, which depend on `key` alone. */
struct zt_tensor zt_case_random(struct zt_arena *arena, const struct zt_shape *shape, uint64_t key);
/* Whether `got` is what output `out` wants, within the case's tolerance. */
bool zt_case_same(const struct zt_case *c, int out, const struct zt_tensor *got, const struct zt_tensor *want,
                  struct zt_err *err);

#endif
