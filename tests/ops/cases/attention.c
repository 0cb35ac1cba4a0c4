#include "tests/ops/cases.h"

#include <stddef.h>

enum { QKV = 7, MASK = 8, PAST = 0x30 };

#define HEADS_4 "float[2,4,3,5] float[2,2,6,5] float[2,2,6,7]"
#define HEADS_3 "float[2,3,20] float[2,6,10] float[2,6,14]"
#define COUNTS  "q_num_heads=4 kv_num_heads=2 "
/* Scores of 6 in float, exp and the sum of a row make a probability's relative error 1e-6; the gradient of a value adds
 * 300 such products of either sign, of which about a tenth is left. */
#define LONG_SUMS 2e-5
#define LONG      "float[2,4,150,9] float[2,2,230,9] float[2,2,230,13]"
#define PACKED(ins, counts, ...)                                                                                       \
    { "PackedAttention", ins, .domain = "ztrain", .attrs = counts, __VA_ARGS__ }
#define PACKED_PAST " float[2,2,2,5] float[2,2,2,5]"
#define PAST_4      " float[2,2,2,5] float[2,2,2,7]"

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
    /* several panels of queries and blocks of keys, none of them whole */
    { "Attention", LONG, .grad = QKV },
    { "Attention", LONG, .attrs = "is_causal=1", .grad = QKV, .tolerance = LONG_SUMS },
    { "Attention", LONG, .attrs = "is_causal=1 softcap=2.0 scale=0.7", .grad = QKV },
    { "Attention", LONG, .attrs = "left_window_size=30 right_window_size=5", .grad = QKV },
    { "Attention", LONG " float[150,230]", .grad = QKV | MASK },
    { "Attention", LONG " float[2,1,150,200]", .attrs = "softcap=1.5", .grad = QKV | MASK },
    { "Attention", LONG " float[4,1,1]", .grad = QKV | MASK, .tolerance = LONG_SUMS },
    { "Attention", LONG " bool[2,1,150,230]", .attrs = "is_causal=1", .grad = QKV },
    { "Attention", LONG " bool[2,1,1,230]", .grad = QKV },
    { "Attention", LONG " float16[150,230]", .grad = QKV },
    { "Attention", LONG " - - - int64{100,229}", .attrs = "is_causal=1", .grad = QKV },
    { "Attention", "float[2,150,36] float[2,230,18] float[2,230,26]", .attrs = COUNTS, .grad = QKV },
    /* five panels of 16 queries, the last of one, and half a panel of 32 columns of y */
    { "Attention", "float[1,2,65,32] float[1,2,65,32] float[1,2,65,48]", .grad = QKV },
    /* a last panel of few queries, heads of whole tiles and several blocks of keys */
    { "Attention", "float[2,2,35,64] float[2,2,131,64] float[2,2,131,32]", .grad = QKV },
    { "Attention", "float[1,4,66,32] float[1,2,131,32] float[1,2,131,64]", .attrs = "is_causal=1 softcap=2.0",
      .grad = QKV },
    { "Attention", "float[1,1,3,4]:nan..nan float[1,1,5,4] float[1,1,5,4]" },
    { "Attention", "float[1,1,7,3] float[1,1,7,3] float[1,1,7,40] float{-inf,-inf,-inf,-inf,-inf,-inf,-inf}",
      .grad = QKV },
    { "Attention", "float[1,2,5,3] float[1,2,3,3] float[1,2,3,2] float{-3.4e38,-3.4e38,-3.4e38}" },
    { "Attention", "float[1,1,40,3]:-90..90 float[1,1,300,3]:-90..90 float[1,1,300,2]", .attrs = "is_causal=1" },
    { "AttentionTrain", LONG, .domain = "ztrain", .attrs = "is_causal=1", .outs = 2, .results = 1, .grad = QKV,
      .tolerance = LONG_SUMS },
    { "AttentionTrain", "bfloat16[2,4,150,9] bfloat16[2,2,230,9] bfloat16[2,2,230,13]", .domain = "ztrain",
      .attrs = "is_causal=1", .outs = 2, .results = 1, .grad = QKV, .tolerance = 5e-2 },
    { "AttentionTrain", "bfloat16[2,4,47,16] bfloat16[2,2,201,16] bfloat16[2,2,201,40] float[47,201]",
      .domain = "ztrain", .attrs = "softcap=0.8", .outs = 2, .results = 1, .grad = QKV, .tolerance = 5e-2 },
    /* what cuDNN takes, whose gradient reads y as it was rounded; gradients and heads that it does not take */
    { "Attention", "bfloat16[2,4,18,16] bfloat16[2,4,21,16] bfloat16[2,4,21,8]", .grad = QKV, .tolerance = 5e-2 },
    { "Attention", "bfloat16[2,4,18,16] bfloat16[2,2,21,16] bfloat16[2,2,21,24]", .attrs = "is_causal=1", .grad = QKV,
      .tolerance = 5e-2 },
    { "Attention", "bfloat16[2,21,64] bfloat16[2,18,32] bfloat16[2,18,16]", .attrs = COUNTS "is_causal=1 scale=0.3",
      .grad = QKV, .tolerance = 5e-2 },
    { "Attention", "bfloat16[2,4,18,16] bfloat16[2,2,21,16] bfloat16[2,2,21,8]", .grad = 6, .tolerance = 5e-2 },
    { "Attention", "bfloat16[2,4,18,12] bfloat16[2,2,21,12] bfloat16[2,2,21,8]", .attrs = "is_causal=1", .grad = QKV,
      .tolerance = 5e-2 },
    /* small heads beside each other: whole blocks of them and parts, rows of tiles and rests, heads that are apart */
    { "Attention", "float[5,8,20,4] float[5,8,20,4] float[5,8,20,4]", .grad = QKV },
    { "Attention", "float[7,5,9,3] float[7,5,14,3] float[7,5,14,6]", .attrs = "is_causal=1 scale=0.7", .grad = QKV },
    { "Attention", "float[40,1,1,16] float[40,1,33,16] float[40,1,33,1]", .grad = 6 },
    { "Attention", "float[9,10,32] float[9,13,32] float[9,13,40]", .attrs = "q_num_heads=8 kv_num_heads=8",
      .grad = QKV },
    { "Attention", "float[5,8,20,4]:nan..nan float[5,8,20,4] float[5,8,20,4]" },
    { "AttentionTrain", "float[5,8,20,4] float[5,8,20,4] float[5,8,20,4]", .domain = "ztrain", .outs = 2, .results = 1,
      .grad = QKV },
    { "AttentionTrain", "float[17,4,6,5] float[17,4,6,5] float[17,4,6,7]", .domain = "ztrain", .attrs = "is_causal=1",
      .outs = 2, .results = 1, .grad = QKV },
    PACKED("float[9,12,72]", "q_num_heads=6 kv_num_heads=6 is_causal=1", .grad = 1),
    PACKED("float[2,5,60]", "q_num_heads=2 kv_num_heads=2", .grad = 1),
    PACKED("float[2,6,40]", COUNTS "is_causal=1 scale=0.3", .grad = 1),
    PACKED("float[2,5,60] - - float[5,5]", "q_num_heads=2 kv_num_heads=2", .grad = 1 | MASK),
    PACKED("float[2,5,60] - - bool[2,1,5,5]", "q_num_heads=2 kv_num_heads=2 softcap=0.8", .grad = 1),
    PACKED("float[2,3,40] - - -" PACKED_PAST, COUNTS "is_causal=1", .outs = 3, .grad = 1 | PAST),
    PACKED("float[2,5,60]", "q_num_heads=2 kv_num_heads=2 qk_matmul_output_mode=3", .outs = 4, .grad = 1),
    PACKED("float[0,5,60]", "q_num_heads=2 kv_num_heads=2"),
    PACKED("float[2,0,60]", "q_num_heads=2 kv_num_heads=2"),
    PACKED("float[2,230,108]", "q_num_heads=4 kv_num_heads=4 is_causal=1", .grad = 1),
    PACKED("float[2,150,72] - - float[150,150]", COUNTS, .grad = 1 | MASK),
    PACKED("bfloat16[2,18,96]", "q_num_heads=4 kv_num_heads=4", .grad = 1, .tolerance = 5e-2),
    PACKED("bfloat16[2,21,128]", COUNTS "is_causal=1", .grad = 1, .tolerance = 5e-2),
    PACKED("bfloat16[2,21,96]", COUNTS "is_causal=1", .grad = 1, .tolerance = 5e-2), /* heads of 12 columns */
    { "PackedAttentionTrain", "float[2,150,72]", .domain = "ztrain", .attrs = COUNTS "is_causal=1", .outs = 2,
      .results = 1, .grad = 1 },
    { "RotaryEmbedding", "float[2,3,4,6] float[7,3] float[7,3] int64[2,4]:0..6", .grad = 7 },
    { "RotaryEmbedding", "float[2,3,4,6] float[2,4,3] float[2,4,3]", .attrs = "interleaved=1", .grad = 7 },
    { "RotaryEmbedding", "float[2,4,18] float[7,2] float[7,2] int64[2,4]:0..6",
      .attrs = "num_heads=3 rotary_embedding_dim=4", .grad = 7 },
    { "RotaryEmbedding", "float[2,4,18] float[2,4,2] float[2,4,2]",
      .attrs = "num_heads=3 rotary_embedding_dim=4 interleaved=1", .grad = 7 },
    { "RotaryEmbedding", "float[2,2,3,4] float[4,2] float[4,2] int64[2,3]:-4..3", .grad = 7 },
    { "RotaryEmbedding", "bfloat16[2,3,4,6] bfloat16[7,3] bfloat16[7,3] int64[2,4]:0..6" },
    { "RotaryEmbedding", "float16[2,3,4,6] float16[7,3] float16[7,3] int64[2,4]:0..6" },
    { NULL },
};
