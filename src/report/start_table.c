/* The start table of a run, on standard error. */
#include "report/start_table.h"

#include "ops/cpu/isa.h"
#include "ops/loss/loss.h"
#include "optim/types/types.h"
#include "plan/compressed.h"
#include "plan/job/fusion.h"
#include "plan/job/lora.h"
#include "plan/job/qat.h"
#include "plan/kernel_paths.h"
#include "plan/rank_bytes.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static void row(const struct zt_session *s, const char *name, const char *value) {
    zt_say(&s->options->log, ZT_LOG_INFO, "  %-15s %s", name, value);
}

static void list_texts(const struct zt_session *s, const char *title, const struct zt_texts *texts) {
    for (int i = 0; i < texts->count; i++)
        row(s, i ? "" : title, texts->at[i]);
}

void zt_report_findings(const struct zt_session *s) {
    for (int i = 0; i < s->job->finding_count; i++)
        row(s, s->job->findings[i].warning ? "warning" : "parameters", s->job->findings[i].text);
}

void zt_report_notes(const struct zt_session *s, const struct zt_program_set *programs) {
    const struct zt_training_graph *training_graph = programs->count ? &programs->at[0]->training_graph : NULL;
    list_texts(s, "note", &s->config->notes);
    for (int i = 0; training_graph && i < training_graph->note_count; i++)
        row(s, s->config->notes.count + i ? "" : "note", training_graph->notes[i]);
}

/* Lists nodes that run on the reference kernels because no fast kernel supports them. */
static void list_slow_nodes(const struct zt_rank_plan *plan, struct zt_text *to) {
    const struct zt_program *p = plan->programs.train.count ? plan->programs.train.at[0] : NULL;
    const struct zt_graph *g = p ? p->training_graph.graph : NULL;
    int count = 0;
    for (int n = 0; g && n < g->node_count; n++) {
        if (g->nodes[n]->backend != ZT_REF || g->nodes[n]->op->flags & ZT_OP_VIEW)
            continue;
        if (count++ < 4)
            zt_text_add(to, "%s%s", count > 1 ? ", " : "", g->nodes[n]->op_type);
    }
    if (count > 4)
        zt_text_add(to, " and %d more", count - 4);
}

/* Adds a row with the number of tensors that are updated as matrices, and the rates of these and of the others. */
static void report_matrices(const struct zt_session *s, const struct zt_rank_plan *plan) {
    const struct zt_optimizer_config *o = &s->config->optimizer;
    const struct zt_optimizer *optimizer = zt_optimizer_find(o->type);
    int matrices = 0, tensors = plan->tensors.flat->own_tensors;
    char text[128];
    for (int t = 0; t < tensors; t++)
        matrices += plan->tensors.matrices[t].rows > 0;
    snprintf(text, sizeof text, "%d of %d tensors with rate %g, the others by Adam with %g", matrices, tensors,
             optimizer->rate(o, true), optimizer->rate(o, false));
    row(s, "matrices", text);
}

/* The optimizer with the two things that its users ask about: what weight decay does, and how rates change. */
static void report_optimizer(const struct zt_session *s, const struct zt_rank_plan *plan) {
    const struct zt_config *c = s->config;
    const struct zt_optimizer *optimizer = zt_optimizer_find(c->optimizer.type);
    bool decouples = optimizer->decouples && optimizer->decouples(&c->optimizer);
    char text[256];
    snprintf(text, sizeof text, "%s, lr %g, weight decay %g (%s), schedule %s, clipping %g", optimizer->type.name,
             c->optimizer.lr, c->optimizer.weight_decay, decouples ? "decoupled" : "L2",
             c->scheduler.type ? c->scheduler.type : "constant", c->gradient_clipping);
    row(s, "optimizer", text);
    if (optimizer->matrix)
        report_matrices(s, plan);
    if (c->ema > 0) {
        snprintf(
            text, sizeof text,
            "exponential, factor %g: evaluation and model.onnx have it; training and checkpoints keep the weights too",
            c->ema);
        row(s, "weight average", text);
    }
}

static void report_step(const struct zt_session *s, const struct zt_rank_plan *plan, int64_t steps) {
    const struct zt_config *c = s->config;
    const int threads = zt_session_threads(s);
    char text[256], mode[120], fewer[48] = "";
    if (!c->data.carries && c->train_batch > s->source->samples)
        snprintf(fewer, sizeof fewer, " (the data have %lld)", (long long)s->source->samples);
    snprintf(text, sizeof text, "%lld samples%s = %lld per micro-batch x %lld x %d rank%s; %lld step%s",
             (long long)c->train_batch, fewer, (long long)c->micro_batch, (long long)c->accumulation, c->data_parallel,
             zt_plural(c->data_parallel), (long long)steps, zt_plural(steps));
    row(s, "batch", text);
    report_optimizer(s, plan);
    snprintf(text, sizeof text, "%s, %d rank%s x %d thread%s, %s%s, %d stage%s",
             zt_rank_plan_mode(plan, mode, sizeof mode), c->ranks, zt_plural(c->ranks), threads, zt_plural(threads),
             c->ranks == 1         ? "one process"
             : zt_session_meets(s) ? "processes over TCP"
             : s->processes        ? "processes over MPI"
                                   : "threads of one process",
             c->fp16.enabled ? ", fp16"
             : c->bf16       ? ", bf16"
                             : ", fp32",
             c->parallel.stages, zt_plural(c->parallel.stages));
    row(s, "parallel", text);
    if (s->cores[0])
        row(s, "cores", s->cores);
}

static void report_loss(const struct zt_session *s) {
    const struct zt_job *job = s->job;
    char text[512];
    if (job->loss)
        snprintf(text, sizeof text, "%s of output %.160s, target %.160s%s", job->loss->type, job->logits, job->target,
                 s->config->loss.type ? "" : " (no ztrain.loss.type)");
    else
        snprintf(text, sizeof text, "output %.160s of the model", job->logits);
    row(s, "loss", text);
}

static void report_compression(const struct zt_session *s, const struct zt_rank_plan *plan, int64_t steps) {
    struct zt_text text = { 0 };
    zt_compressed_describe(plan, steps, &text);
    if (text.at)
        row(s, "compression", text.at);
    zt_text_finish(&text);
}

static void report_device(const struct zt_session *s, const struct zt_device *device) {
    char text[ZT_ERR_TEXT + 64];
    if (s->no_gpu.count)
        snprintf(text, sizeof text, "%s (auto: %s)", device->api->name, s->no_gpu.text[0]);
    else
        snprintf(text, sizeof text, "%s%s", device->api->name, strcmp(s->config->device, "auto") == 0 ? " (auto)" : "");
    row(s, "device", text);
    if (s->config->bf16 && device->api->backend == ZT_CPU && !zt_isa_has(ZT_ISA_AVX512_BF16))
        row(s, "bf16", "this CPU has no products of bf16: they are computed in fp32, in which it is faster");
}

static void report_bytes(const struct zt_session *s, const struct zt_rank_plan *plan) {
    const int largest = zt_rank_plan_largest(plan); /* rank 0, which prints, may own nothing of a small model */
    const struct zt_rank_bytes b = zt_rank_plan_bytes(plan, largest);
    char t[8][32], text[416], frozen[64] = "";
    const int64_t held = plan->memory.frozen_bytes + plan->memory.frozen_shard_bytes;
    if (held)
        snprintf(frozen, sizeof frozen, " (%s frozen)", zt_format_bytes(t[7], (double)held));
    int n = snprintf(text, sizeof text, "parameters %s%s, gradients %s, optimizer %s, activations %s, workspace %s",
                     zt_format_bytes(t[0], (double)b.parameters), frozen, zt_format_bytes(t[1], (double)b.gradients),
                     zt_format_bytes(t[2], (double)b.optimizer), zt_format_bytes(t[3], (double)b.activations),
                     zt_format_bytes(t[4], (double)b.workspace));
    if (b.host || b.nvme)
        n += snprintf(text + n, sizeof text - (size_t)n, "; offloaded: host memory %s, NVMe %s",
                      zt_format_bytes(t[5], (double)b.host), zt_format_bytes(t[6], (double)b.nvme));
    if (largest != plan->grid.data_rank)
        snprintf(text + n, sizeof text - (size_t)n, " (rank %d)", zt_grid_rank(&plan->grid, plan->grid.stage, largest));
    row(s, "bytes per rank", text);
}

static void report_changes(const struct zt_session *s) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_texts lines;
    zt_job_list_adapters(s->job, &lines, arena);
    list_texts(s, "lora", &lines);
    zt_job_list_pairs(s->job, &lines, arena);
    list_texts(s, "quantized", &lines);
    zt_arena_destroy(arena);
}

/* --verbose: lists the fusion patterns found in the first training program of this stage, with counts. */
static void list_fused(const struct zt_session *s, const struct zt_rank_plan *plan) {
    const int *counts = plan->programs.train.count ? plan->programs.train.at[0]->training_graph.fused : NULL;
    for (int p = 0, listed = 0; counts && zt_patterns[p]; p++)
        if (counts[p])
            zt_say(&s->options->log, ZT_LOG_DEBUG, "  %-15s %s %d", listed++ ? "" : "fused", zt_patterns[p]->name,
                   counts[p]);
}

/* --verbose: lists the libraries that run the nodes, and why others do not use one. */
static void list_paths(const struct zt_session *s, const struct zt_rank_plan *plan) {
    struct zt_text paths = { 0 };
    if (plan->programs.train.count)
        zt_paths_list(plan->programs.train.at[0], &paths);
    char *rest = NULL;
    const char *title = "kernels";
    for (char *line = paths.at ? strtok_r(paths.at, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        zt_say(&s->options->log, ZT_LOG_DEBUG, "  %-15s %s", title, line);
        title = "";
    }
    zt_text_finish(&paths);
}

/* Adds rows for values of "auto" that depend on the model or the data. */
static void list_known(const struct zt_session *s, const struct zt_rank_plan *plan) {
    const struct zt_config *c = s->config;
    const char *title = c->resolved_auto.count ? "" : "auto";
    char text[200];
    if (c->scheduler.counts_run) {
        snprintf(text, sizeof text, "the run has %lld optimizer steps", (long long)c->scheduler.total_num_steps);
        row(s, title, text);
        title = "";
    }
    if (c->zero.reduce_bucket_size < 0) {
        snprintf(text, sizeof text, "reduce_bucket_size is %lld: hidden size %lld, a block of %d for each rank",
                 (long long)plan->tensors.flat->bucket_elems, (long long)plan->traffic.hidden, (int)ZT_SLICE_BLOCK);
        row(s, title, text);
        title = "";
    }
    const bool gathers = zt_sharding_gathers_for_use(plan->sharding);
    if (gathers && c->zero.prefetch_bucket_size < 0) {
        snprintf(text, sizeof text, "stage3_prefetch_bucket_size is %lld: hidden size %lld, largest bucket %lld",
                 (long long)plan->traffic.limits.prefetch, (long long)plan->traffic.hidden,
                 (long long)plan->traffic.largest_bucket);
        row(s, title, text);
        title = "";
    }
    if (gathers && c->zero.param_persistence_threshold < 0) {
        snprintf(
            text, sizeof text,
            "stage3_param_persistence_threshold is %lld: hidden size %lld; %lld elements in all, which is 1 %% of a "
            "rank's",
            (long long)plan->traffic.persistent_each, (long long)plan->traffic.hidden,
            (long long)plan->traffic.persistent_together);
        row(s, title, text);
    }
}

void zt_report_start(const struct zt_session *s, const struct zt_rank_plan *plan, const struct zt_device *device,
                     int64_t steps) {
    struct zt_text slow = { 0 };
    char text[256];
    zt_say(&s->options->log, ZT_LOG_INFO, "ztrain %s", ZT_VERSION);
    row(s, "model", s->options->model);
    snprintf(text, sizeof text, "%lld in %d tensors%s%s", (long long)plan->tensors.flat->count,
             plan->tensors.flat->tensor_count,
             plan->memory.frozen_bytes + plan->memory.frozen_shard_bytes ? " train" : "",
             plan->grid.stages > 1 ? " on this stage" : "");
    row(s, "parameters", text);
    report_changes(s);
    snprintf(text, sizeof text, "%s, %lld sample%s%s", s->config->data.format, (long long)s->source->samples,
             zt_plural(s->source->samples), s->config->data.shuffle ? ", shuffled" : "");
    row(s, "data", text);
    report_device(s, device);
    report_loss(s);
    report_step(s, plan, steps);
    report_compression(s, plan, steps);
    zt_say_lines(&s->options->log, ZT_LOG_INFO, s->job->chosen ? s->job->chosen : "");
    report_bytes(s, plan);
    list_slow_nodes(plan, &slow);
    if (slow.at)
        row(s, "plain kernels", slow.at);
    zt_text_finish(&slow);
    list_fused(s, plan);
    list_paths(s, plan);
    zt_report_findings(s);
    list_texts(s, "no effect", &s->config->without_effect);
    list_texts(s, s->config->without_effect.count ? "" : "no effect", &plan->offload.without_effect);
    list_texts(s, "auto", &s->config->resolved_auto);
    list_known(s, plan);
    if (plan->offload.note)
        row(s, "offload", plan->offload.note);
    zt_report_notes(s, &plan->programs.train);
    snprintf(text, sizeof text, "%.0f ms", (zt_now() - s->opened) * 1e3);
    row(s, "start-up", text);
}

/* ---- the stages of a pipeline ---- */

/* Returns the trained elements of a stage; `own`: without copies of parameters of other stages. */
static int64_t count_params(const struct zt_flat *flat, bool own) {
    int64_t count = 0;
    for (int t = 0; t < (own ? flat->own_tensors : flat->tensor_count); t++)
        count += flat->tensors[t].count;
    return count;
}

/* Returns the first layer that starts in stage `stage`. */
static int first_layer(const struct zt_stage_bounds *bounds, int stage) {
    return bounds[stage].layer + (bounds[stage].nodes > 0);
}

static void list_layers(const struct zt_rank_plan *plan, int stage, const struct zt_log *log) {
    const int first = first_layer(plan->stage_bounds, stage), end = first_layer(plan->stage_bounds, stage + 1);
    zt_say(log, ZT_LOG_INFO, "stage=%d layers=%d", stage, end - first);
    for (int i = first; i < end; i++)
        zt_say(log, ZT_LOG_INFO, "    %2d: %s", i, plan->layers[i]);
}

void zt_report_stages(const struct zt_plan *plan, const struct zt_log *log) {
    const struct zt_grid *grid = &plan->grid;
    const struct zt_stage_bounds *bounds = plan->stage[0]->stage_bounds;
    const int lines = grid->world > ZT_STAGES_RANKS ? 1 : grid->data; /* of a stage */
    int64_t total = 0, unique = 0;
    for (int s = 0; s < grid->stages; s++) {
        total += count_params(plan->stage[s]->tensors.flat, false);
        unique += count_params(plan->stage[s]->tensors.flat, true);
        list_layers(plan->stage[0], s, log);
    }
    zt_say(log, ZT_LOG_INFO, "micro_batches=%d micro_batch_size=%lld", plan->stage[0]->steps.full.micro_batches,
           (long long)plan->stage[0]->steps.full.rows);
    for (int s = 0; s < grid->stages; s++) {
        const int64_t params = count_params(plan->stage[s]->tensors.flat, false);
        const int first = first_layer(bounds, s), end = first_layer(bounds, s + 1);
        for (int i = 0; i < lines; i++)
            zt_say(log, ZT_LOG_INFO,
                   "RANK=%d STAGE=%d LAYERS=%d [%d, %d) STAGE_PARAMS=%lld (%0.3fM) TOTAL_PARAMS=%lld (%0.3fM) "
                   "UNIQUE_PARAMS=%lld (%0.3fM)",
                   zt_grid_rank(grid, s, i), s, end - first, first, end, (long long)params, 1e-6 * (double)params,
                   (long long)total, 1e-6 * (double)total, (long long)unique, 1e-6 * (double)unique);
    }
}
