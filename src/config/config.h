/* The configuration as values: DeepSpeed's JSON file and its "ztrain" block, overlaid by the command line, with every
 * default filled in and every type, range, conflict and required companion checked.
 *
 * The keys are rows of a table (config/table.h). A row states the place of the value in struct zt_config, its type,
 * range and default, and whether the key works, has no effect, or is refused by name. docs/config.md explains every
 * key; keys of DeepSpeed mean what DeepSpeed's documentation says. */
#ifndef ZT_CONFIG_CONFIG_H
#define ZT_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct zt_key_catalog; /* config/table.h */
struct zt_key_table;
struct zt_json_node; /* config/json/node.h */

/* A list of texts or numbers; in the config, owned by its arena. */
struct zt_texts {
    const char **at;
    int count;
};
struct zt_text_lists {
    struct zt_texts *at;
    int count;
};
struct zt_numbers {
    double *at;
    int count;
};

/* optimizer.*. The params that only one optimizer reads stand in a struct of that optimizer's file (src/optim). */
struct zt_optimizer_config {
    const char *type;                      /* canonical spelling of a row of src/optim */
    double lr, beta1, beta2, weight_decay; /* 0 where the optimizer has no such parameter */
    bool momentum_moves;                   /* a schedule gives beta1 or the momentum of every update */
    void *params;                          /* the struct of the row; in the config's arena */
};

/* scheduler.*; likewise. A list-valued rate keeps its first value. */
struct zt_scheduler_config {
    const char *type;        /* canonical spelling, NULL: constant optimizer.lr */
    int64_t total_num_steps; /* 0: the run's own number (was "auto") */
    bool counts_run;         /* which it has been set to */
    int64_t last_update;     /* last_batch_iteration, last_epoch: done before the run, counted from 0; -1: none */
    void *params;
};

/* ztrain.data.augment: random changes of training pictures (data/augment.h). */
struct zt_augment_config {
    bool random_crop; /* RandomCrop(the size of the input, padding) */
    int padding;
    bool resized_crop; /* RandomResizedCrop(the size of the input, scale, ratio) */
    double crop_scale[2], crop_ratio[2];
    double horizontal_flip, vertical_flip;        /* probabilities; 0: never */
    double brightness, contrast, saturation, hue; /* ColorJitter; 0: unchanged */
    bool erase;                                   /* RandomErasing(probability, scale, ratio) */
    double erase_probability, erase_scale[2], erase_ratio[2];
    int cutout; /* side of the hole in pixels; 0: none */
};

struct zt_data_config {
    const char *format;    /* a row of src/data; NULL: none given */
    void *params;          /* the struct of the row, for the keys that only this format has */
    const char *path;      /* resolved: relative to the config file, or to the current folder from --data */
    const char *eval_path; /* NULL: none given */
    bool shuffle;          /* default true */
    bool drop_last;        /* default false */
    bool carries; /* ztrain.dataloader "deepspeed": accumulation goes on over the end of an epoch (data/epochs.h) */
    struct zt_numbers mean, std; /* normalize: per channel; count 0: none */
    int64_t samples;             /* synthetic */
    struct zt_augment_config augment;
};

struct zt_loss_config {
    const char *type; /* "cross_entropy", "mse", "output"; NULL: inferred from the model's outputs (docs/training.md) */
    const char *logits; /* graph output, NULL: the only float one */
    const char *target; /* data column, default "target" */
    /* The loss is sum of w l over sum of w, over the targets l that count: w from this data column, [N] or any first
     * axes of the target's shape, times the class weight of the target. Where these sum to 0 the loss is 0 and has no
     * gradient (PyTorch: NaN). "": none. */
    const char *weight;
    struct zt_numbers class_weights; /* of cross_entropy and nll, one a class, as PyTorch's `weight`; count 0: none */
    const char *output;              /* type output: the scalar graph output */
    int64_t ignore_index;            /* default -100 */
    double label_smoothing;          /* default 0 */
    double beta, delta;              /* smooth_l1, huber: the limit between square and linear; default 1 */
};

/* param_groups[i]: parameters whose name matches take these values instead of the optimizer's. */
struct zt_group_config {
    const char *match;
    double lr, weight_decay; /* NAN: the optimizer's own */
    int use_muon;            /* optimizers of matrices: whether these are; -1: the optimizer decides */
};

/* padding_idx: the row whose gradient PyTorch's nn.Embedding(padding_idx) leaves at zero. */
struct zt_padding_config {
    const char *match; /* glob over initializers */
    int64_t row;       /* below 0: counted from the end */
};

enum zt_qat_type { ZT_QAT_NONE, ZT_QAT_INT8, ZT_QAT_UINT8, ZT_QAT_INT4, ZT_QAT_UINT4, ZT_QAT_INT16, ZT_QAT_UINT16 };
/* qat: quantization-aware training of a model that has QuantizeLinear and DequantizeLinear
 * (ops/quantize/fake_quantize.c). */
struct zt_qat_config {
    bool learn_scales;                     /* scales that are float initializers train by LSQ's gradient */
    enum zt_qat_type weights, activations; /* what src/plan/job/qat.h inserts */
    struct zt_texts match;                 /* globs over weights and nodes */
    bool per_tensor;                       /* one scale a weight, instead of one for each output channel */
    bool weights_symmetric, activations_symmetric;
    double momentum; /* of the ranges of activations */
};
/* lora: low-rank adapters (src/plan/job/lora.h). */
struct zt_lora_config {
    struct zt_texts match; /* globs over initializers and nodes; none: no adapters */
    int64_t rank;
    double alpha, dropout;
    bool apart; /* export "adapters": the model file stays as it is */
};

struct zt_parallel_config {
    const char *mode;         /* "ddp" | "dp" */
    const char *schedule;     /* "1f1b" | "gpipe" | ... */
    const char *communicator; /* "auto" | "thread" | "mpi" | "tcp" | "nccl" */
    bool ring;                /* all_reduce "ring" */
    int stages;               /* pipeline.stages, 1: no pipeline */
    const char *partition;    /* pipeline.partition (parallel/partition/split.h) */
    bool seed_layers;         /* pipeline.seed_layers: random numbers of nodes do not depend on ztrain.seed */
    int chunks, tensor;
    bool sync_batch_norm;
};

struct zt_fp16_config {
    bool enabled;
    double loss_scale;       /* 0: dynamic, by the values below (optim/loss_scale.h) */
    int initial_scale_power; /* the first one is 2 to this power */
    int64_t loss_scale_window, hysteresis;
    double min_loss_scale; /* 0: the least number that fp32 holds without loss of digits */
    bool consecutive_hysteresis;
};

/* zero_optimization.offload_optimizer and offload_param. */
struct zt_offload_config {
    const char *device;                 /* "none" | "cpu" | "nvme" */
    const char *nvme_path;              /* relative to the current directory; NULL: none given */
    int64_t buffer_count;               /* staging buffers of one state array, or of one bucket of parameters */
    int64_t buffer_size, max_in_cpu;    /* parameters only: elements of a buffer; elements kept in host memory */
    bool pipeline_read, pipeline_write; /* optimizer only: transfers overlap with the update */
    double ratio;                       /* optimizer only: share of the elements that are offloaded */
};

struct zt_aio_config {   /* aio */
    int64_t block_size;  /* bytes of a request */
    int queue_depth;     /* requests in flight of a thread */
    int threads;         /* intra_op_parallelism: threads of a transfer */
    bool single_submit;  /* each request is submitted by itself */
    bool overlap_events; /* requests are submitted while others complete */
};

struct zt_zero_config {
    int stage;                        /* 0..3 */
    bool reduce_scatter;              /* false: stages 1 and 2 all-reduce their gradients */
    bool overlap_comm;                /* as zt_config_derive_overlap has it */
    bool overlap_asked, overlap_open; /* the value in the file; the file has none */
    int64_t reduce_bucket_size; /* elements; 0: default (larger of largest tensor, 1/16 of the model); -1: "auto", h^2
                                   of the hidden size h */
    int64_t allgather_bucket_size; /* elements; 0: default (whole buckets of reduce_bucket_size) */
    int64_t prefetch_bucket_size,
        param_persistence_threshold;                 /* elements; -1: "auto", 0.9 h^2 and 10 h of the hidden size h */
    int64_t model_persistence_threshold;             /* elements of all persistent tensors together */
    int64_t max_live_parameters, max_reuse_distance; /* elements */
    struct zt_offload_config offload_optimizer, offload_param;
    int64_t sub_group_size; /* elements that an offloaded optimizer updates at a time; 0: no limit */
    bool ignore_unused;     /* false: a parameter without gradient is an error */
    bool half_export; /* stage3_gather_16bit_weights_on_model_save: fp16 and bf16 runs also write model.16bit.onnx */
};

struct zt_comms_config { /* comms_logger */
    bool enabled, prof_all, verbose;
    struct zt_texts prof_ops;
};

/* tensorboard and csv_monitor: files in <output_path>/<job_name>. output_path "": the run's output folder; job_name "":
 * DeepSpeed's "DeepSpeedJobName" below an output_path, none below the run's folder. */
struct zt_monitor_config {
    bool enabled;
    const char *output_path, *job_name;
};

struct zt_flops_config { /* flops_profiler */
    bool enabled, detailed;
    int64_t step;                  /* profile_step, from 1; 0 means 1 */
    int module_depth, top_modules; /* depth -1: the deepest */
    const char *output_file;       /* "": flops.txt of the run's output folder, and the console */
    double recompute_fwd_factor;   /* -1: as counted on the graph */
};

struct zt_trace_config {  /* ztrain.monitor.trace_*: trace.json */
    int64_t first, steps; /* first step, from 1; steps 0: none */
};

/* The activations that the backward phase computes again (graph/passes/recompute/recompute.h). `names` has priority. */
struct zt_recompute_config {
    bool on_host;          /* cpu_checkpointing: the activations that are kept are in host memory */
    struct zt_texts names; /* ztrain.recompute: globs over node names */
    bool enabled;          /* activation_checkpointing: the whole forward phase, in `segments` segments */
    int segments;          /* 0: the square root of the number of layers */
    int layers;            /* pipeline.activation_checkpoint_interval: a segment for so many layers; 0: not asked for */
    bool profile;          /* the times of the segments are printed */
};

/* A key that the config gives as a list of values. */
struct zt_tuning_axis {
    const char *key;
    struct zt_texts values; /* as JSON; the first is that of the config as it is */
};
enum { ZT_TUNING_AXES = 4 };
struct zt_tuning_config { /* autotuning */
    bool enabled, fast, overwrite;
    int metric, tuner;              /* enum zt_tuning_metric, zt_tuning_tuner */
    int64_t first_step, last_step;  /* steps of a trial that count: after the first, to the last */
    int64_t early_stopping, trials; /* 0: no early stop */
    int64_t max_train_batch, min_train_batch;
    int64_t max_micro_batch, min_micro_batch, counts; /* micro-batch sizes that are tried */
    const char *results, *experiments;                /* folders; NULL: below the output folder */
    struct zt_tuning_axis axes[ZT_TUNING_AXES];
    int axis_count;
    bool fixes_train, fixes_micro, fixes_accumulation, fixes_stage; /* the config gives the value as a number */
};
enum zt_tuning_metric { ZT_TUNING_THROUGHPUT, ZT_TUNING_LATENCY, ZT_TUNING_FLOPS };
enum zt_tuning_tuner { ZT_TUNING_GRID, ZT_TUNING_RANDOM, ZT_TUNING_MODEL };

/* communication_data_type, data_types.grad_accum_dtype */
enum zt_gradient_type { ZT_GRADIENTS_FP32, ZT_GRADIENTS_FP16, ZT_GRADIENTS_BF16 };

struct zt_checkpoint_config {
    int64_t every_steps, every_epochs; /* 0: not at these */
    int64_t keep;                      /* newest ones that stay; 0: all */
    const char *best; /* "loss", "accuracy": the checkpoint with the best evaluation stays as well; "": none does */
    const char *tag;  /* name of a checkpoint; ends in "{step}", which stands for the step */
    const char *client_state; /* JSON object that is carried along; NULL: none given */
    bool node_local;          /* every host keeps what its ranks have (checkpoint/storage.h) */
};

/* Values from the command line that override the file; zero or NULL where not given. */
struct zt_config_overrides {
    const char *const *set; /* "key.path=value" */
    int set_count;
    const char *data;   /* FORMAT:PATH */
    bool evaluates;     /* the command only evaluates, and `data` are the evaluation data */
    const char *device; /* auto|cpu|cuda */
    const char *cluster;
    int ranks;
    int64_t epochs, steps, seed; /* -1: not given */
    int threads;
};

struct zt_config {
    struct zt_arena *arena;
    const struct zt_key_table *table;        /* the keys that it was read with (config/table.h) */
    const struct zt_json_node *root;         /* the values as they were given */
    const struct zt_json_node *const *given; /* by row of `table`; NULL: not given, or null */

    /* resolved: train_batch = micro_batch * accumulation * data_parallel */
    int64_t train_batch, micro_batch, accumulation;
    int ranks;                /* world size: data_parallel * stages */
    int data_parallel;        /* ranks / stages */
    const char *batch_source; /* the origin of these, for the start table: "train_batch_size 64 (line 2) = ..." */

    struct zt_optimizer_config optimizer;
    struct zt_scheduler_config scheduler;
    double gradient_clipping; /* 0: off */
    bool prescale_gradients;
    double gradient_predivide_factor;
    int communication_type; /* enum zt_gradient_type: in which gradients are summed over ranks */
    int accumulation_type;  /* in which gradients are summed over micro-batches */
    bool sum_gradients;     /* gradient_allreduce_op: sum; default mean */
    bool bf16;
    bool bf16_checks_overflow; /* bf16.check_grad_overflow: where given, skips, unless on_non_finite is given */
    struct zt_fp16_config fp16;
    struct zt_zero_config zero;
    struct zt_aio_config aio;
    struct zt_comms_config comms;
    struct zt_tuning_config tuning;
    struct zt_parallel_config parallel;
    struct zt_recompute_config recompute;
    bool plan_auto; /* ztrain.plan "auto", until the choice is made: then micro_batch, accumulation, parallel.stages,
                       data_parallel and zero.stage are what was chosen */
    int64_t memory_limit; /* bytes a rank; 0: none */
    const char *cluster;  /* a row of parallel/partition/machine.c; "": this host */

    struct zt_data_config data;
    struct zt_loss_config loss;
    struct zt_checkpoint_config checkpoint;
    bool accuracy; /* metrics has "accuracy" (also on by default for cross_entropy with eval data) */
    int64_t epochs, steps, seed;
    int64_t hashes; /* steps at the start of the run whose nodes are hashed (run/rank/node_hashes.h) */
    /* Globs of names. Tied parameters have the first name of their group: globs here and in param_groups that match
     * only the other names have no effect. */
    struct zt_texts trainable, freeze;
    /* Groups of parameters of equal or transposed shape. A group is one parameter, its first; the others copy its
     * values, also when the model is written. */
    struct zt_text_lists tie;
    bool tie_equal;       /* copies of a parameter that the exporter left are tied (zt_trainable_copies) */
    struct zt_texts fuse; /* globs over the names of fusion patterns; none: no fusion */
    bool batch_norm_frozen;
    struct zt_group_config *groups;
    int group_count;
    struct zt_padding_config *paddings;
    int padding_count;
    struct zt_lora_config lora;
    struct zt_qat_config qat;
    bool export_train;       /* export: train; default inference */
    double ema;              /* of the average of the weights that is evaluated and exported; 0: none */
    bool allow_future_opset; /* a model of an opset newer than ZT_ONNX_OPSET_LAST is accepted */
    bool skip_non_finite;    /* on_non_finite: skip; default abort */

    int64_t steps_per_print; /* default 10; 0 (null): never */
    int log_level;           /* enum zt_log_level */
    bool wall_clock_breakdown, memory_breakdown, dump_state;
    bool throughput; /* timers.throughput.enabled; default true */
    struct zt_monitor_config tensorboard, csv;
    bool wandb, comet;       /* services: CSV files take their place */
    int64_t histogram_steps; /* histograms of weights and gradients after so many steps; 0: none */
    struct zt_flops_config flops;
    struct zt_trace_config trace;
    const char *device; /* "auto" | "cpu" | "cuda" */
    bool tf32;          /* fp32 matrix products may use TF32 on a GPU; default false */
    int threads;        /* 0: as many as the machine has cores */

    struct zt_texts without_effect; /* accepted keys that change nothing here: "key = value" with the reason */
    struct zt_texts resolved_auto;  /* "key = value (auto: rule)" */
    struct zt_texts notes;          /* warnings: deprecated spellings and the like */
};

/* Reads the files `paths`, of which a later one takes precedence over the earlier ones key by key, checks and resolves.
 * `catalog`: the optimizers, rules and formats of this program; it outlives the config. All problems of the files are
 * reported at once as "FILE:LINE:COLUMN: key.path: ...", in the order of files and lines; err->rest has those that
 * `err` has no room for. A file has at most 16 MiB. Free with zt_config_destroy(). Problems that only model or data
 * reveal (unknown output names, the hidden size of "auto") are reported later by the code that uses the value. */
struct zt_config *zt_config_read(const struct zt_texts *paths, const struct zt_config_overrides *over,
                                 const struct zt_key_catalog *catalog, struct zt_err *err);
void zt_config_destroy(struct zt_config *config);

enum { ZT_CONFIG_ORIGIN = 288 }; /* a file name, a line and a column */
/* Writes to `to` where the key was given with whose path `message` begins: "FILE:LINE:COLUMN", "--set key.path",
 * "--seed". `files` if it was not given, or if the message begins with another word. Returns `to`. */
const char *zt_config_origin(const struct zt_config *config, const char *files, const char *message,
                             char to[ZT_CONFIG_ORIGIN]);
/* Prepends its origin to every problem of `err` from index `first` on, in the form of the problems of
 * zt_config_read(). Returns false. */
bool zt_config_locate(const struct zt_config *config, const char *files, struct zt_err *err, int first);

/* Sets zero.overlap_comm for the current stages: off with pipeline stages, else the value in the file; without one, on
 * at ZeRO stage 3. */
void zt_config_derive_overlap(struct zt_config *config);

/* Writes config.resolved.json: every key with its value, a configuration that gives the same run. Texts have the bytes
 * of the configuration. */
void zt_config_write(const struct zt_config *config, FILE *to);
/* Writes it to a file of a folder, as valid JSON (config/json/node_text.h). */
bool zt_config_write_in(const struct zt_config *config, const char *folder, const char *name, struct zt_err *err);
/* The same as text of *bytes bytes; free with free(). NULL with an error where there is no memory for it. */
char *zt_config_text(const struct zt_config *config, size_t *bytes, struct zt_err *err);

/* Prints every key that works with its value and, in parentheses, the origin of the value: "ds.json:12", "--set",
 * "auto: RULE", "default", or "derived" from other keys. The form is that of DeepSpeed's configuration. */
void zt_config_say(const struct zt_config *config, const struct zt_log *log);

#endif
