/* The "ztrain" block. The formats of the data, and the keys that one format has alone, are in src/data. */
#include "config/rows.h"

static const struct zt_key_choice losses[] = {
    { .name = "cross_entropy" },
    { .name = "mse" },
    { .name = "output" },
    { .name = "nll" },
    { .name = "bce_with_logits" },
    { .name = "l1" },
    { .name = "smooth_l1" },
    { .name = "huber" },
    { 0 },
};
static const struct zt_key_choice loaders[] = { { .name = "ztrain" }, { .name = "deepspeed" }, { 0 } };
static const struct zt_key_choice metrics[] = { { .name = "accuracy" }, { 0 } };
static const struct zt_key_choice batch_norms[] = { { .name = "train" }, { .name = "frozen" }, { 0 } };
static const struct zt_key_choice exports[] = { { .name = "inference" }, { .name = "train" }, { 0 } };
static const struct zt_key_choice lora_exports[] = { { .name = "merged" }, { .name = "adapters" }, { 0 } };
static const struct zt_key_choice qat_scales[] = { { .name = "fixed" }, { .name = "learn" }, { 0 } };
static const struct zt_key_choice qat_types[] = { { .name = "none" },   { .name = "int8" },
                                                  { .name = "uint8" },  { .name = "int4" },
                                                  { .name = "uint4" },  { .name = "int16" },
                                                  { .name = "uint16" }, { 0 } };
static const struct zt_key_choice qat_per[] = { { .name = "axis" }, { .name = "tensor" }, { 0 } };
static const struct zt_key_choice non_finites[] = { { .name = "abort" }, { .name = "skip" }, { 0 } };
static const struct zt_key_choice modes[] = {
    { .name = "ddp" },
    { .name = "dp" },
    { 0 },
};
static const struct zt_key_choice schedules[] = {
    { .name = "1f1b" },
    { .name = "gpipe" },
    { .name = "interleaved", .status = ZT_KEY_LATER },
    { .name = "zb-h1", .status = ZT_KEY_LATER },
    { 0 },
};
/* A ring adds in another order: outside the promise that ddp and the ZeRO stages leave the same bits. */
static const struct zt_key_choice all_reduces[] = { { .name = "pairwise" }, { .name = "ring" }, { 0 } };
static const struct zt_key_choice communicators[] = {
    { .name = "auto" }, { .name = "thread" }, { .name = "mpi" }, { .name = "tcp" }, { .name = "nccl" }, { 0 },
};
static const struct zt_key_choice best[] = { { .name = "loss" }, { .name = "accuracy" }, { .name = "" }, { 0 } };
static const struct zt_key_choice plans[] = { { .name = "fixed" }, { .name = "auto" }, { 0 } };
static const struct zt_key_choice devices[] = { { .name = "auto" }, { .name = "cpu" }, { .name = "cuda" }, { 0 } };

#define AUGMENT "ztrain.data.augment"
#define PAIR    .type = ZT_KEY_PAIR
#define PART    .min = 0, .max = 1, .above = true    /* of an area */
#define RATIO   .min = 0, .max = 1000, .above = true /* of width to height */
static const struct zt_key_row rows[] = {
    { .key = "ztrain", OBJECT },
    { .key = "ztrain.optimizer", OBJECT }, /* deprecated.c moves both to the top level */
    { .key = "ztrain.scheduler", OBJECT },
    { .key = "ztrain.data", OBJECT },
    { .key = "ztrain.data.format", TYPE, AT(data.format) },
    { .key = "ztrain.data.path", PATH, AT(data.path) },
    { .key = "ztrain.data.eval_path", PATH, AT(data.eval_path) },
    { .key = "ztrain.data.shuffle", BOOL, DEF("true"), AT(data.shuffle) },
    { .key = "ztrain.data.drop_last", BOOL, DEF("false"), AT(data.drop_last) },
    { .key = AUGMENT, OBJECT },
    { .key = AUGMENT ".random_crop", OBJECT },
    { .key = AUGMENT ".random_crop.enabled", BOOL, DEF("false"), AT(data.augment.random_crop) },
    { .key = AUGMENT ".random_crop.padding", COUNT(0, 4096), DEF("0"), AT(data.augment.padding) },
    { .key = AUGMENT ".random_resized_crop", OBJECT },
    { .key = AUGMENT ".random_resized_crop.enabled", BOOL, DEF("false"), AT(data.augment.resized_crop) },
    { .key = AUGMENT ".random_resized_crop.scale", PAIR, PART, DEF("0.08 1"), AT(data.augment.crop_scale[0]) },
    { .key = AUGMENT ".random_resized_crop.ratio",
      PAIR,
      RATIO,
      DEF("0.75 1.3333333333333333"),
      AT(data.augment.crop_ratio[0]) },
    { .key = AUGMENT ".horizontal_flip", NUMBER, WITHIN(0, 1), DEF("0"), AT(data.augment.horizontal_flip) },
    { .key = AUGMENT ".vertical_flip", NUMBER, WITHIN(0, 1), DEF("0"), AT(data.augment.vertical_flip) },
    { .key = AUGMENT ".color_jitter", OBJECT },
    { .key = AUGMENT ".color_jitter.brightness", NUMBER, FROM(0), DEF("0"), AT(data.augment.brightness) },
    { .key = AUGMENT ".color_jitter.contrast", NUMBER, FROM(0), DEF("0"), AT(data.augment.contrast) },
    { .key = AUGMENT ".color_jitter.saturation", NUMBER, FROM(0), DEF("0"), AT(data.augment.saturation) },
    { .key = AUGMENT ".color_jitter.hue", NUMBER, WITHIN(0, 0.5), DEF("0"), AT(data.augment.hue) },
    { .key = AUGMENT ".random_erasing", OBJECT },
    { .key = AUGMENT ".random_erasing.enabled", BOOL, DEF("false"), AT(data.augment.erase) },
    { .key = AUGMENT ".random_erasing.probability",
      NUMBER,
      WITHIN(0, 1),
      DEF("0.5"),
      AT(data.augment.erase_probability) },
    { .key = AUGMENT ".random_erasing.scale", PAIR, PART, DEF("0.02 0.33"), AT(data.augment.erase_scale[0]) },
    { .key = AUGMENT ".random_erasing.ratio", PAIR, RATIO, DEF("0.3 3.3"), AT(data.augment.erase_ratio[0]) },
    { .key = AUGMENT ".cutout", COUNT(0, 65536), DEF("0"), AT(data.augment.cutout) },
    { .key = "ztrain.dataloader", INDEX(loaders), DEF("ztrain"), AT(data.carries) },
    { .key = "ztrain.loss", OBJECT },
    { .key = "ztrain.loss.type", CHOICE(losses), AT(loss.type) },
    { .key = "ztrain.loss.logits", TEXT, AT(loss.logits) },
    { .key = "ztrain.loss.target", TEXT, DEF("target"), AT(loss.target) },
    { .key = "ztrain.loss.weight", TEXT, DEF(""), AT(loss.weight) },
    { .key = "ztrain.loss.class_weights", NUMBERS, FROM(0), AT(loss.class_weights) },
    { .key = "ztrain.loss.ignore_index", .type = ZT_KEY_INT, WITHIN(-9e15, 9e15), DEF("-100"), AT(loss.ignore_index) },
    { .key = "ztrain.loss.label_smoothing", NUMBER, WITHIN(0, 1), DEF("0"), AT(loss.label_smoothing) },
    { .key = "ztrain.loss.beta", NUMBER, FROM(0), DEF("1"), AT(loss.beta) },
    { .key = "ztrain.loss.delta", NUMBER, POSITIVE, DEF("1"), AT(loss.delta) },
    { .key = "ztrain.loss.output", TEXT, AT(loss.output) },
    /* Without it: accuracy where there is a classification and evaluation data (check.c). */
    { .key = "ztrain.metrics", .type = ZT_KEY_HAS, .choices = metrics, AT(accuracy) },
    { .key = "ztrain.epochs", INT(0), DEF("10"), AT(epochs) },
    { .key = "ztrain.steps", INT(0), DEF("0"), AT(steps) },
    { .key = "ztrain.hashes", INT(0), DEF("0"), AT(hashes) },
    { .key = "ztrain.seed", COUNT(0, 9e18), DEF("0"), AT(seed) },
    { .key = "ztrain.trainable", TEXTS, DEF("*"), AT(trainable) },
    { .key = "ztrain.freeze", TEXTS, AT(freeze) },
    { .key = "ztrain.fuse", TEXTS, DEF("*"), AT(fuse) },
    { .key = "ztrain.tie", .type = ZT_KEY_GROUPS, AT(tie) },
    { .key = "ztrain.tie_equal", BOOL, DEF("true"), AT(tie_equal) },
    { .key = "ztrain.batch_norm", INDEX(batch_norms), DEF("train"), AT(batch_norm_frozen) },
    { .key = "ztrain.param_groups", .type = ZT_KEY_OBJECTS, AT(groups) },
    { .key = "ztrain.param_groups[].match", TEXT },
    { .key = "ztrain.param_groups[].lr", NUMBER, FROM(0) },
    { .key = "ztrain.param_groups[].weight_decay", NUMBER, FROM(0) },
    { .key = "ztrain.param_groups[].use_muon", BOOL },
    { .key = "ztrain.padding_idx", .type = ZT_KEY_NAMED, AT(paddings) },
    { .key = "ztrain.padding_idx.*", .type = ZT_KEY_INT, WITHIN(-9e15, 9e15) },
    { .key = "ztrain.lora", OBJECT },
    { .key = "ztrain.lora.match", TEXTS, AT(lora.match) },
    { .key = "ztrain.lora.rank", COUNT(1, 1e6), DEF("8"), AT(lora.rank) },
    { .key = "ztrain.lora.alpha", NUMBER, POSITIVE, DEF("8"), AT(lora.alpha) },
    { .key = "ztrain.lora.dropout", NUMBER, BELOW_ONE, DEF("0"), AT(lora.dropout) },
    { .key = "ztrain.lora.export", INDEX(lora_exports), DEF("merged"), AT(lora.apart) },
    { .key = "ztrain.export", INDEX(exports), DEF("inference"), AT(export_train) },
    { .key = "ztrain.allow_future_opset", BOOL, DEF("false"), AT(allow_future_opset) },
    { .key = "ztrain.qat", OBJECT },
    { .key = "ztrain.qat.scales", INDEX(qat_scales), DEF("fixed"), AT(qat.learn_scales) },
    { .key = "ztrain.qat.weights", INDEX(qat_types), DEF("none"), AT(qat.weights) },
    { .key = "ztrain.qat.activations", INDEX(qat_types), DEF("none"), AT(qat.activations) },
    { .key = "ztrain.qat.match", TEXTS, DEF("*"), AT(qat.match) },
    { .key = "ztrain.qat.per", INDEX(qat_per), DEF("axis"), AT(qat.per_tensor) },
    { .key = "ztrain.qat.weights_symmetric", BOOL, DEF("true"), AT(qat.weights_symmetric) },
    { .key = "ztrain.qat.activations_symmetric", BOOL, DEF("false"), AT(qat.activations_symmetric) },
    { .key = "ztrain.qat.momentum", NUMBER, BELOW_ONE, DEF("0.99"), AT(qat.momentum) },
    { .key = "ztrain.ema", NUMBER, BELOW_ONE, DEF("0"), AT(ema) },
    { .key = "ztrain.parallel", OBJECT },
    { .key = "ztrain.parallel.mode", CHOICE(modes), DEF("ddp"), AT(parallel.mode) },
    { .key = "ztrain.parallel.schedule", CHOICE(schedules), DEF("1f1b"), AT(parallel.schedule) },
    { .key = "ztrain.parallel.chunks",
      COUNT(1, 1e6),
      DEF("1"),
      AT(parallel.chunks),
      LATER("more than one chunk a stage") },
    { .key = "ztrain.parallel.tensor", COUNT(1, 1e6), DEF("1"), AT(parallel.tensor), LATER("tensor parallelism") },
    { .key = "ztrain.parallel.sync_batch_norm", BOOL, DEF("false"), AT(parallel.sync_batch_norm) },
    { .key = "ztrain.parallel.communicator", CHOICE(communicators), DEF("auto"), AT(parallel.communicator) },
    { .key = "ztrain.parallel.all_reduce", INDEX(all_reduces), DEF("pairwise"), AT(parallel.ring) },
    { .key = "ztrain.plan", INDEX(plans), DEF("fixed"), AT(plan_auto) },
    { .key = "ztrain.memory_limit", .type = ZT_KEY_BYTES, AT(memory_limit) },
    { .key = "ztrain.recompute", TEXTS, AT(recompute.names) },
    { .key = "ztrain.cluster", TEXT, DEF(""), AT(cluster) },
    { .key = "ztrain.tf32", BOOL, DEF("false"), AT(tf32) },
    { .key = "ztrain.deterministic", BOOL, DEF("true"), ACCEPT("every run is deterministic") },
    { .key = "ztrain.on_non_finite", INDEX(non_finites), DEF("abort"), AT(skip_non_finite) },
    { .key = "ztrain.checkpoint", OBJECT },
    { .key = "ztrain.checkpoint.every_steps", INT(0), DEF("0"), AT(checkpoint.every_steps) },
    { .key = "ztrain.checkpoint.every_epochs", INT(0), DEF("1"), AT(checkpoint.every_epochs) },
    { .key = "ztrain.checkpoint.keep", INT(0), DEF("3"), AT(checkpoint.keep) },
    { .key = "ztrain.checkpoint.best", CHOICE(best), DEF("loss"), AT(checkpoint.best) },
    { .key = "ztrain.checkpoint.tag", TEXT, DEF("step-{step}"), AT(checkpoint.tag) },
    { .key = "ztrain.checkpoint.client_state", FREE, AT(checkpoint.client_state) },
    { .key = "ztrain.monitor", OBJECT },
    { .key = "ztrain.monitor.histogram_steps", INT(0), DEF("0"), AT(histogram_steps) },
    { .key = "ztrain.monitor.trace_step", INT(1), DEF("3"), AT(trace.first) },
    { .key = "ztrain.monitor.trace_steps", COUNT(0, 1000), DEF("0"), AT(trace.steps) },
    { .key = "ztrain.device", CHOICE(devices), DEF("auto"), AT(device) },
};

const struct zt_key_rows zt_key_rows_ztrain = ZT_KEY_ROWS(rows);
