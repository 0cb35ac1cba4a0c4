#include "tests/ops/cases.h"

#include <stddef.h>

enum { QKV = 7, MASK = 8, PAST = 0x30 };

#define HEADS_4 "float[2,4,3,5] float[2,2,6,5] float[2,2,6,7]"
#define HEADS_3 "float[2,3,20] float[2,6,10] float[2,6,14]"
#define COUNTS  "q_num_heads=4 kv_num_heads=2 "
#define PAST_4  " float[2,2,2,5] float[2,2,2,7]"

const struct zt_case zt_cases_attention[] = {
    { "Attention", "float[2,3,4,5] float[2,3,4,5] float[2,3,4,5]", .grad = QKV },
    { "Attention", HEADS_4, .grad = QKV },
    { "Attention", HEADS_3, .attrs = COUNTS, .grad = QKV },
    { "Attention", HEADS_4, .attrs = "is_causal=1 scale=0.3", .grad = QKV },
    { "Attention", HEADS_4, .attrs = "softcap=0.8", .grad = QKV },
    { "Attention", HEADS_4 " float[3,6]", .grad = QKV | MASK },
    { "Attention", HEADS_4 " float[4,1,6]", .attrs = "is_causal=1", .grad = QKV | MASK },
    { "Attention", HEADS_4 " float[2,1,3,5]", .grad = QKV | MASK }, /* shorter than the keys */
    { "Attention", HEADS_4 " float[6]", .grad = QKV | MASK },
    { "Attention", HEADS_4 " bool[2,4,3,6]", .grad = QKV },
    { "Attention", HEADS_4 " bool[3,1]", .grad = QKV },
    { "Attention", HEADS_4 " -" PAST_4, .attrs = "is_causal=1", .outs = 3, .grad = QKV | PAST },
    { "Attention", HEADS_3 " float[3,8]" PAST_4, .attrs = COUNTS, .outs = 3, .grad = QKV | MASK | PAST },
    { "Attention", HEADS_4, .outs = 4, .grad = QKV },
    { "Attention", HEADS_4 " float[3,6]", .attrs = "qk_matmul_output_mode=0 softcap=0.8", .outs = 4,
      .grad = QKV | MASK },
    { "Attention", HEADS_4 " float[3,6]", .attrs = "qk_matmul_output_mode=1 softcap=0.8", .outs = 4,
      .grad = QKV | MASK },
    { "Attention", HEADS_4 " float[3,6]", .attrs = "qk_matmul_output_mode=2 softcap=0.8", .outs = 4,
      .grad = QKV | MASK },
    { "Attention", HEADS_4 " float[3,6]", .attrs = "qk_matmul_output_mode=3 softcap=0.8", .outs = 4,
      .grad = QKV | MASK },
    { "Attention", HEADS_4, .attrs = "qk_matmul_output_mode=1 softcap=0.8 is_causal=1", .outs = 4, .grad = QKV },
    { "Attention", HEADS_4 " - - - int64{3,6}", .opset = 24, .grad = QKV },
    { "Attention", HEADS_4 " - - - int64{1,5}", .attrs = "is_causal=1", .opset = 24,
      .grad = QKV }, /* rows that see nothing */
    { "Attention", HEADS_4, .attrs = "left_window_size=1 right_window_size=2", .grad = QKV },
    { "Attention", HEADS_4 " -" PAST_4, .attrs = "left_window_size=2 is_causal=1", .grad = QKV | PAST },
    { "Attention", "float[1,1,2,3] float[1,1,600,3] float[1,1,600,2]", .outs = 4, .grad = QKV },
    { "Attention", "float[0,1,2,3] float[0,1,4,3] float[0,1,4,2]" },
    { "Attention", "float[1,1,2,3] float[1,1,0,3] float[1,1,0,2]" },
    { "Attention", "float16[2,3,4,5] float16[2,3,4,5] float16[2,3,4,5]", .attrs = "softmax_precision=1" },
    { "Attention", "bfloat16[2,3,4,5] bfloat16[2,3,4,5] bfloat16[2,3,4,5]" },
    { "RotaryEmbedding", "float[2,3,4,6] float[7,3] float[7,3] int64[2,4]:0..6", .grad = 7 },
    { "RotaryEmbedding", "float[2,3,4,6] float[2,4,3] float[2,4,3]", .attrs = "interleaved=1", .grad = 7 },
    { "RotaryEmbedding", "float[2,4,18] float[7,2] float[7,2] int64[2,4]:0..6",
      .attrs = "num_heads=3 rotary_embedding_dim=4", .grad = 7 },
    { "RotaryEmbedding", "float[2,4,18] float[2,4,2] float[2,4,2]",
      .attrs = "num_heads=3 rotary_embedding_dim=4 interleaved=1", .grad = 7 },
    { "RotaryEmbedding", "float16[2,3,4,6] float16[7,3] float16[7,3] int64[2,4]:0..6" },
    { NULL },
};
