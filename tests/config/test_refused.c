/* Reasons to refuse a config: unknown keys, types, ranges, conflicts, missing companions; and, only if there are none
 * of these, unsupported features. */
#include "read.h"

struct refusal {
    const char *keys;  /* beside the batch */
    const char *words; /* separated by '|' */
    int count;         /* problems; 0: any number */
};

static void refuse_all(const struct refusal *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct zt_text text = { 0 };
        zt_text_add(&text, "{" BATCH ",\n%s}", cases[i].keys);
        refuse(text.at, cases[i].words, cases[i].count);
        zt_text_finish(&text);
    }
}
#define REFUSE_ALL(cases) refuse_all(cases, sizeof(cases) / sizeof(cases)[0])
#define PARAMS(type, ...) "\"optimizer\": {\"type\": \"" type "\", \"params\": {" __VA_ARGS__ "}}"
#define SCHED(type, ...)  "\"scheduler\": {\"type\": \"" type "\", \"params\": {" __VA_ARGS__ "}}"
#define ZERO(...)         "\"zero_optimization\": {" __VA_ARGS__ "}"
#define ZTRAIN(...)       "\"ztrain\": {" __VA_ARGS__ "}"
#define TWO_GROUPS        ZTRAIN("\"param_groups\": [{\"match\": \"*.bias\"}]")

START_TEST(unknown_keys_offer_the_nearest) {
    static const struct refusal cases[] = {
        { "\"gradient_cliping\": 1", ":2:1: gradient_cliping: unknown key, did you mean gradient_clipping?", 1 },
        { "\"zero_optimisation\": {\"stage\": 1}", "did you mean zero_optimization?", 1 },
        { ZERO("\"stag\": 1"), "zero_optimization.stag: unknown key, did you mean stage?", 1 },
        { "\"max_grad_norm\": 3", "did you mean gradient_clipping?", 1 },
        { "\"gradient_accumulation_dtype\": \"fp32\"", "unknown key, did you mean data_types.grad_accum_dtype?", 1 },
        { "\"offload_optimizer\": {\"device\": \"cpu\"}, \"stage\": 2, \"pin_memory\": true",
          "offload_optimizer: unknown key here, its place is zero_optimization.offload_optimizer|pin_memory: unknown "
          "key",
          3 },
        { ZERO("\"lr\": 1, \"cpu-offload\": true, \"cpu_offload_pin_memory\": true"),
          "lr: unknown key here, its place is optimizer.params.lr|unknown key, did you mean cpu_offload?|unknown key, "
          "did "
          "you mean offload_param.pin_memory?",
          3 },
        { "\"qqqqqqqqqqqqqqq\": 3", "qqqqqqqqqqqqqqq: unknown key", 1 },
        { "\"train_batch_sise\": null", "did you mean train_batch_size?", 1 },
        { PARAMS("Adam", "\"beta\": [0.9, 0.99]"), "optimizer.params.beta: unknown key, did you mean betas?", 1 },
        { PARAMS("Adam", "\"momentum\": 0.9"), "optimizer.params.momentum: unknown key: Adam has no such parameter",
          1 },
        { PARAMS("SGD", "\"betas\": [0.9, 0.99]"), "SGD has no such parameter", 1 },
        { PARAMS("Lion", "\"eps\": 1"), "Lion has no such parameter", 1 },
        { PARAMS("AdamW", "\"momentum\": 0.9"), "AdamW has no such parameter", 1 },
        { PARAMS("Lamb", "\"momentum\": 0.9"), "Lamb has no such parameter", 1 },
        { PARAMS("Lion", "\"momentum\": 0.9"), "Lion has no such parameter", 1 },
        { PARAMS("Adagrad", "\"momentum\": 0.9"), "Adagrad has no such parameter", 1 },
        { PARAMS("FusedAdam", "\"momentum\": 0.9"), "Adam has no such parameter", 1 },
        { PARAMS("RMSprop", "\"betas\": [0.9, 0.99]"), "RMSprop has no such parameter", 1 },
        { PARAMS("RMSprop", "\"nesterov\": true"), "RMSprop has no such parameter", 1 },
        { PARAMS("Muon", "\"alpha\": 0.9"), "Muon has no such parameter", 1 },
        { PARAMS("Muon", "\"adam_w_mode\": true"), "Muon has no such parameter", 1 },
        { PARAMS("Adam", "\"alpha\": 0.9"), "Adam has no such parameter", 1 },
        { PARAMS("SGD", "\"eps\": 1e-8"), "SGD has no such parameter", 1 },
        { PARAMS("SGD", "\"bias_correction\": true"), "SGD has no such parameter", 1 },
        { PARAMS("Lamb", "\"nesterov\": true"), "Lamb has no such parameter", 1 },
        { PARAMS("Lion", "\"bias_correction\": true"), "Lion has no such parameter", 1 },
        { PARAMS("Adagrad", "\"betas\": [0.9, 0.99]"), "Adagrad has no such parameter", 1 },
        { SCHED("StepLR", "\"T_max\": 5, \"step_size\": 3"), "StepLR has no such parameter", 1 },
        { SCHED("ReduceLROnPlateau", "\"gamma\": 0.5"), "ReduceLROnPlateau has no such parameter", 1 },
        { SCHED("WarmupLR", "\"total_num_steps\": 5"), "WarmupLR has no such parameter", 1 },
        { ZTRAIN("\"checkpoint\": {\"every\": 1}"), "ztrain.checkpoint.every: unknown key, did you mean every_steps?",
          1 },
        { ZTRAIN("\"data\": {\"pth\": 1}"), "ztrain.data.pth: unknown key, did you mean path?", 1 },
        { ZTRAIN("\"param_groups\": [{\"match\": \"a\"}, {\"match\": \"b\", \"lrr\": 1}]"),
          "ztrain.param_groups[1].lrr: unknown key", 1 },
        { "\"data_efficiency\": {\"data_sampling\": {\"curriculum_learning\": {\"curriculum_metrics\": {\"a\": {\"b\": "
          "1}}}}}",
          "curriculum_metrics.a.b: unknown key", 1 },
        { "\"a\": 1,\n\"b\": {\"c\": 1},\n\"ztrain\": {\n\"d\": 1}", ":2:1: a: |:3:1: b: |:5:1: ztrain.d: ", 3 },
    };
    REFUSE_ALL(cases);
}
END_TEST

START_TEST(types_and_ranges_are_checked) {
    static const struct refusal cases[] = {
        { PARAMS("RMSprop", "\"alpha\": 1"), "alpha: 1, allowed in [0, 1)", 1 },
        { PARAMS("Muon", "\"momentum\": 1"), "momentum: 1, allowed in [0, 1)", 1 },
        { PARAMS("Muon", "\"ns_method\": \"graham\""), "unknown \"graham\", did you mean \"gram\"?", 1 },
        { PARAMS("FusedAdamm", ""), "unknown \"FusedAdamm\", did you mean \"FusedAdam\"?", 1 },
        { SCHED("StepLR", "\"step_size\": 0"), "step_size: 0, allowed >= 1", 1 },
        { SCHED("StepLR", "\"gamma\": 0.5"), "StepLR needs step_size", 1 },
        { SCHED("ExponentialLR", ""), "ExponentialLR needs gamma", 1 },
        { SCHED("CosineAnnealingLR", "\"eta_min\": -1, \"T_max\": 5"), "eta_min: -1, allowed >= 0", 1 },
        { SCHED("CosineAnnealingLR", ""), "CosineAnnealingLR needs T_max", 1 },
        { SCHED("ReduceLROnPlateau", "\"factor\": 1"), "factor: 1, allowed in [0, 1)", 1 },
        { SCHED("ReduceLROnPlateau", "\"mode\": \"mean\""), "unknown \"mean\"", 1 },
        { ZTRAIN("\"ema\": 1"), "ztrain.ema: 1, allowed in [0, 1)", 1 },
        { PARAMS("Adam", "") ", " ZTRAIN("\"param_groups\": [{\"match\": \"*\", \"use_muon\": true}]"),
          "use_muon: needs optimizer.type \"Muon\"", 1 },
        { "\"gradient_accumulation_steps\": 1.5", "wants an integer, found 1.5", 1 },
        { "\"gradient_accumulation_steps\": false", "0, allowed 1..", 1 },
        { "\"gradient_accumulation_steps\": \"two\"", "wants an integer, found a text: \"two\"", 1 },
        { "\"gradient_accumulation_steps\": 1e300", "64-bit", 1 },
        { "\"gradient_accumulation_steps\": 0", "0, allowed 1..1000000000", 1 },
        { "\"tensorboard\": {\"enabled\": 3, \"output_path\": 1}, \"flops_profiler\": {\"module_depth\": -2, "
          "\"top_modules\": 0}, " ZTRAIN("\"monitor\": {\"trace_steps\": 1e9, \"trace_step\": 0}"),
          "tensorboard.enabled|tensorboard.output_path|module_depth: -2|top_modules: 0|trace_steps|trace_step: 0", 6 },
        { "\"gradient_clipping\": -1.5", "gradient_clipping: -1.5, allowed >= 0", 1 },
        { "\"gradient_clipping\": [1]", "wants a number, found a list: [1]", 1 },
        { "\"gradient_predivide_factor\": 0", "allowed > 0", 1 },
        { "\"prescale_gradients\": \"maybe\"", "wants true or false", 1 },
        { "\"zero_optimization\": {\"overlap_comm\": 2}", "wants true or false", 1 },
        { "\"zero_optimization\": 5", "wants an object, found a number", 1 },
        { ZERO("\"stage\": 5"), "zero_optimization.stage: 5, allowed 0..3", 1 },
        { ZERO("\"stage\": -1"), "allowed 0..3", 1 },
        { ZERO("\"reduce_bucket_size\": -1"), "allowed >= 0", 1 },
        { ZERO("\"allgather_bucket_size\": 3"), "even", 1 },
        { PARAMS("Adam", "\"lr\": -1"), "optimizer.params.lr: -1, allowed >= 0", 1 },
        { PARAMS("Adam", "\"betas\": [0.9, 1]"), "optimizer.params.betas[1]: 1, allowed in [0, 1)", 1 },
        { PARAMS("Adam", "\"betas\": [-0.1, 2]"), "betas[0]|betas[1]", 2 },
        { PARAMS("Adam", "\"betas\": [0.9]"), "wants two numbers", 1 },
        { PARAMS("Adam", "\"betas\": 0.9"), "list of two numbers", 1 },
        { PARAMS("AdamX", "\"lr\": 1"), "optimizer.type: unknown \"AdamX\", did you mean \"Adam\"?|known are", 1 },
        { "\"optimizer\": {\"params\": {}}", "optimizer: needs type", 1 },
        { "\"scheduler\": {}", "scheduler: needs type", 1 },
        { "\"gradient_clipping\": [0, 1]",
          "gradient_clipping: wants a number, found a list|autotuning.enabled tries the values of a list in turn", 1 },
        { "\"gradient_clipping\": [0, -1, \"auto\"], \"autotuning\": {\"enabled\": true}",
          "gradient_clipping[1]: -1, allowed|gradient_clipping[2]: \"auto\" is no value to try", 2 },
        { "\"gradient_clipping\": [0, 1, 2, 3, 4, 5, 6, 7, 8], \"zero_optimization\": {\"reduce_bucket_size\": [1, 2, "
          "3, 4, "
          "5, 6, 7, 8]}, \"autotuning\": {\"enabled\": true}",
          "autotuning tries at most 4 lists of values with 64 combinations", 1 },
        { "\"fp16\": \"false\"", "fp16: wants an object, found a text|\"fp16.enabled\" switches it on and off", 1 },
        { "\"tensorboard\": true", "tensorboard: wants an object|\"tensorboard.enabled\" switches it on and off", 1 },
        { "\"optimizer\": {\"type\": 5}", "wants a text", 1 },
        { SCHED("LambdaLR", "\"lr_lambda\": 1"), "unknown \"LambdaLR\"", 1 },
        { SCHED("CyclicLR", "\"base_lr\": 1, \"max_lr\": 2") ", \"optimizer\": {\"type\": \"Adagrad\"}",
          "CyclicLR moves a momentum, and Adagrad has none for it: set scheduler.params.cycle_momentum to false", 1 },
        { SCHED("OneCycleLR", "\"max_lr\": 1, \"cycle_momentum\": true") ", \"optimizer\": {\"type\": \"Muon\"}",
          "scheduler.params.cycle_momentum: OneCycleLR moves a momentum, and Muon has none", 1 },
        { SCHED("OneCycleLR", "\"pct_start\": 1.5"), "OneCycleLR needs max_lr|scheduler.params.pct_start: 1.5", 2 },
        { PARAMS("Adam8bit", "\"block_wise\": true"), "unknown \"Adam8bit\"", 1 },
        { SCHED("WarmupLR", "\"warmup_type\": \"liner\""), "unknown \"liner\", did you mean \"linear\"?", 1 },
        { SCHED("WarmupXLR", ""), "unknown \"WarmupXLR\", did you mean \"WarmupLR\"?", 1 },
        { SCHED("WarmupLR", "\"warmup_min_lr\": []"), "empty list", 1 },
        { SCHED("WarmupLR", "\"warmup_min_lr\": [0, \"a\"]"), "warmup_min_lr[1]: wants a number", 1 },
        { SCHED("WarmupLR", "\"warmup_min_lr\": [0, 0]"),
          "warmup_min_lr: expected 1 value, one per parameter group: the optimizer's and those of ztrain.param_groups "
          "(0); found 2",
          1 },
        { SCHED("WarmupLR", "\"warmup_max_lr\": [1, 1, 1]") ", " TWO_GROUPS, "warmup_max_lr: expected 2 values|found 3",
          1 },
        { SCHED("OneCycle", "\"cycle_min_lr\": 0, \"cycle_max_lr\": 1, \"cycle_min_mom\": [0.8, 1.5]") ", " TWO_GROUPS,
          "cycle_min_mom[1]: 1.5, allowed", 1 },
        { SCHED("ReduceLROnPlateau", "\"min_lr\": [1, 0.5, 1]") ", " TWO_GROUPS, "min_lr: expected 2 values|found 3",
          1 },
        { "\"log_level\": \"loud\"", "unknown \"loud\"", 1 },
        { ZTRAIN("\"steps\": -5"), "ztrain.steps: -5, allowed >= 0", 1 },
        { ZTRAIN("\"loss\": {\"type\": \"cross_entrpy\"}"), "unknown \"cross_entrpy\", did you mean \"cross_entropy\"?",
          1 },
        { ZTRAIN("\"loss\": {\"label_smoothing\": 2}"), "allowed 0..1", 1 },
        { ZTRAIN("\"data\": {\"format\": \"nzp\", \"path\": \"a\"}"), "unknown \"nzp\", did you mean \"npz\"?", 1 },
        { ZTRAIN("\"data\": {\"format\": \"npz\", \"path\": \"\"}"), "ztrain.data.path: an empty text", 1 },
        { ZTRAIN("\"freeze\": \"a\""), "wants a list of texts", 1 },
        { ZTRAIN("\"freeze\": [\"a\", 1]"), "ztrain.freeze[1]: wants a text", 1 },
        { ZTRAIN("\"tie\": [[\"a\"]]"), "ztrain.tie[0]: wants at least two names", 1 },
        { ZTRAIN("\"tie\": [\"a\"]"), "ztrain.tie[0]: wants a list of texts", 1 },
        { ZTRAIN("\"param_groups\": {}"), "wants a list of objects", 1 },
        { ZTRAIN("\"param_groups\": [{\"lr\": 1}]"), "ztrain.param_groups[0]: needs match", 1 },
        { ZTRAIN("\"metrics\": [\"speed\"]"), "ztrain.metrics[0]: unknown \"speed\"", 1 },
        { ZTRAIN("\"memory_limit\": \"8 apples\""), "not a size", 1 },
        { ZTRAIN("\"ema\": 1"), "allowed in [0, 1)", 1 },
        { ZTRAIN("\"lora\": {\"rank\": 4}"), "ztrain.lora: needs at least one pattern of names", 1 },
        { ZTRAIN(
              "\"lora\": {\"match\": [\"*\"], \"rank\": 0, \"alpha\": 0, \"dropout\": 1, \"export\": \"x\", \"r\": 8}"),
          "ztrain.lora.rank: 0|ztrain.lora.alpha: 0|ztrain.lora.dropout: 1|ztrain.lora.export: unknown "
          "\"x\"|ztrain.lora.r: unknown key",
          5 },
        { ZTRAIN("\"checkpoint\": {\"tag\": \"step\", \"client_state\": 7}"),
          "ztrain.checkpoint.tag: \"step\" is no name|ztrain.checkpoint.client_state: wants an object", 2 },
        { ZTRAIN("\"device\": \"tpu\""), "unknown \"tpu\"", 1 },
        { ZTRAIN("\"batch_norm\": \"thawed\""), "unknown \"thawed\"", 1 },
        { ZTRAIN("\"steps\": 9223372036854775808"), "64-bit", 1 },
        { "\"fp16\": {\"enabled\": true, \"loss_scale\": -1}", "fp16.loss_scale: -1", 1 },
        { "\"fp16\": {\"enabled\": true, \"loss_scale_window\": 0, \"hysteresis\": -1, \"min_loss_scale\": -1, "
          "\"initial_scale_power\": 127}",
          "fp16.loss_scale_window: 0|fp16.hysteresis: -1|fp16.min_loss_scale: -1|fp16.initial_scale_power: 127", 4 },
        { "\"aio\": {\"queue_depth\": 0}", "aio.queue_depth", 1 },
        { "\"aio\": {\"queue_depth\": \"0\", \"block_size\": \"1.5\"}",
          "aio.block_size: wants an integer, found 1.5|aio.queue_depth: 0, allowed", 2 },
        { "\"gradient_clipping\": \"0.5x\", \"gradient_predivide_factor\": \"2 3\"",
          "gradient_clipping: wants a number, found a text: \"0.5x\"|gradient_predivide_factor: wants a number", 2 },
        { ZERO("\"reduce_bucket_size\": \"0x10\", \"allgather_bucket_size\": \"8_\", \"sub_group_size\": \"1__0\", "
               "\"stage3_prefetch_bucket_size\": \"\", \"stage3_max_live_parameters\": \"1e999\", "
               "\"stage3_max_reuse_distance\": \"1.\", \"stage3_param_persistence_threshold\": \"nan\""),
          "wants an integer, found a text: \"0x10\"|\"8_\"|\"1__0\"|\"1e999\"|\"1.\"|\"nan\"", 7 },
    };
    REFUSE_ALL(cases);
}
END_TEST

START_TEST(conflicts_and_missing_companions_are_named) {
    static const struct refusal cases[] = {
        { "\"tensorboard\": {\"enabled\": true, \"job_name\": \"../x\"}, \"csv_monitor\": {\"job_name\": \"/x\"}",
          "tensorboard.job_name: \"../x\" is not a folder below output_path|csv_monitor.job_name: ", 2 },
        { "\"tensorboard\": {\"job_name\": \"a/./b\"}, \"csv_monitor\": {\"job_name\": \"a//b\"}", "a/./b|a//b", 2 },
        { "\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": \"true\"}", "fp16.enabled|bf16.enabled|choose one",
          1 },
        { "\"nebula\": {\"enabled\": true}", "nebula.enabled: true is refused: DeepSpeed removed Nebula", 1 },
        { "\"amp\": {\"enabled\": true}, " ZERO("\"stage\": 1"),
          "amp excludes zero_optimization.stage 1|use bf16 or fp16", 2 },
        { "\"amp\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}", "amp excludes bf16.enabled", 2 },
        { ZERO("\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\"}"),
          "zero_optimization.offload_optimizer|nvme_path", 0 },
        { ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}"), "zero_optimization.offload_param|nvme_path",
          0 },
        { ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/n\"}"),
          "needs zero_optimization.stage 3", 0 },
        { ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}"), "ratio", 0 },
        { SCHED("WarmupDecayLR", ""), "WarmupDecayLR needs total_num_steps", 1 },
        { SCHED("WarmupCosineLR", "\"warmup_num_steps\": 3"), "WarmupCosineLR needs total_num_steps", 1 },
        { SCHED("OneCycle", "\"cycle_min_lr\": 0"), "OneCycle needs cycle_max_lr", 1 },
        { "\"scheduler\": {\"type\": \"OneCycle\"}", "needs cycle_min_lr|needs cycle_max_lr", 2 },
        { PARAMS("OneBitAdam", "\"freeze_step\": 5") ", " ZERO("\"stage\": 1"), "OneBitAdam excludes ZeRO", 1 },
        { PARAMS("ZeroOneAdam", "") ", " ZTRAIN("\"parallel\": {\"mode\": \"dp\"}"),
          "ZeroOneAdam excludes ztrain.parallel.mode \"dp\", wants \"ddp\"", 1 },
        { PARAMS("OneBitLamb", "") ", \"pipeline\": {\"stages\": 2}",
          "OneBitLamb excludes pipeline.stages 2|2 stages need as many ranks", 2 },
        { PARAMS("OneBitLamb", "\"factor_min\": 5, \"coeff_beta\": 0.5"), "factor_min: 5 is above factor_max 4", 1 },
        { PARAMS("OneBitLamb", "") ", \"fp16\": {\"enabled\": true, \"loss_scale\": 8}", "dynamic loss scale", 1 },
        { PARAMS("OneBitAdam", "\"freeze_step\": 0, \"comm_backend_name\": 3, \"freeze_stp\": 1"),
          "freeze_step|comm_backend_name|freeze_stp", 3 },
        { PARAMS("OneBitAdam", "\"var_freeze_step\": 3"), "var_freeze_step", 1 },
        { PARAMS("SGD", "\"nesterov\": true"), "nesterov|momentum", 1 },
        { PARAMS("SGD", "\"nesterov\": true, \"momentum\": 0.9, \"dampening\": 0.1"), "dampening", 1 },
        { PARAMS("Lamb", "\"min_coeff\": 2, \"max_coeff\": 1"), "min_coeff|max_coeff", 1 },
        { PARAMS("Lamb", "") ", \"fp16\": {\"enabled\": true, \"loss_scale\": 8}", "dynamic loss scale", 1 },
        { PARAMS("Adam", "\"max_grad_norm\": 1"), "optimizer.params.max_grad_norm: 1 is refused: use gradient_clipping",
          1 },
        { PARAMS("Adam", "\"amsgrad\": true"), "amsgrad", 1 },
        { PARAMS("OneBitSGD", ""), "use SGD or OneBitAdam", 1 },
        { PARAMS("MuAdam", ""), "use Adam", 1 },
        { "\"prescale_gradients\": true, " ZERO("\"stage\": 2"), "prescale_gradients|reduce_scatter", 1 },
        { "\"gradient_predivide_factor\": 2, " ZERO("\"stage\": 3"), "gradient_predivide_factor", 1 },
        { "\"gradient_allreduce_op\": \"sum\", " ZERO("\"stage\": 3"), "excludes zero_optimization.stage 3", 1 },
        { "\"gradient_allreduce_op\": \"sum\", \"ztrain\": {\"parallel\": {\"mode\": \"dp\"}}", "share one loss", 1 },
        { "\"gradient_allreduce_op\": \"max\"", "mean, sum", 1 },
        { "\"communication_data_type\": \"fp8\"", "fp32, fp16, bf16", 1 },
        { "\"communication_data_type\": 16", "communication_data_type", 1 },
        { "\"data_types\": {\"grad_accum_dtype\": \"fp61\"}", "fp16", 1 },
        { "\"elasticity\": {\"enabled\": true}", "elasticity sets it", 0 },
        { "\"curriculum_learning\": {\"enabled\": true}", "min_difficulty|max_difficulty|schedule_type", 4 },
        { "\"curriculum_learning\": {\"enabled\": true, \"min_difficulty\": 1, \"max_difficulty\": 9, "
          "\"schedule_type\": \"fixed_root\"}",
          "total_curriculum_step|difficulty_step|root_degree", 4 },
        { "\"autotuning\": {\"start_profile_step\": 9}", "start_profile_step", 1 },
        { "\"pipeline\": {\"stages\": 64}", "pipeline.stages: 64 stages|found 1", 1 },
        { "\"pipeline\": {\"micro_batch_size\": 3}",
          "pipeline.micro_batch_size: 3, wants 0 or train_micro_batch_size_per_gpu 8", 1 },
        { "\"seed\": 1, \"ztrain\": {\"seed\": 2}", "seed: differs from ztrain.seed (2, line 2)", 1 },
        { "\"dataloader_drop_last\": false, \"ztrain\": {\"data\": {\"drop_last\": true}}", "dataloader_drop_last", 1 },
        { ZERO("\"prefetch_bucket_size\": 1, \"stage3_prefetch_bucket_size\": 1"),
          "old name of stage3_prefetch_bucket_size", 1 },
        { ZERO("\"stage\": 1, \"cpu_offload\": true, \"offload_optimizer\": {\"device\": \"cpu\"}"),
          "old name of offload_optimizer", 0 },
        { "\"fp32_allreduce\": true, \"communication_data_type\": \"fp16\"", "old name of communication_data_type", 1 },
        { ZERO("\"legacy_stage1\": true"), "legacy_stage1", 1 },
        { ZERO("\"zero_quantized_weights\": true"), "ZeRO++", 1 },
        { "\"hybrid_engine\": {\"enabled\": true}", "hybrid_engine.enabled", 1 },
        { "\"compression_training\": {\"row_pruning\": {\"shared_parameters\": {\"enabled\": true}}}", "row_pruning",
          1 },
        { "\"sparse_attention\": {\"mode\": \"fixed\"}",
          "sparse_attention.mode: \"fixed\" is refused: DeepSpeed removed", 1 },
        { ZTRAIN("\"data\": {\"path\": \"x\"}"), "needs ztrain.data.format", 1 },
        { ZTRAIN("\"data\": {\"format\": \"npz\"}"), "needs ztrain.data.path", 1 },
        { ZTRAIN("\"data\": {\"normalize\": {\"mean\": [1]}}"), "both mean and std", 1 },
        { ZTRAIN("\"data\": {\"normalize\": {\"mean\": [1], \"std\": [1, 2]}}"), "1 numbers, std has 2", 1 },
        { ZTRAIN("\"loss\": {\"type\": \"mse\", \"label_smoothing\": 0.1}"), "label_smoothing|mse", 1 },
        { ZTRAIN("\"loss\": {\"type\": \"mse\", \"class_weights\": [1, 2]}"), "class_weights: |\"mse\", which has no",
          1 },
        { ZTRAIN("\"loss\": {\"type\": \"bce_with_logits\", \"class_weights\": [1]}"),
          "class_weights: |pos_weight is not supported", 1 },
        { ZTRAIN("\"loss\": {\"type\": \"output\", \"class_weights\": [1]}"), "class_weights: |\"output\"", 1 },
        { ZTRAIN("\"tie\": [[\"a\", \"b\"], [\"c\", \"a\"]]"), "ztrain.tie[1][1]: \"a\" is in ztrain.tie[0] already",
          1 },
        { ZTRAIN("\"tie\": [[\"a\", \"a\"]]"), "ztrain.tie[0][1]: \"a\" is in ztrain.tie[0] already", 1 },
        { ZTRAIN("\"loss\": {\"class_weights\": [0, 0]}"), "class_weights: all weights are 0", 1 },
        { ZTRAIN("\"loss\": {\"class_weights\": [1, -1]}"), "class_weights[1]: -1, allowed >= 0", 1 },
        { ZTRAIN("\"loss\": {\"type\": \"output\", \"weight\": \"w\"}"), "ztrain.loss.weight: |its own loss", 1 },
        { ZTRAIN("\"parallel\": {\"mode\": \"dp\"}") ", " ZERO("\"stage\": 1"),
          "\"dp\" excludes zero_optimization.stage 1", 1 },
        { ZTRAIN("\"parallel\": {\"mode\": \"dp\", \"communicator\": \"mpi\"}"),
          "communicator: \"mpi\": mode \"dp\" is always threads", 1 },
        { ZTRAIN("\"parallel\": {\"chunks\": 2}"), "interleaved", 2 },
    };
    REFUSE_ALL(cases);
}
END_TEST

START_TEST(what_is_not_there_yet_is_refused_by_name) {
    static const struct refusal cases[] = {
        { "\"activation_checkpointing\": {\"cpu_checkpointing\": true}, " ZTRAIN("\"device\": \"cuda\""),
          "cpu_checkpointing: keeping activations of the GPU in host memory is not supported yet", 1 },
        { ZTRAIN("\"parallel\": {\"schedule\": \"interleaved\", \"chunks\": 2}"), "interleaved|chunk", 2 },
        { ZTRAIN("\"parallel\": {\"schedule\": \"zb-h1\"}"), "zb-h1", 1 },
        { ZTRAIN("\"data\": {\"augment\": {\"flip\": true}}"), "ztrain.data.augment.flip: unknown key", 1 },
        { ZTRAIN("\"data\": {\"augment\": {\"random_crop\": {}, \"random_resized_crop\": {\"scale\": [1, 0.5]}}}"),
          "random_resized_crop.scale: [1, 0.5], wants the smaller number first|random_crop: excludes", 2 },
        { ZTRAIN("\"data\": {\"augment\": {\"color_jitter\": {\"hue\": 0.7}, \"random_erasing\": {\"ratio\": [0, 2]}, "
                 "\"horizontal_flip\": 2, \"random_crop\": true}}"),
          "hue: 0.7, allowed 0..0.5|random_erasing.ratio[0]: 0, allowed|horizontal_flip: 2, allowed 0..1|random_crop: "
          "wants "
          "an object",
          4 },
        { ZTRAIN("\"data\": {\"format\": \"csv\", \"path\": \"t.csv\", \"delimiter\": \"--\"}"),
          "ztrain.data.delimiter: wants one character", 1 },
        { ZTRAIN("\"data\": {\"format\": \"mnist\", \"path\": \"m\", \"delimiter\": \";\"}"),
          "ztrain.data.delimiter: unknown key: mnist has no such parameter", 1 },
        { ZTRAIN("\"checkpoint\": {\"every_steps\": -5, \"best\": \"lost\"}"), "every_steps|best", 2 },
        { "\"tensor_parallel\": {\"tp\": {\"tp_size\": 1}}, " ZTRAIN("\"parallel\": {\"schedule\": \"zb-h1\"}"),
          "zb-h1", 1 },
    };
    REFUSE_ALL(cases);
}
END_TEST

/* Wrong, unknown, missing and unsupported keys, in the order of the lines and not of the checks. */
START_TEST(all_problems_are_one_list_in_the_order_of_lines) {
    struct result got;
    const char *words[] = { ":2:1: elasticity.enabled: elasticity is not supported yet",
                            ":3:1: gradient_clipping: -1",
                            ":4:1: traim_batch_size: unknown key, did you mean train_batch_size?",
                            ":6:1: fp16.enabled: true excludes bf16.enabled",
                            ":7:1: scheduler.params: WarmupDecayLR needs total_num_steps",
                            ":8:1: hybrid_engine.enabled: the hybrid engine is not supported yet" };
    read_text(&got,
              "{\"elasticity\": {\n\"enabled\": true},\n\"gradient_clipping\": -1,\n\"traim_batch_size\": 8,\n"
              "\"fp16\": {\n\"enabled\": true}, \"bf16\": {\"enabled\": true}, \"scheduler\": {\"type\": "
              "\"WarmupDecayLR\",\n\"params\": {}}, \"hybrid_engine\": {\n\"enabled\": true}}");
    const char *at = got.text;
    ck_assert_int_eq(got.err.count, 6);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = strstr(at, words[i]);
        ck_assert_msg(found, "\"%s\" is not, or not in its place, in\n%s", words[i], got.text);
        at = found;
    }
}
END_TEST

START_TEST(more_problems_than_the_error_holds_are_all_reported) {
    struct zt_text text = { 0 };
    struct result got;
    for (int i = 0; i < 300; i++)
        zt_text_add(&text, "%s\"q%d\": %d", i ? ", " : "{", i, i);
    zt_text_add(&text, "}");
    read_text(&got, text.at);
    ck_assert_int_eq(got.err.count, 300);
    ck_assert(strstr(got.text, "q9: unknown key") && strstr(got.err.rest, "q10: unknown key") &&
              strstr(got.err.rest, "q99: unknown key") && !strstr(got.err.rest, "q100: "));
    zt_err_finish(&got.err);
    zt_text_finish(&text);
}
END_TEST

START_TEST(neutral_values_of_what_is_not_there_pass) {
    zt_config_destroy(
        accept("{" BATCH
               ", \"fp16\": {\"enabled\": \"false\"}, \"tensorboard\": {\"enabled\": false, \"output_path\": \"\"},"
               "\"wall_clock_breakdown\": false, \"dump_state\": false, \"activation_checkpointing\": {\"enabled\": "
               "false, \"profile\": true},"
               "\"amp\": {\"enabled\": false}, \"compression_training\": {\"row_pruning\": {\"shared_parameters\": "
               "{\"enabled\": false}}},"
               "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"none\"}, \"zero_hpz_partition_size\": 1, "
               "\"mics_shard_size\": -1},"
               "\"ztrain\": {\"tie\": [], \"ema\": 0.0, \"plan\": \"fixed\", \"memory_limit\": null, \"recompute\": "
               "[], \"cluster\": \"\","
               "\"data\": {\"augment\": {}}, \"loss\": {\"beta\": 1.0, \"delta\": 1.0}, \"parallel\": {\"chunks\": 1, "
               "\"tensor\": 1},"
               "\"tf32\": true, \"deterministic\": true, \"checkpoint\": {\"every_steps\": 0, \"every_epochs\": 1, "
               "\"keep\": 5}}}"));
}
END_TEST

START_TEST(the_batch_error_shows_four_numbers_and_ways_out) {
    refuse("{\n\"train_batch_size\": 64,\n\"train_micro_batch_size_per_gpu\": 16,\n\"gradient_accumulation_steps\": 2}",
           ":2:1: train_batch_size: 64 (line 2)|train_micro_batch_size_per_gpu 16 (line 3)|gradient_accumulation_steps "
           "2 (line 4)|"
           "1 data-parallel rank|train_batch_size 32, or train_micro_batch_size_per_gpu 32, or "
           "gradient_accumulation_steps 4",
           1);
    struct zt_config_overrides over = no_overrides();
    over.ranks = 2;
    refuse(
        "{\n\"train_batch_size\": 4, \"gradient_accumulation_steps\": 8}",
        ":2:1: train_batch_size: 4 (line 2) is less than gradient_accumulation_steps 8 (line 2) x 1 data-parallel rank",
        1);
    refuse_with("{\"train_batch_size\": 30, \"train_micro_batch_size_per_gpu\": 4}", &over,
                "30 (line 1)|(derived)|2 data-parallel ranks|"
                "train_batch_size 24|train_micro_batch_size_per_gpu 3",
                1);
}
END_TEST

START_TEST(problems_of_the_command_line_name_the_option) {
    static const struct {
        const char *set, *words;
    } cases[] = {
        { "optimizer.params.lr=-1", "--set optimizer.params.lr: -1, allowed >= 0" },
        { "optimizer.params.lrr=1", "--set optimizer.params.lrr: unknown key, did you mean lr?" },
        { "no.such.key=1", "--set no.such.key: no: unknown key" },
        { "ztrain.steps", "--set ztrain.steps: expected key.path=value" },
        { "=1", "--set =1: expected" },
        { "ztrain.steps=", "--set ztrain.steps: wants an integer, found a text: \"\"" },
        { "ztrain.steps=many", "wants an integer, found a text: \"many\"" },
        { "zero_optimization={\"stage\": 7}", "--set zero_optimization: zero_optimization.stage: 7, allowed 0..3" },
        { "...=1", "unknown key" },
        { "train_micro_batch_size_per_gpu=3",
          "train_micro_batch_size_per_gpu 3 (--set train_micro_batch_size_per_gpu)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zt_config_overrides over = no_overrides();
        over.set = &cases[i].set;
        over.set_count = 1;
        refuse_with("{" BATCH ", " ADAM "}", &over, cases[i].words, 1);
    }
    struct zt_config_overrides over = no_overrides();
    over.data = "nqz:a";
    refuse_with("{" BATCH "}", &over, "--data: ztrain.data.format: unknown \"nqz\", did you mean \"npz\"?", 1);
    over.data = "npz";
    refuse_with("{" BATCH "}", &over, "needs ztrain.data.path", 1);
    over.data = "npz:";
    refuse_with("{" BATCH ", \"ztrain\": {\"data\": {\"format\": \"npz\", \"path\": \"a\"}}}", &over,
                "needs ztrain.data.path", 1);
}
END_TEST

int main(void) {
    const TTest *const cases[] = { unknown_keys_offer_the_nearest,
                                   types_and_ranges_are_checked,
                                   conflicts_and_missing_companions_are_named,
                                   what_is_not_there_yet_is_refused_by_name,
                                   all_problems_are_one_list_in_the_order_of_lines,
                                   more_problems_than_the_error_holds_are_all_reported,
                                   neutral_values_of_what_is_not_there_pass,
                                   the_batch_error_shows_four_numbers_and_ways_out,
                                   problems_of_the_command_line_name_the_option };
    return run_cases("config refused", cases, sizeof cases / sizeof cases[0]);
}
