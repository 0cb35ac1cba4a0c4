/* Elementwise loops in the type of the elements: integers of every width, double, and casts between all types but the
 * halves. Compiled for several instruction sets and chosen by CPUID; results are those of the reference rows
 * (element_blocks.h).
 */
#ifndef ZT_OPS_ELEMENTWISE_SIMD_TYPED_H
#define ZT_OPS_ELEMENTWISE_SIMD_TYPED_H

#include "graph/ir/op.h"
#include "ops/elementwise/loops.h"

/* y[i] = f(a[i * a_step], b[i * b_step]), i < n; steps are 0 or 1, not both 0. y may be a. */
struct zt_typed_span {
    const void *a, *b; /* b: ops of two inputs */
    void *y;
    int64_t n;
    int a_step, b_step;
};
typedef void zt_typed_function(const struct zt_typed_span *s);

/* The loop of a node's op on inputs of this type, and how many inputs it reads; NULL where there is none. Min, Max and
 * Sum take two of them at a time. */
zt_typed_function *zt_typed_loop(const struct zt_node *node, enum zt_dtype dtype, int *inputs);
/* The loop's computation of one element from a and b, as C: T is the elements' type, whose arithmetic wraps in U, BITS
 * its width, and `negative` tells whether it has negative numbers. The second function is for casts of a from any type
 * (half types are passed as float) to any type. A NULL value where there is none. */
struct zt_typed_text {
    const char *value;
    int inputs;
};
struct zt_typed_text zt_typed_text(const struct zt_node *node, enum zt_dtype dtype);
struct zt_typed_text zt_typed_cast_text(enum zt_dtype from, enum zt_dtype to);
/* y = a in another type; NULL where one of them is a half type. */
zt_typed_function *zt_typed_cast(enum zt_dtype from, enum zt_dtype to);

#endif
