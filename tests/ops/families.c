#include "tests/ops/cases.h"

#include <stddef.h>

/* A family: one file in cases/, one line here, one line in meson.build. */
/* clang-format off */
#define FAMILIES(FAMILY) \
    FAMILY(attention) \
    FAMILY(conv) \
    FAMILY(conv_pool) \
    FAMILY(detection) \
    FAMILY(elementwise_binary) \
    FAMILY(elementwise_unary) \
    FAMILY(linear_attention) \
    FAMILY(loss) \
    FAMILY(matmul) \
    FAMILY(ml) \
    FAMILY(movement) \
    FAMILY(norm) \
    FAMILY(pool) \
    FAMILY(quantize) \
    FAMILY(recurrent) \
    FAMILY(reduce) \
    FAMILY(resample) \
    FAMILY(signal) \
    FAMILY(softmax) \
    FAMILY(training)
/* clang-format on */

#define DECLARE(name) extern const struct zt_case zt_cases_##name[];
#define ROW(name)     { #name, zt_cases_##name, false },
FAMILIES(DECLARE)
DECLARE(speed)

const struct zt_case_family zt_case_families[] = { FAMILIES(ROW){ "speed", zt_cases_speed, true }, { NULL } };
