#include "tests/ops/cases.h"

#include <stddef.h>

/* Inputs with a gradient: q, k, v, past state, decay, beta. */
enum { QKV = 7, PAST = 8, DECAY = 16, BETA = 32 };

#define LINEAR(ins, heads, ...)                                                                                        \
    { "LinearAttention", ins, .attrs = heads, .opset = 27, __VA_ARGS__ }
#define HEADS(q, kv, rule) "q_num_heads=" #q " kv_num_heads=" #kv " update_rule=" #rule
/* Two samples of seven steps, four heads of queries that share two of keys, with 5 and 3 columns. */
#define GROUPED      "float[2,7,20] float[2,7,10] float[2,7,6]"
#define GROUPED_PAST " float[2,2,5,3]"
#define HEAD_DECAY   " float[2,7,2]:-1..0.2"
#define KEY_DECAY    " float[2,7,10]:-1..0.2"
#define BETAS        " float[2,7,2]:0..1"
#define ONE_BETA     " float[2,7,1]:0..1"
/* More columns than a strip of the state has, rows beyond a warp's, several chunks. */
#define WIDE      "float[1,21,74] float[1,21,37]:-0.2..0.2 float[1,21,41]"
#define WIDE_PAST " float[1,1,37,41]"
#define TALL      "float[1,3,150]:-0.1..0.1 float[1,3,150]:-0.1..0.1 float[1,3,4]"

#define CAUSAL(ins, ...)                                                                                               \
    { "CausalConvWithState", ins, .opset = 27, __VA_ARGS__ }
#define SILU  .attrs = "activation=silu"
#define SWISH .attrs = "activation=swish"

const struct zt_case zt_cases_linear_attention[] = {
    LINEAR(GROUPED, HEADS(4, 2, linear), .outs = 2, .grad = QKV),
    LINEAR(GROUPED GROUPED_PAST, HEADS(4, 2, linear) " scale=0.7", .outs = 2, .grad = QKV | PAST),
    LINEAR(GROUPED " -" HEAD_DECAY, HEADS(4, 2, gated), .outs = 2, .grad = QKV | DECAY),
    LINEAR(GROUPED GROUPED_PAST KEY_DECAY, HEADS(4, 2, gated), .outs = 2, .grad = QKV | PAST | DECAY),
    LINEAR(GROUPED " - -" BETAS, HEADS(4, 2, delta), .outs = 2, .grad = QKV | BETA),
    LINEAR(GROUPED GROUPED_PAST " -" ONE_BETA, HEADS(4, 2, delta) " scale=1.0", .outs = 2, .grad = QKV | PAST | BETA),
    LINEAR(GROUPED GROUPED_PAST HEAD_DECAY ONE_BETA, HEADS(4, 2, gated_delta), .outs = 2,
           .grad = QKV | PAST | DECAY | BETA),
    LINEAR(GROUPED GROUPED_PAST KEY_DECAY BETAS, HEADS(4, 2, gated_delta) " chunk_size=2", .outs = 2,
           .grad = QKV | PAST | DECAY | BETA),
    LINEAR(GROUPED " -" KEY_DECAY BETAS, "q_num_heads=4 kv_num_heads=2", .grad = QKV | DECAY | BETA), /* y alone */
    /* one step, one head of keys for all queries, no steps, no samples, no columns */
    LINEAR("float[2,1,12] float[2,1,3] float[2,1,5] float[2,1,3,5] float[2,1,1] float[2,1,1]", HEADS(4, 1, gated_delta),
           .outs = 2, .grad = QKV | PAST | DECAY | BETA),
    LINEAR("float[2,1,1] float[2,1,1] float[2,1,1]", HEADS(1, 1, linear), .outs = 2, .grad = QKV),
    LINEAR("float[2,0,12] float[2,0,3] float[2,0,5] float[2,1,3,5] float[2,0,1] float[2,0,1]", HEADS(4, 1, gated_delta),
           .outs = 2, .grad = PAST),
    LINEAR("float[0,3,4] float[0,3,4] float[0,3,6]", HEADS(2, 2, linear), .outs = 2),
    LINEAR("float[2,3,4] float[2,3,4] float[2,3,0]", HEADS(2, 2, linear), .outs = 2),
    LINEAR("float[2,3,0] float[2,3,0] float[2,3,4]", HEADS(2, 2, linear), .outs = 2),
    LINEAR(WIDE WIDE_PAST " float[1,21,37]:-0.5..0 float[1,21,1]:0..1", HEADS(2, 1, gated_delta), .outs = 2,
           .grad = QKV | PAST | DECAY | BETA),
    LINEAR(WIDE WIDE_PAST " float[1,21,1]:-0.5..0", HEADS(2, 1, gated), .outs = 2, .grad = QKV | PAST | DECAY),
    LINEAR(WIDE WIDE_PAST " - float[1,21,1]:0..1", HEADS(2, 1, delta), .outs = 2, .grad = QKV | PAST | BETA),
    LINEAR(WIDE, HEADS(2, 1, linear), .grad = QKV),
    LINEAR(TALL " - float[1,3,150]:-0.5..0 float[1,3,1]:0..1", HEADS(1, 1, gated_delta), .outs = 2,
           .grad = QKV | DECAY | BETA),
    LINEAR("float16[2,7,20] float16[2,7,10] float16[2,7,6] float[2,2,5,3] float16[2,7,2]:-1..0 float16[2,7,2]:0..1",
           HEADS(4, 2, gated_delta), .outs = 2),
    LINEAR("bfloat16[2,7,20] bfloat16[2,7,10] bfloat16[2,7,6] - bfloat16[2,7,10]:-1..0 bfloat16[2,7,1]:0..1",
           HEADS(4, 2, gated_delta), .outs = 2),
    LINEAR("float[1,3,2]:nan..nan float[1,3,2] float[1,3,2]", HEADS(1, 1, linear), .outs = 2),

    CAUSAL("float[2,3,9] float[3,1,4]", .outs = 2, .grad = 3),
    CAUSAL("float[2,3,9] float[3,1,4] float[3] float[2,3,3]", .outs = 2, .grad = 15),
    CAUSAL("float[2,3,9] float[3,1,4] float[3] float[2,3,3]", SILU, .outs = 2, .grad = 15),
    CAUSAL("float[2,3,9] float[3,1,3] - float[2,3,2]", SWISH, .grad = 11),
    CAUSAL("float[2,3,9] float[3,1,1] float[3]", SILU, .outs = 2, .grad = 7), /* no state */
    CAUSAL("float[2,3,1] float[3,1,4] float[3] float[2,3,3]", .outs = 2, .grad = 15),
    CAUSAL("float[2,3,2] float[3,1,5]", SILU, .outs = 2, .grad = 3), /* shorter than its state */
    CAUSAL("float[1,1,1] float[1,1,1] - float[1,1,0]", .outs = 2, .grad = 3),
    CAUSAL("float[2,2,0] float[2,1,3] float[2] float[2,2,2]", .outs = 2, .grad = 8),
    CAUSAL("float[0,2,4] float[2,1,3] float[2]", .outs = 2),
    CAUSAL("float[2,5,83] float[5,1,7] float[5] float[2,5,6]", SILU, .outs = 2, .grad = 15),
    CAUSAL("float16[2,3,9] float16[3,1,4] float16[3] float16[2,3,3]", SILU, .outs = 2),
    CAUSAL("bfloat16[2,3,9] bfloat16[3,1,4] bfloat16[3]", .outs = 2),
    CAUSAL("float[1,1,6]:nan..nan float[1,1,3]", SILU, .outs = 2),
    { NULL },
};
