/* Resolution of sections whose keys depend on each other: offload, fp16, monitors, and keys that follow a plan chosen
 * later. */
#include "read.h"

#include "config/offload.h"

#define OFFLOADED                                                                                                      \
    "\"zero_optimization\": {\"stage\": 3, \"sub_group_size\": 5e6, \"offload_optimizer\": {\"device\": \"nvme\", "    \
    "\"nvme_path\": \"/n\", \"buffer_count\": 6, \"pipeline_read\": true, \"ratio\": 0.5, \"fast_init\": true}, "      \
    "\"offload_param\": {\"device\": \"cpu\", \"max_in_cpu\": 7}}, \"aio\": {\"block_size\": 4096, \"queue_depth\": "  \
    "32, \"thread_count\": 2, \"single_submit\": true, \"overlap_events\": false}"

START_TEST(offload_is_read) {
    struct zt_config *c = CONFIG(OFFLOADED);
    const struct zt_offload_config *o = &c->zero.offload_optimizer, *p = &c->zero.offload_param;
    ck_assert_str_eq(o->device, "nvme");
    ck_assert_str_eq(o->nvme_path, "/n");
    ck_assert(o->buffer_count == 6 && o->pipeline_read && !o->pipeline_write && o->ratio == 0.5);
    ck_assert(c->zero.sub_group_size == 5000000);
    ck_assert_str_eq(p->device, "cpu");
    ck_assert(p->max_in_cpu == 7 && p->buffer_count == 5 && p->buffer_size == 100000000);
    ck_assert(c->aio.block_size == 4096 && c->aio.queue_depth == 32 && c->aio.threads == 2 && c->aio.single_submit &&
              !c->aio.overlap_events);
    ck_assert(mentions(&c->without_effect, "offload_param.max_in_cpu = 7 (only device \"nvme\" reads it)"));
    ck_assert(mentions(&c->without_effect, "offload_optimizer.fast_init = true (states start in the files as zeros)"));
    ck_assert(!mentions(&c->without_effect, "aio."));
    zt_config_destroy(c);
    c = CONFIG(
        "\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true, \"sub_group_size\": 4}, \"aio\": "
        "{\"queue_depth\": 8}");
    ck_assert_str_eq(c->zero.offload_optimizer.device, "cpu");
    ck_assert(mentions(&c->without_effect, "aio.queue_depth = 8 (nothing is offloaded to NVMe)"));
    ck_assert(!mentions(&c->without_effect, "sub_group_size"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(the_loss_scale_of_fp16_is_read) {
    struct zt_config *c = CONFIG("\"fp16\": {\"enabled\": true}");
    ck_assert(c->fp16.enabled && !c->bf16 && c->fp16.loss_scale == 0 && c->fp16.initial_scale_power == 16);
    ck_assert(c->fp16.loss_scale_window == 1000 && c->fp16.hysteresis == 2 && c->fp16.min_loss_scale == 1 &&
              !c->fp16.consecutive_hysteresis);
    zt_config_destroy(c);
    c = CONFIG(
        "\"fp16\": {\"enabled\": \"true\", \"auto_cast\": true, \"loss_scale\": 128.5, \"initial_scale_power\": 12,"
        "\"loss_scale_window\": 5e2, \"hysteresis\": 3, \"consecutive_hysteresis\": true, \"min_loss_scale\": 4}");
    ck_assert(c->fp16.enabled && c->fp16.loss_scale == 128.5 && c->fp16.initial_scale_power == 12);
    ck_assert(c->fp16.loss_scale_window == 500 && c->fp16.hysteresis == 3 && c->fp16.min_loss_scale == 4 &&
              c->fp16.consecutive_hysteresis);
    ck_assert(mentions(&c->without_effect, "fp16.auto_cast = true (inputs always take the type"));
    ck_assert(!mentions(&c->without_effect, "fp16 is off"));
    zt_config_destroy(c);
    c = CONFIG("\"fp16\": {\"enabled\": true, \"hysteresis\": 0}");
    ck_assert(c->fp16.hysteresis == 0 && mentions(&c->notes, "fp16.hysteresis: 0 is read as 1"));
    zt_config_destroy(c);
    c = CONFIG("\"fp16\": {\"enabled\": true, \"loss_scale\": 512, \"loss_scale_window\": 0, \"min_loss_scale\": 0}");
    ck_assert(c->fp16.loss_scale == 512); /* which reads neither */
    zt_config_destroy(c);
    c = CONFIG("\"fp16\": {\"loss_scale_window\": 0, \"min_loss_scale\": -1}"); /* nor does a run without fp16 */
    zt_config_destroy(c);
    c = CONFIG("\"fp16\": {\"enabled\": true, \"min_loss_scale\": 0.25}");
    ck_assert(c->fp16.min_loss_scale == 0.25);
    zt_config_destroy(c);
}
END_TEST

/* DeepSpeed drops such keys in the sections that pydantic reads. */
START_TEST(auto_is_the_default_in_sections_of_deepspeed) {
    struct zt_config *c = CONFIG(
        "\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"auto\", \"nvme_path\": \"auto\"}, "
        "\"offload_optimizer\": \"auto\"}, \"csv_monitor\": {\"enabled\": true, \"job_name\": \"auto\"}");
    ck_assert_str_eq(c->zero.offload_param.device, "none");
    ck_assert_str_eq(c->zero.offload_optimizer.device, "none");
    ck_assert_str_eq(c->csv.job_name, "");
    ck_assert(!c->zero.offload_param.nvme_path);
    ck_assert(mentions(&c->resolved_auto, "zero_optimization.offload_param.device = \"none\" (auto: default)"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(an_unknown_kind_of_warm_up_is_deepspeeds) {
    struct zt_config *c = CONFIG("\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"cosine\"}}");
    ck_assert(mentions(&c->notes, "scheduler.params.warmup_type: \"cosine\" is unknown and read as \"log\""));
    ck_assert(param(c, "scheduler.params.warmup_type") == 1);
    zt_config_destroy(c);
}
END_TEST

START_TEST(a_removed_section_that_is_bare_is_off) {
    struct zt_config *c = CONFIG(
        "\"compression_training\": {\"weight_quantization\": {\"shared_parameters\": {}, \"different_groups\": {}}}");
    zt_config_destroy(c); /* test_refused.c: with a switch that is on */
}
END_TEST

/* As DeepSpeed's engine does: wall_clock_breakdown |= flops_profiler.enabled. */
START_TEST(the_flops_profiler_turns_the_timers_on) {
    static const struct {
        const char *text;
        bool on, noted;
    } rows[] = { { "\"flops_profiler\": {\"enabled\": true}", true, false },
                 { "\"flops_profiler\": {\"enabled\": true}, \"wall_clock_breakdown\": \"auto\"", true, false },
                 { "\"flops_profiler\": {\"enabled\": true}, \"wall_clock_breakdown\": true", true, false },
                 { "\"flops_profiler\": {\"enabled\": true}, \"wall_clock_breakdown\": false", true, true },
                 { "\"flops_profiler\": {\"enabled\": true}, \"wall_clock_breakdown\": null", true, false },
                 { "\"flops_profiler\": {\"enabled\": false}, \"wall_clock_breakdown\": false", false, false },
                 { "\"flops_profiler\": {\"profile_step\": 3}", false, false } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        snprintf(text, sizeof text, "{" BATCH ", " ADAM ", %s}", rows[i].text);
        struct zt_config *c = accept(text);
        ck_assert(c->wall_clock_breakdown == rows[i].on);
        ck_assert(mentions(&c->notes, "wall_clock_breakdown false has no effect") == rows[i].noted);
        zt_config_destroy(c);
    }
}
END_TEST

START_TEST(monitors_are_read) {
    struct zt_config *c = CONFIG(
        "\"steps_per_print\": null, \"wandb\": {\"enabled\": true, \"project\": \"p\"}, \"wall_clock_breakdown\": true,"
        "\"tensorboard\": {\"enabled\": true, \"output_path\": \"/logs\", \"job_name\": \"a/b.c\"},"
        "\"csv_monitor\": {\"enabled\": false, \"job_name\": \"d\"}, \"activation_checkpointing\": {\"profile\": true},"
        "\"flops_profiler\": {\"enabled\": true, \"profile_step\": 5, \"module_depth\": 2, \"top_modules\": 3, "
        "\"detailed\": false, \"output_file\": \"f\", \"recompute_fwd_factor\": 1.5},"
        "\"ztrain\": {\"monitor\": {\"histogram_steps\": 7, \"trace_steps\": 4}}");
    ck_assert(c->steps_per_print == 0 && c->wandb && !c->comet && c->wall_clock_breakdown && !c->dump_state);
    ck_assert(c->tensorboard.enabled && !c->csv.enabled && c->recompute.enabled && c->recompute.profile);
    ck_assert_str_eq(c->tensorboard.output_path, "/logs");
    ck_assert_str_eq(c->tensorboard.job_name, "a/b.c");
    ck_assert(c->flops.enabled && c->flops.step == 5 && c->flops.module_depth == 2 && c->flops.top_modules == 3 &&
              !c->flops.detailed && c->flops.recompute_fwd_factor == 1.5);
    ck_assert_str_eq(c->flops.output_file, "f");
    ck_assert(c->histogram_steps == 7 && c->trace.first == 3 && c->trace.steps == 4);
    ck_assert(mentions(&c->without_effect, "csv_monitor.job_name = \"d\" (csv_monitor is off)"));
    ck_assert(mentions(&c->without_effect, "wandb.project = \"p\" (the values are in CSV files"));
    ck_assert(!mentions(&c->without_effect, "tensorboard"));
    zt_config_destroy(c);
}
END_TEST

/* Files and a part of the states need ZeRO stage 3, which a plan that is chosen later may have. */
START_TEST(offload_does_not_bind_a_plan_that_is_chosen_later) {
    static const char *const texts[] = {
        "\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/n\"}}",
        "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}}",
        "\"zero_optimization\": {\"offload_param\": {\"device\": \"cpu\"}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[300];
        snprintf(text, sizeof text, "{" BATCH ", %s, \"ztrain\": {\"plan\": \"auto\"}}", texts[i]);
        struct zt_config *c = accept(text);
        const struct zt_offload_config *o = i < 2 ? &c->zero.offload_optimizer : &c->zero.offload_param;
        ck_assert(zt_offload_on(c, o) && zt_offload_least_stage(c, o) == 3 && c->without_effect.count == 0);
        c->plan_auto = false;
        c->zero.stage = 0;
        zt_offload_note_chosen(c);
        ck_assert(!zt_offload_on(c, o) && c->without_effect.count == 1 &&
                  mentions(&c->without_effect, "(plan auto chose zero_optimization.stage 0)"));
        zt_config_destroy(c);
    }
}
END_TEST

/* As "plan": "auto" does: other stages, other ZeRO stages. */
START_TEST(overlap_follows_the_stages_that_are_chosen_later) {
    static const struct {
        const char *asked;
        bool at_zero[2]; /* 1 and 3, without pipeline */
    } rows[] = { { "\"auto\"", { false, true } }, { "true", { true, true } }, { "false", { false, false } } };
    struct zt_config_overrides over = no_overrides();
    over.ranks = 2;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int stages = 1; stages <= 2; stages++) {
            char text[200];
            snprintf(text, sizeof text,
                     "{" BATCH ", " ADAM
                     ", \"pipeline\": {\"stages\": %d}, \"zero_optimization\": {\"stage\": 1, "
                     "\"overlap_comm\": %s}}",
                     stages, rows[i].asked);
            struct zt_config *c = with(text, &over);
            ck_assert(c->zero.overlap_comm == (stages == 1 && rows[i].at_zero[0]));
            for (int k = 0; k < 4; k++) {
                c->parallel.stages = 1 + k % 2;
                c->zero.stage = 1 + k / 2 * 2;
                zt_config_derive_overlap(c);
                ck_assert(c->zero.overlap_comm == (k % 2 == 0 && rows[i].at_zero[k / 2]));
            }
            zt_config_destroy(c);
        }
    }
}
END_TEST

int main(void) {
    const TTest *const cases[] = { offload_is_read,
                                   the_loss_scale_of_fp16_is_read,
                                   auto_is_the_default_in_sections_of_deepspeed,
                                   an_unknown_kind_of_warm_up_is_deepspeeds,
                                   a_removed_section_that_is_bare_is_off,
                                   the_flops_profiler_turns_the_timers_on,
                                   monitors_are_read,
                                   offload_does_not_bind_a_plan_that_is_chosen_later,
                                   overlap_follows_the_stages_that_are_chosen_later };
    return run_cases("config sections", cases, sizeof cases / sizeof cases[0]);
}
