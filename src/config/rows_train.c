/* The keys at the top level, of the optimizer, of the scheduler, and of the precisions. The parameters of an optimizer
 * or rule are in its own file (src/optim), or in refused_types.c. */
#include "config/rows.h"

static const struct zt_key_choice gradient_types[] = {
    /* in the order of enum zt_gradient_type */
    { .name = "fp32" },
    { .name = "fp16" },
    { .name = "bf16" },
    { 0 },
};
/* The names that DeepSpeed takes for them in data_types, and nowhere else. */
static const struct zt_key_choice data_types[] = {
    { .name = "fp32" },
    { .name = "fp16" },
    { .name = "bf16" },
    { .name = "float32", .means = "fp32" },
    { .name = "float", .means = "fp32" },
    { .name = "torch.float32", .means = "fp32" },
    { .name = "float16", .means = "fp16" },
    { .name = "half", .means = "fp16" },
    { .name = "torch.float16", .means = "fp16" },
    { .name = "bfloat16", .means = "bf16" },
    { .name = "torch.bfloat16", .means = "bf16" },
    { 0 },
};
static const struct zt_key_choice any_types[] = {
    { .name = "fp32" }, { .name = "fp16" }, { .name = "bf16" }, { .name = "fp64" }, { 0 },
};
static const struct zt_key_choice reductions[] = {
    { .name = "mean" },
    { .name = "sum" },
    { 0 },
};
static const struct zt_key_choice log_levels[] = {
    /* in the order of enum zt_log_level */
    { .name = "debug" }, { .name = "info" }, { .name = "warning" }, { .name = "error" }, { .name = "critical" }, { 0 },
};

/* Sections that configurations keep for their own scripts. */
#define SCRIPT   "no engine reads it"
#define LAUNCH   "a launcher's; --ranks says it"
#define NO_SCALE "bfloat16 needs no loss scale"

static const struct zt_key_row rows[] = {
    { .key = "train_batch_size", COUNT(1, 1e9), AT(train_batch) },
    { .key = "train_micro_batch_size_per_gpu", COUNT(1, 1e9), AT(micro_batch) },
    { .key = "micro_batch_per_gpu", COUNT(1, 1e9), .now = "train_micro_batch_size_per_gpu" },
    { .key = "gradient_accumulation_steps", COUNT(1, 1e9), AT(accumulation) },
    { .key = "managed_gradient_accumulation", BOOL, DEF("true"), REJECT("ztrain itself decides when to step") },
    { .key = "steps_per_print", INT(0), DEF("10"), AT(steps_per_print) },
    { .key = "dump_state", BOOL, DEF("false"), AT(dump_state) },
    { .key = "disable_allgather", BOOL, DEF("false"), ACCEPT("no engine reads it") },
    { .key = "communication_data_type", INDEX(gradient_types), .any_case = true, DEF("fp32"), AT(communication_type) },
    { .key = "fp32_allreduce", BOOL, .now = "communication_data_type" },
    { .key = "seq_parallel_communication_data_type",
      CHOICE(any_types),
      .any_case = true,
      ACCEPT("no sequence parallelism") },
    { .key = "seq_parallel_comm_data_type",
      CHOICE(any_types),
      .any_case = true,
      .now = "seq_parallel_communication_data_type" },
    { .key = "prescale_gradients", BOOL, DEF("false"), AT(prescale_gradients) },
    { .key = "gradient_predivide_factor", NUMBER, POSITIVE, DEF("1"), AT(gradient_predivide_factor) },
    { .key = "gradient_allreduce_op", INDEX(reductions), DEF("mean"), AT(sum_gradients) },
    { .key = "sparse_gradients", BOOL, DEF("false"), ACCEPT("embedding gradients are dense: the same result") },
    { .key = "gradient_clipping", NUMBER, FROM(0), DEF("0"), AUTO("1", HF), AT(gradient_clipping) },
    { .key = "graph_harvesting", BOOL, DEF("false"), ACCEPT("steps on a GPU are captured without it") },
    { .key = "disable_python_gc", BOOL, DEF("false"), ACCEPT("there is no Python") },
    { .key = "zero_allow_untested_optimizer", BOOL, DEF("false"), ACCEPT("every optimizer can be sharded") },
    { .key = "zero_force_ds_cpu_optimizer", BOOL, DEF("true"), ACCEPT("the CPU optimizer is native") },
    { .key = "wall_clock_breakdown", BOOL, DEF("false"), AT(wall_clock_breakdown) },
    { .key = "memory_breakdown", BOOL, DEF("false"), AT(memory_breakdown) },
    { .key = "dataloader_drop_last", BOOL, .same = "ztrain.data.drop_last" },
    { .key = "vocabulary_size", INT(1), ACCEPT("a hint for tensor cores") },
    { .key = "log_level", INDEX(log_levels), .any_case = true, DEF("info"), AT(log_level) },
    { .key = "sequence_parallel_size",
      INT(1),
      DEF("1"),
      REJECT("there is no sequence parallelism: use pipeline.stages") },
    { .key = "seed", COUNT(0, 9e18), .same = "ztrain.seed" },
    { .key = "comment", ANY, ACCEPT("a comment") },
    { .key = "log", ANY, ACCEPT(SCRIPT) },
    { .key = "cuda_visible_devices", ANY, ACCEPT(SCRIPT) },
    { .key = "num_gpus", INT(0), ACCEPT(LAUNCH) },
    { .key = "num_nodes", INT(1), ACCEPT(LAUNCH) },
    { .key = "num_processes", INT(1), ACCEPT(LAUNCH) },
    { .key = "num_machines", INT(1), ACCEPT(LAUNCH) },
    { .key = "same_network", BOOL, ACCEPT("a key of accelerate; " SCRIPT) },
    { .key = "use_cpu", BOOL, ACCEPT("a key of accelerate; --device says it") },
    { .key = "comms_config", ANY, ACCEPT(SCRIPT ", comms_logger is the section of the engine") },
    { .key = "monitor_config", ANY, ACCEPT(SCRIPT ", tensorboard and csv_monitor are the sections of the engine") },
    { .key = "allgather_size", INT(0), ACCEPT("only read with zero_optimization: true") },
    { .key = "load_universal_checkpoint", BOOL, DEF("false"), ACCEPT("every checkpoint is free of layout") },
    { .key = "data_types", OBJECT, ACCEPT("parameters and buffers keep their type") },
    { .key = "data_types.grad_accum_dtype", INDEX(data_types), DEF("fp32"), AT(accumulation_type) },
    { .key = "data_types.param_dtype", CHOICE(data_types), ACCEPTED },
    { .key = "data_types.buffer_dtype", CHOICE(data_types), ACCEPTED },
    { .key = "data_types.keep_in_fp32_modules", ANY, ACCEPTED },

    { .key = "optimizer", OBJECT },
    { .key = "optimizer.type", TYPE, .any_case = true, AT(optimizer.type) },
    { .key = "optimizer.legacy_fusion", BOOL, DEF("false"), ACCEPT("there is one fp16 wrapper") },
    { .key = "optimizer.params", OBJECT },
    { .key = OPTIMIZER "max_grad_norm", NUMBER, FROM(0), DEF("0"), REJECT("use gradient_clipping") },

    { .key = "scheduler", OBJECT },
    { .key = "scheduler.type", TYPE, .any_case = true, AT(scheduler.type) },
    { .key = "scheduler.params", OBJECT },

    { .key = "fp16", OBJECT, ACCEPT("fp16 is off") },
    { .key = "fp16.enabled", BOOL, DEF("false"), AT(fp16.enabled) },
    { .key = "fp16.auto_cast", BOOL, DEF("false"), ACCEPT("inputs always take the type that the graph computes in") },
    { .key = "fp16.loss_scale", NUMBER, FROM(0), DEF("0"), AT(fp16.loss_scale) },
    { .key = "fp16.initial_scale_power", COUNT(0, 126), DEF("16"), AT(fp16.initial_scale_power) },
    { .key = "fp16.loss_scale_window", INT(-HUGE_VAL), DEF("1000"), AT(fp16.loss_scale_window) },
    { .key = "fp16.hysteresis", INT(0), DEF("2"), AT(fp16.hysteresis) },
    { .key = "fp16.consecutive_hysteresis", BOOL, DEF("false"), AT(fp16.consecutive_hysteresis) },
    { .key = "fp16.min_loss_scale", NUMBER, ANY_NUMBER, DEF("1"), AT(fp16.min_loss_scale) },
    { .key = "fp16.opt_level", TEXT, ACCEPT("a key of apex; " SCRIPT) },
    { .key = "fp16.fp16_master_weights_and_grads", BOOL, DEF("false"), REJECT("master weights are fp32") },
    { .key = "bf16", OBJECT, ACCEPT("the same numbers either way") },
    { .key = "bf16.enabled", BOOL, DEF("false"), AT(bf16) },
    { .key = "bf16.immediate_grad_update", BOOL, DEF("false"), ACCEPTED },
    { .key = "bf16.check_grad_overflow", BOOL, DEF("true"), AT(bf16_checks_overflow) },
    { .key = "bf16.auto_cast", BOOL, ACCEPT("inputs always take the type that the graph computes in") },
    { .key = "bf16.loss_scale", NUMBER, FROM(0), ACCEPT(NO_SCALE) },
    { .key = "bf16.initial_scale_power", NUMBER, FROM(0), ACCEPT(NO_SCALE) },
    { .key = "bf16.loss_scale_window", NUMBER, FROM(0), ACCEPT(NO_SCALE) },
    { .key = "bf16.hysteresis", NUMBER, FROM(0), ACCEPT(NO_SCALE) },
    { .key = "bf16.consecutive_hysteresis", BOOL, ACCEPT(NO_SCALE) },
    { .key = "bf16.min_loss_scale", NUMBER, FROM(0), ACCEPT(NO_SCALE) },
    { .key = "bf16.opt_level", TEXT, ACCEPT("a key of apex; " SCRIPT) },
    { .key = "bf16.bf16_master_weights_and_grads", BOOL, DEF("false"), REJECT("master weights are fp32") },
    { .key = "bf16.bf16_optimizer_states", BOOL, DEF("false"), REJECT("optimizer states are fp32") },
    { .key = "bfloat16", OBJECT, .now = "bf16", .now_wins = true },
    { .key = "torch_autocast", OBJECT, ACCEPT("torch_autocast is off") },
    { .key = "torch_autocast.enabled", BOOL, DEF("false"), REJECT("use bf16") },
    { .key = "torch_autocast.dtype", TEXT, ACCEPTED },
    { .key = "torch_autocast.lower_precision_safe_modules", ANY, ACCEPTED },
};

const struct zt_key_rows zt_key_rows_train = ZT_KEY_ROWS(rows);
