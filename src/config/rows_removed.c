/* The keys of features that DeepSpeed once had and removed: apex (amp), compression and MoQ, sparse attention. They are
 * without effect while they are off, and refused otherwise. */
#include "config/rows.h"

#define GONE "DeepSpeed removed "

static const struct zt_key_choice apex_levels[] = {
    { .name = "O0" }, { .name = "O1" }, { .name = "O2" }, { .name = "O3" }, { .name = "auto" }, { 0 },
};
static const struct zt_key_choice attentions[] = { { .name = "bidirectional" }, { .name = "unidirectional" }, { 0 } };
#define NO_SPARSE ZT_KEY_REJECT, .why = GONE "sparse attention"
static const struct zt_key_choice sparse_modes[] = {
    { .name = "dense" },
    { .name = "fixed", .status = NO_SPARSE },
    { .name = "variable", .status = NO_SPARSE },
    { .name = "bigbird", .status = NO_SPARSE },
    { .name = "bslongformer", .status = NO_SPARSE },
    { 0 },
};

#define SPARSE          "sparse_attention."
#define QUANTIZE        "quantize_training."
#define INTS            .type = ZT_KEY_NUMBERS, FROM(0)
#define NO_APEX         GONE "amp, NVIDIA's apex; use bf16 or fp16"
#define NO_MOQ          GONE "MoQ, its quantized training"
#define NO_SMALL        GONE "its compression library"
#define TECHNIQUE(name) "compression_training." name

/* The keys of one compression technique: those of all its groups, and those of a group, which has a free name. */
#define ROWS_SHARED(name)                                                                                              \
    { .key = TECHNIQUE(name), OBJECT, REJECT(NO_SMALL) }, { .key = TECHNIQUE(name) ".shared_parameters", OBJECT },     \
        SHARED(name, "enabled", BOOL, DEF("false")), SHARED(name, "schedule_offset", INT(0))
#define SHARED(name, key_, ...)                                                                                        \
    { .key = TECHNIQUE(name) ".shared_parameters." key_, __VA_ARGS__, ACCEPT(NO_SMALL) }
#define ROWS_GROUPS(name)                                                                                              \
    { .key = TECHNIQUE(name) ".different_groups", .type = ZT_KEY_NAMED },                                              \
        { .key = TECHNIQUE(name) ".different_groups.*", OBJECT },                                                      \
        { .key = TECHNIQUE(name) ".different_groups.*.modules", ANY },                                                 \
        { .key = TECHNIQUE(name) ".different_groups.*.related_modules", ANY }, {                                       \
        .key = TECHNIQUE(name) ".different_groups.*.params", OBJECT                                                    \
    }
#define GROUP(name, key_, ...)                                                                                         \
    { .key = TECHNIQUE(name) ".different_groups.*.params." key_, __VA_ARGS__ }
#define RATIO NUMBER, WITHIN(0, 1)

static const struct zt_key_row rows[] = {
    { .key = "amp", OBJECT, ACCEPT(NO_APEX) },
    { .key = "amp.enabled", BOOL, DEF("false"), REJECT(NO_APEX) },
    { .key = "amp.opt_level", CHOICE(apex_levels), ACCEPTED },
    { .key = "amp.cast_model_type", TEXT, ACCEPTED },
    { .key = "amp.patch_torch_functions", BOOL, ACCEPTED },
    { .key = "amp.keep_batchnorm_fp32", BOOL, ACCEPTED },
    { .key = "amp.master_weights", BOOL, ACCEPTED },
    { .key = "amp.loss_scale", ANY, ACCEPTED },
    { .key = "amp.cast_model_outputs", TEXT, ACCEPTED },
    { .key = "amp.num_losses", INT(1), ACCEPTED },
    { .key = "amp.verbosity", INT(0), ACCEPTED },
    { .key = "amp.min_loss_scale", NUMBER, FROM(0), ACCEPTED },
    { .key = "amp.max_loss_scale", NUMBER, FROM(0), ACCEPTED },
    { .key = "eigenvalue", OBJECT, ACCEPT(NO_MOQ) },
    { .key = "eigenvalue.enabled", BOOL, DEF("false"), REJECT(NO_MOQ) },
    { .key = "eigenvalue.verbose", BOOL, ACCEPTED },
    { .key = "eigenvalue.max_iter", INT(1), ACCEPTED },
    { .key = "eigenvalue.tol", NUMBER, FROM(0), ACCEPTED },
    { .key = "eigenvalue.stability", NUMBER, FROM(0), ACCEPTED },
    { .key = "eigenvalue.gas_boundary_resolution", INT(1), ACCEPTED },
    { .key = "eigenvalue.layer_name", TEXT, ACCEPTED },
    { .key = "eigenvalue.layer_num", INT(0), ACCEPTED },
    { .key = "quantize_training", OBJECT, ACCEPT(NO_MOQ) },
    { .key = QUANTIZE "enabled", BOOL, DEF("false"), REJECT(NO_MOQ) },
    { .key = QUANTIZE "quantize_verbose", BOOL, ACCEPTED },
    { .key = QUANTIZE "quantizer_kernel", BOOL, ACCEPTED },
    { .key = QUANTIZE "quantize_type", TEXT, ACCEPTED },
    { .key = QUANTIZE "quantize_algo", OBJECT, ACCEPTED },
    { .key = QUANTIZE "quantize_algo.q_type", TEXT, ACCEPTED },
    { .key = QUANTIZE "quantize_algo.rounding", TEXT, ACCEPTED },
    { .key = QUANTIZE "quantize_bits", OBJECT, ACCEPTED },
    { .key = QUANTIZE "quantize_bits.start_bits", INT(1), ACCEPTED },
    { .key = QUANTIZE "quantize_bits.target_bits", INT(1), ACCEPTED },
    { .key = QUANTIZE "quantize_schedule", OBJECT, ACCEPTED },
    { .key = QUANTIZE "quantize_schedule.quantize_period", INT(0), ACCEPTED },
    { .key = QUANTIZE "quantize_schedule.schedule_offset", INT(0), ACCEPTED },
    { .key = QUANTIZE "quantize_groups", INT(1), ACCEPTED },
    { .key = QUANTIZE "fp16_mixed_quantize", OBJECT, ACCEPTED },
    { .key = QUANTIZE "fp16_mixed_quantize.enabled", BOOL, DEF("false"), ACCEPTED },
    { .key = QUANTIZE "fp16_mixed_quantize.quantize_change_ratio", NUMBER, FROM(0), ACCEPTED },
    { .key = QUANTIZE "eigenvalue", OBJECT, ACCEPTED },
    { .key = QUANTIZE "eigenvalue.enabled", BOOL, ACCEPTED },
    { .key = QUANTIZE "eigenvalue.verbose", BOOL, ACCEPTED },
    { .key = QUANTIZE "eigenvalue.max_iter", INT(1), ACCEPTED },
    { .key = QUANTIZE "eigenvalue.tol", NUMBER, FROM(0), ACCEPTED },
    { .key = QUANTIZE "eigenvalue.stability", NUMBER, FROM(0), ACCEPTED },
    { .key = QUANTIZE "eigenvalue.gas_boundary_resolution", INT(1), ACCEPTED },
    { .key = QUANTIZE "eigenvalue.layer_name", TEXT, ACCEPTED },
    { .key = QUANTIZE "eigenvalue.layer_num", INT(0), ACCEPTED },
    { .key = "compression_training", OBJECT },
    ROWS_SHARED("weight_quantization"),
    SHARED("weight_quantization", "quantizer_kernel", BOOL),
    SHARED("weight_quantization", "quantize_groups", INT(1)),
    SHARED("weight_quantization", "quantize_verbose", BOOL),
    SHARED("weight_quantization", "quantization_type", TEXT),
    SHARED("weight_quantization", "quantize_weight_in_forward", BOOL),
    SHARED("weight_quantization", "rounding", TEXT),
    SHARED("weight_quantization", "fp16_mixed_quantize", OBJECT),
    SHARED("weight_quantization", "fp16_mixed_quantize.enabled", BOOL),
    SHARED("weight_quantization", "fp16_mixed_quantize.quantize_change_ratio", NUMBER, FROM(0)),
    ROWS_GROUPS("weight_quantization"),
    GROUP("weight_quantization", "start_bits", INT(1)),
    GROUP("weight_quantization", "target_bits", INT(1)),
    GROUP("weight_quantization", "quantization_period", INT(0)),
    ROWS_SHARED("activation_quantization"),
    SHARED("activation_quantization", "quantization_type", TEXT),
    SHARED("activation_quantization", "range_calibration", TEXT),
    ROWS_GROUPS("activation_quantization"),
    GROUP("activation_quantization", "bits", INT(1)),
    ROWS_SHARED("sparse_pruning"),
    SHARED("sparse_pruning", "method", TEXT),
    SHARED("sparse_pruning", "schedule_offset_end", INT(0)),
    SHARED("sparse_pruning", "schedule_offset_stride", INT(1)),
    SHARED("sparse_pruning", "block_pattern", TEXT),
    SHARED("sparse_pruning", "dense_ratio", RATIO),
    SHARED("sparse_pruning", "excluded_modules", TEXTS),
    ROWS_GROUPS("sparse_pruning"),
    GROUP("sparse_pruning", "dense_ratio", RATIO),
    ROWS_SHARED("row_pruning"),
    SHARED("row_pruning", "method", TEXT),
    ROWS_GROUPS("row_pruning"),
    GROUP("row_pruning", "dense_ratio", RATIO),
    ROWS_SHARED("head_pruning"),
    SHARED("head_pruning", "method", TEXT),
    SHARED("head_pruning", "num_heads", INT(1)),
    ROWS_GROUPS("head_pruning"),
    GROUP("head_pruning", "dense_ratio", RATIO),
    ROWS_SHARED("channel_pruning"),
    SHARED("channel_pruning", "method", TEXT),
    ROWS_GROUPS("channel_pruning"),
    GROUP("channel_pruning", "dense_ratio", RATIO),
    { .key = TECHNIQUE("layer_reduction"), OBJECT, REJECT(NO_SMALL) },
    { .key = TECHNIQUE("layer_reduction") ".enabled", BOOL, DEF("false"), ACCEPT(NO_SMALL) },
    { .key = TECHNIQUE("layer_reduction") ".keep_number_layer", INT(0), ACCEPT(NO_SMALL) },
    { .key = TECHNIQUE("layer_reduction") ".keep_number_layers", INT(0), ACCEPT(NO_SMALL) },
    { .key = TECHNIQUE("layer_reduction") ".module_name_prefix", TEXT, ACCEPT(NO_SMALL) },
    { .key = TECHNIQUE("layer_reduction") ".teacher_layer", INTS, ACCEPT(NO_SMALL) },
    { .key = TECHNIQUE("layer_reduction") ".other_module_name", TEXTS, ACCEPT(NO_SMALL) },

    { .key = "sparse_attention", OBJECT, .false_is_off = true, ACCEPT(GONE "sparse attention") },
    { .key = SPARSE "mode", CHOICE(sparse_modes), ACCEPTED },
    { .key = SPARSE "block", INT(1), ACCEPTED },
    { .key = SPARSE "different_layout_per_head", BOOL, ACCEPTED },
    { .key = SPARSE "num_local_blocks", INT(0), ACCEPTED },
    { .key = SPARSE "num_global_blocks", INT(0), ACCEPTED },
    { .key = SPARSE "attention", CHOICE(attentions), ACCEPTED },
    { .key = SPARSE "horizontal_global_attention", BOOL, ACCEPTED },
    { .key = SPARSE "num_different_global_patterns", INT(0), ACCEPTED },
    { .key = SPARSE "num_random_blocks", INT(0), ACCEPTED },
    { .key = SPARSE "local_window_blocks", INTS, ACCEPTED },
    { .key = SPARSE "global_block_indices", INTS, ACCEPTED },
    { .key = SPARSE "global_block_end_indices", INTS, ACCEPTED },
    { .key = SPARSE "num_sliding_window_blocks", INT(0), ACCEPTED },
};

const struct zt_key_rows zt_key_rows_removed = ZT_KEY_ROWS(rows);
