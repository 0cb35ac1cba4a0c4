/* The body of lanes.c, included once for each pair of LANES and TARGET (an attribute that names instruction sets);
 * NAME(id) makes the names of this pair. Vectors are the compiler's, so there is one text for all of them. */

typedef float NAME(floats) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint8_t NAME(bytes) __attribute__((vector_size(LANES), aligned(1), may_alias));
#define FLOATS NAME(floats)
#define INTS   NAME(ints)
#define BYTES  NAME(bytes)

#include "ops/lanes_norm.h"
#include "ops/lanes_pool.h"

static const struct zt_lane_kernels NAME(kernels) = {
    .lanes = LANES,
    .max = NAME(max),
    .max_grad = NAME(max_grad),
    .moments = NAME(moments),
    .sums = NAME(sums),
    .normalise = NAME(normalise),
    .normalise_grad = NAME(normalise_grad),
};

#undef FLOATS
#undef INTS
#undef BYTES
#undef LANES
#undef TARGET
#undef NAME
