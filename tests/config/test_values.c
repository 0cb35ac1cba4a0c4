/* Resolution of a config's values: defaults, "auto", spellings, the command line, the batch arithmetic, writing. */
#include "read.h"

#include <math.h>

START_TEST(an_almost_empty_config_has_every_default) {
    struct zt_config *c = accept("{" BATCH "}");
    ck_assert_str_eq(c->optimizer.type, "AdamW");
    ck_assert(c->optimizer.lr == 5e-5 && c->optimizer.weight_decay == 0);
    ck_assert_ptr_null(c->scheduler.type);
    ck_assert(c->gradient_clipping == 0 && c->gradient_predivide_factor == 1 && !c->bf16 && c->zero.stage == 0);
    ck_assert(c->parallel.stages == 1 && c->parallel.chunks == 1 && c->parallel.tensor == 1);
    ck_assert_str_eq(c->parallel.mode, "ddp");
    ck_assert_str_eq(c->parallel.schedule, "1f1b");
    ck_assert_str_eq(c->parallel.communicator, "auto");
    ck_assert(c->data.shuffle && !c->data.drop_last && c->data.samples == 1024 && !c->data.format);
    ck_assert_str_eq(c->loss.target, "target");
    ck_assert_int_eq(c->loss.ignore_index, -100);
    ck_assert(c->epochs == 10 && c->steps == 0 && c->seed == 0 && c->steps_per_print == 10 && c->log_level == 1);
    ck_assert_int_eq(c->trainable.count, 1);
    ck_assert_str_eq(c->trainable.at[0], "*");
    ck_assert_int_eq(c->fuse.count, 1);
    ck_assert_str_eq(c->fuse.at[0], "*");
    ck_assert_str_eq(c->device, "auto");
    ck_assert(c->zero.prefetch_bucket_size == -1 && c->zero.param_persistence_threshold == -1);
    ck_assert_int_eq(c->without_effect.count + c->resolved_auto.count, 0);
    ck_assert(c->notes.count == 2 && mentions(&c->notes, "optimizer is not given: AdamW at lr 5e-5") &&
              mentions(&c->notes, "gradient_clipping is not given: 0"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(each_optimizer_has_its_own_defaults) {
    struct zt_config *c = CONFIG("\"optimizer\": {\"type\": \"adam\"}");
    ck_assert_str_eq(c->optimizer.type, "Adam");
    ck_assert(c->optimizer.lr == 1e-3 && c->optimizer.beta1 == 0.9 && c->optimizer.beta2 == 0.999);
    ck_assert(param(c, "optimizer.params.eps") == 1e-8 && c->optimizer.weight_decay == 0);
    ck_assert(param(c, "optimizer.params.adam_w_mode") && param(c, "optimizer.params.bias_correction"));
    zt_config_destroy(c);
    c = CONFIG("\"optimizer\": {\"type\": \"ADAGRAD\"}");
    ck_assert_str_eq(c->optimizer.type, "Adagrad");
    ck_assert(c->optimizer.lr == 1e-2 && param(c, "optimizer.params.eps") == 1e-10 &&
              param(c, "optimizer.params.initial_accumulator_value") == 0);
    zt_config_destroy(c);
    c = CONFIG("\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"eps_inside_sqrt\": \"yes\"}}");
    ck_assert(param(c, "optimizer.params.max_coeff") == 10 && param(c, "optimizer.params.min_coeff") == 0.01 &&
              param(c, "optimizer.params.eps_inside_sqrt"));
    zt_config_destroy(c);
    c = CONFIG("\"optimizer\": {\"type\": \"sgd\", \"params\": {\"lr\": 2e-1, \"momentum\": 0.9, \"nesterov\": true}}");
    ck_assert_str_eq(c->optimizer.type, "SGD");
    ck_assert(param(c, "optimizer.params.momentum") == 0.9 && param(c, "optimizer.params.nesterov") &&
              c->optimizer.lr == 0.2 && param(c, "optimizer.params.dampening") == 0);
    zt_config_destroy(c);
    c = CONFIG("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"adam_w_mode\": false}}");
    ck_assert(param(c, "optimizer.params.adam_w_mode"));
    ck_assert(mentions(&c->notes, "adam_w_mode"));
    zt_config_destroy(c);
    c = CONFIG("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": \"off\"}}");
    ck_assert(!param(c, "optimizer.params.adam_w_mode"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(schedulers_read_their_own_parameters) {
    struct zt_config *c =
        CONFIG(ADAM
               ", \"scheduler\": {\"type\": \"warmuplr\", \"params\": {\"warmup_min_lr\": [0.1, 0.1], "
               "\"warmup_type\": \"linear\", \"warmup_max_lr\": [0.5]}}, \"ztrain\": {\"param_groups\": [{\"match\": "
               "\"*\"}]}");
    ck_assert_str_eq(c->scheduler.type, "WarmupLR");
    ck_assert(param(c, "scheduler.params.warmup_min_lr") == 0.1 && param(c, "scheduler.params.warmup_max_lr") == 0.5 &&
              !param(c, "scheduler.params.warmup_type"));
    ck_assert(param(c, "scheduler.params.warmup_num_steps") == 1000);
    zt_config_destroy(c);
    c = CONFIG(ADAM
               ", \"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0, \"cycle_max_lr\": 1}}");
    ck_assert(param(c, "scheduler.params.cycle_first_step_size") == 2000 &&
              param(c, "scheduler.params.cycle_second_step_size") == 0);
    ck_assert(param(c, "scheduler.params.cycle_momentum") && param(c, "scheduler.params.cycle_min_mom") == 0.8 &&
              param(c, "scheduler.params.cycle_max_mom") == 0.9);
    zt_config_destroy(c);
    c = CONFIG("\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": 1e2}}");
    ck_assert(c->scheduler.total_num_steps == 100 && param(c, "scheduler.params.cos_min_ratio") == 1e-4 &&
              param(c, "scheduler.params.warmup_type"));
    zt_config_destroy(c);
    c = CONFIG("\"scheduler\": {\"type\": \"LRRangeTest\"}");
    ck_assert(param(c, "scheduler.params.lr_range_test_min_lr") == 1e-3 &&
              param(c, "scheduler.params.lr_range_test_step_size") == 2000);
    zt_config_destroy(c);
    c = CONFIG(ADAM ", \"scheduler\": {\"type\": \"WarmupLR\"}");
    ck_assert(param(c, "scheduler.params.warmup_max_lr") == 0.001 && !mentions(&c->notes, "warmup_max_lr"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(auto_is_resolved_and_listed) {
    struct zt_config *c = accept(
        "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", "
        "\"gradient_accumulation_steps\": \"auto\","
        "\"gradient_clipping\": \"auto\", \"steps_per_print\": \"auto\", \"bf16\": {\"enabled\": \"auto\"}, \"fp16\": "
        "{\"enabled\": \"auto\"},"
        "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\", \"eps\": \"auto\", "
        "\"weight_decay\": \"auto\"}},"
        "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": \"auto\", \"warmup_max_lr\": "
        "\"auto\","
        "\"warmup_min_lr\": \"auto\", \"warmup_num_steps\": \"auto\"}}, \"pipeline\": {\"stages\": \"auto\"},"
        "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": \"auto\", \"stage3_prefetch_bucket_size\": "
        "\"auto\","
        "\"stage3_param_persistence_threshold\": \"auto\", \"overlap_comm\": \"auto\"}}");
    ck_assert(c->train_batch == 8 && c->micro_batch == 8 && c->accumulation == 1);
    ck_assert(c->gradient_clipping == 1 && c->steps_per_print == 10 && !c->bf16);
    ck_assert(c->optimizer.lr == 5e-5 && c->optimizer.beta1 == 0.9 && c->optimizer.beta2 == 0.999 &&
              param(c, "optimizer.params.eps") == 1e-8);
    ck_assert(param(c, "scheduler.params.warmup_max_lr") == 5e-5 && param(c, "scheduler.params.warmup_min_lr") == 0 &&
              c->scheduler.total_num_steps == 0);
    ck_assert(c->parallel.stages == 1 && c->zero.reduce_bucket_size == -1 && c->zero.prefetch_bucket_size == -1);
    ck_assert(mentions(&c->resolved_auto, "optimizer.params.lr = 5e-05 (auto: "));
    ck_assert(mentions(&c->resolved_auto, "optimizer.params.betas = [0.9, 0.999] (auto: "));
    ck_assert(mentions(&c->resolved_auto, "scheduler.params.warmup_max_lr = 5e-05 (auto: optimizer.params.lr)"));
    ck_assert(mentions(&c->resolved_auto, "train_batch_size = 8 (auto"));
    ck_assert(mentions(&c->resolved_auto, "gradient_clipping = 1 (auto"));
    ck_assert_int_eq(c->resolved_auto.count, 20);
    zt_config_destroy(c);
}
END_TEST

START_TEST(lists_are_axes_of_autotuning) {
    struct zt_config *c = CONFIG(
        "\"gradient_clipping\": [0.5, 1], \"zero_optimization\": {\"stage\": 1, \"overlap_comm\": [\"no\", true]}, "
        "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.5, 0.75]}}, \"autotuning\": {\"enabled\": "
        "\"true\"}");
    const struct zt_tuning_config *t = &c->tuning;
    ck_assert(c->gradient_clipping == 0.5 && !c->zero.overlap_comm && c->optimizer.beta2 == 0.75 && t->axis_count == 2);
    ck_assert_str_eq(t->axes[0].key, "gradient_clipping");
    ck_assert_str_eq(t->axes[0].values.at[1], "1");
    ck_assert_str_eq(t->axes[1].values.at[0], "false");
    ck_assert_str_eq(t->axes[1].values.at[1], "true");
    ck_assert(
        mentions(&c->notes, "gradient_clipping: autotuning tries 2 values; the config as it is has the first, 0.5"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(types_of_gradients_are_stored_and_their_division_works_in_16_bits) {
    struct zt_config *c = CONFIG(
        "\"communication_data_type\": \"FP16\", \"gradient_allreduce_op\": \"mean\", "
        "\"data_types\": {\"grad_accum_dtype\": \"bf16\"}, \"gradient_predivide_factor\": 4");
    ck_assert(c->communication_type == ZT_GRADIENTS_FP16 && c->accumulation_type == ZT_GRADIENTS_BF16);
    ck_assert(!c->sum_gradients && c->without_effect.count == 0 && c->zero.ignore_unused && !c->zero.half_export);
    zt_config_destroy(c);
    c = CONFIG(
        "\"gradient_allreduce_op\": \"sum\", \"prescale_gradients\": true, \"zero_optimization\": "
        "{\"stage3_gather_16bit_weights_on_model_save\": true, \"ignore_unused_parameters\": false}");
    ck_assert(c->sum_gradients && c->communication_type == ZT_GRADIENTS_FP32 && !c->zero.ignore_unused);
    ck_assert(mentions(&c->without_effect, "prescale_gradients = true (gradient_allreduce_op is \"sum\")"));
    ck_assert(mentions(&c->without_effect, "on_model_save = true (the run is neither fp16 nor bf16)"));
    zt_config_destroy(c);
    c = CONFIG("\"gradient_predivide_factor\": 4");
    ck_assert(mentions(&c->without_effect, "fp32 gradients are divided where the loss is"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(deprecated_names_are_converted_with_a_note) {
    struct zt_config *c = accept(
        "{\"micro_batch_per_gpu\": 4, \"bfloat16\": {\"enabled\": true}, \"zero_optimization\": "
        "{\"stage\": 3, \"prefetch_bucket_size\": 7, \"param_persistence_threshold\": 9, \"cpu_offload\": false}}");
    ck_assert(c->micro_batch == 4 && c->bf16 && c->zero.prefetch_bucket_size == 7 &&
              c->zero.param_persistence_threshold == 9);
    ck_assert(mentions(&c->notes, "bfloat16 is an old name of bf16"));
    zt_config_destroy(c);
    c = accept("{" BATCH ", \"fp16\": {\"enabled\": true}, \"fp32_allreduce\": true}");
    ck_assert_int_eq(c->communication_type, ZT_GRADIENTS_FP32);
    ck_assert(mentions(&c->notes, "fp32_allreduce is an old name of communication_data_type"));
    zt_config_destroy(c);
    c = CONFIG("\"zero_optimization\": true, \"allgather_size\": 64");
    ck_assert(c->zero.stage == 1 && c->zero.allgather_bucket_size == 64 && c->notes.count == 3);
    ck_assert(mentions(&c->notes, "zero_optimization: true is an old form of {\"stage\": 1}"));
    zt_config_destroy(c);
    c = CONFIG("\"zero_optimization\": false");
    ck_assert_int_eq(c->zero.stage, 0);
    zt_config_destroy(c);
}
END_TEST

/* As DeepSpeed reads it. */
START_TEST(an_old_name_of_bf16_beside_it_is_not_read) {
    struct zt_config *c = CONFIG("\"bfloat16\": {\"enabled\": true}, \"bf16\": {\"enabled\": false}");
    ck_assert(!c->bf16);
    ck_assert(mentions(&c->notes, "bfloat16 is not read, because bf16 is given"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(keys_without_effect_are_listed_with_the_reason) {
    struct zt_config *c = CONFIG(
        "\"sparse_attention\": false, \"pipeline\": {\"micro_batch_size\": 0},"
        "\"zero_optimization\": {\"stage\": 2, \"stage3_max_act_size\": 1e9, \"overlap_comm\": true,"
        "\"offload_param\": {\"device\": \"cpu\"}}, \"aio\": {\"single_submit\": \"false\", \"thread_count\": 4},"
        "\"amp\": {\"enabled\": false, \"loss_scale\": [1]}, \"fp16\": {\"enabled\": false, \"loss_scale\": 128, "
        "\"hysteresis\": 2}");
    ck_assert(mentions(&c->without_effect, "zero_optimization.stage3_max_act_size = 1000000000 (never was"));
    ck_assert(c->zero.overlap_comm);
    ck_assert(mentions(&c->without_effect, "offload_param.device = \"cpu\" (needs zero_optimization.stage 3)"));
    ck_assert(mentions(&c->notes, "zero_optimization.offload_param.device has no effect"));
    ck_assert(mentions(&c->without_effect, "fp16.loss_scale = 128 (fp16 is off)"));
    ck_assert(!mentions(&c->without_effect, "fp16.hysteresis"));
    ck_assert(mentions(&c->without_effect, "aio.single_submit = false ("));
    ck_assert(mentions(&c->without_effect, "aio.thread_count = 4 ("));
    zt_config_destroy(c);
}
END_TEST

START_TEST(data_types_have_torchs_names_too) {
    struct zt_config *c = CONFIG("\"data_types\": {\"grad_accum_dtype\": \"bfloat16\", \"param_dtype\": \"half\"}");
    ck_assert_int_eq(c->accumulation_type, ZT_GRADIENTS_BF16);
    zt_config_destroy(c);
    c = CONFIG("\"data_types\": {\"grad_accum_dtype\": \"torch.float16\"}");
    ck_assert_int_eq(c->accumulation_type, ZT_GRADIENTS_FP16);
    zt_config_destroy(c);
}
END_TEST

START_TEST(unused_parameters_have_an_old_name) {
    struct zt_config *c = CONFIG("\"zero_optimization\": {\"stage\": 2, \"find_unused_parameters\": false}");
    ck_assert(!c->zero.ignore_unused);
    ck_assert(
        mentions(&c->notes, "zero_optimization.find_unused_parameters is an old name of ignore_unused_parameters"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(two_keys_of_one_meaning_may_agree) {
    struct zt_config *c = CONFIG("\"seed\": 5, \"dataloader_drop_last\": true, \"ztrain\": {\"seed\": 5}");
    ck_assert(c->seed == 5 && c->data.drop_last);
    zt_config_destroy(c);
}
END_TEST

START_TEST(a_change_of_pictures_is_on_where_its_object_is_given) {
    struct zt_config *c = CONFIG(
        "\"ztrain\": {\"data\": {\"format\": \"mnist\", \"path\": \"m\", \"augment\": "
        "{\"random_crop\": {\"padding\": 4}, \"random_erasing\": {}, \"horizontal_flip\": 0.5}}}");
    const struct zt_augment_config *a = &c->data.augment;
    ck_assert(a->random_crop && a->padding == 4 && !a->resized_crop && a->erase && a->erase_probability == 0.5);
    ck_assert(a->erase_scale[0] == 0.02 && a->erase_scale[1] == 0.33 && a->horizontal_flip == 0.5 && a->hue == 0);
    zt_config_destroy(c);
    c = CONFIG(
        "\"ztrain\": {\"data\": {\"augment\": {\"random_erasing\": {\"enabled\": false, \"probability\": 1}, "
        "\"random_resized_crop\": {\"scale\": [0.5, 1]}}}}");
    ck_assert(c->data.augment.resized_crop && c->data.augment.crop_scale[0] == 0.5 && !c->data.augment.erase);
    ck_assert(c->data.augment.crop_ratio[0] == 0.75 && c->data.augment.crop_ratio[1] == 4.0 / 3);
    zt_config_destroy(c);
}
END_TEST

START_TEST(the_command_line_wins) {
    static const char *const set[] = { "optimizer.params.lr=0.25",  "ztrain.loss.type=mse",
                                       "zero_optimization.stage=2", "ztrain.data.eval_path=e.npz",
                                       "ztrain.freeze=[\"a\"]",     "gradient_clipping=null",
                                       "ztrain.loss.logits=4 cats", "ztrain.fuse=[]" };
    struct zt_config_overrides over = { .set = set,
                                        .set_count = 8,
                                        .data = "npz:d/x.npz",
                                        .device = "cpu",
                                        .ranks = 2,
                                        .epochs = 3,
                                        .steps = 0,
                                        .seed = 11,
                                        .threads = 5 };
    struct zt_config *c =
        with("{" BATCH
             ", \"gradient_clipping\": 2, \"seed\": 1, \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 1}},"
             "\"zero_optimization\": true, \"ztrain\": {\"epochs\": 9, \"data\": {\"format\": \"cifar10\", \"path\": "
             "\"c\"}}}",
             &over);
    ck_assert(c->optimizer.lr == 0.25 && c->zero.stage == 2 && c->gradient_clipping == 0 && c->freeze.count == 1);
    ck_assert_int_eq(c->fuse.count, 0);
    ck_assert(c->epochs == 3 && c->steps == 0 && c->seed == 11 && c->threads == 5 && c->ranks == 2 &&
              c->micro_batch == 4);
    ck_assert_str_eq(c->loss.type, "mse");
    ck_assert_str_eq(c->loss.logits, "4 cats");
    ck_assert_str_eq(c->data.format, "npz");
    ck_assert_str_eq(c->data.path, "d/x.npz");
    ck_assert_str_eq(c->data.eval_path, "e.npz");
    ck_assert_str_eq(c->device, "cpu");
    zt_config_destroy(c);
    struct zt_config_overrides epochs = no_overrides();
    epochs.epochs = 2;
    c = with("{" BATCH ", " ADAM ", \"ztrain\": {\"steps\": 5}}", &epochs);
    ck_assert(c->epochs == 2 && c->steps == 0); /* the steps of a file win over its epochs alone */
    zt_config_destroy(c);
}
END_TEST

START_TEST(paths_in_the_file_are_relative_to_its_folder) {
    static const char text[] =
        "{" BATCH
        ", \"ztrain\": {\"data\": {\"format\": \"npz\", \"path\": \"d.npz\", \"eval_path\": \"/abs/e.npz\"}}}";
    struct zt_config_overrides over = no_overrides();
    struct result got;
    char folder[] = "zt-folder-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.json", folder);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    read_path(&got, path, &over);
    unlink(path);
    rmdir(folder);
    ck_assert_ptr_nonnull(got.config);
    snprintf(path, sizeof path, "%s/d.npz", folder);
    ck_assert_str_eq(got.config->data.path, path);
    ck_assert_str_eq(got.config->data.eval_path, "/abs/e.npz");
    zt_config_destroy(got.config);
}
END_TEST

START_TEST(parameter_groups_keep_what_they_do_not_set) {
    struct zt_config *c = CONFIG(
        "\"ztrain\": {\"param_groups\": [{\"match\": \"*.bias\", \"weight_decay\": 0},"
        "{\"match\": \"w\", \"lr\": 0.5, \"weight_decay\": null}], \"metrics\": [\"accuracy\"]}");
    ck_assert_int_eq(c->group_count, 2);
    ck_assert_str_eq(c->groups[0].match, "*.bias");
    ck_assert(c->groups[0].weight_decay == 0 && isnan(c->groups[0].lr));
    ck_assert(isnan(c->groups[1].weight_decay) && c->groups[1].lr == 0.5 && c->accuracy);
    zt_config_destroy(c);
}
END_TEST

START_TEST(the_batch_follows_the_table) {
    static const struct {
        const char *keys;
        int ranks, train, micro, accumulation; /* train 0: refused */
    } cases[] = {
        { "\"train_batch_size\": 32, \"gradient_accumulation_steps\": 1", 1, 32, 32, 1 },
        { "\"train_batch_size\": 32, \"gradient_accumulation_steps\": 1", 4, 32, 8, 1 },
        { "\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 8", 1, 16,
          2, 8 },
        { "\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 8", 4, 0,
          0, 0 },
        { "\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 1", 4, 4, 1, 1 },
        { "\"train_batch_size\": 30, \"train_micro_batch_size_per_gpu\": 4", 2, 0, 0, 0 },
        { "\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 4", 2, 32, 4, 4 },
        { "\"train_batch_size\": 2", 4, 0, 0, 0 },
        { "\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 4", 4, 0, 0, 0 },
        { "\"train_batch_size\": 8", 2, 8, 4, 1 },
        { "\"train_micro_batch_size_per_gpu\": 3", 2, 6, 3, 1 },
        { "\"gradient_accumulation_steps\": 2", 1, 16, 8, 2 },
        { "\"gradient_accumulation_steps\": 2", 2, 32, 8, 2 },
        { "\"seed\": 1", 1, 8, 8, 1 },
        { "\"gradient_accumulation_steps\": 2, \"train_micro_batch_size_per_gpu\": \"auto\"", 1, 16, 8, 2 },
        { "\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": \"auto\"", 2, 32, 16, 1 },
        { "\"train_batch_size\": 1000000000, \"train_micro_batch_size_per_gpu\": 1000000000, "
          "\"gradient_accumulation_steps\": 1000000000",
          1000000, 0, 0, 0 },
        { "\"train_micro_batch_size_per_gpu\": 1000000000, \"gradient_accumulation_steps\": 1000000000", 1000000, 0, 0,
          0 },
        { "\"train_batch_size\": 8, \"pipeline\": {\"stages\": 2}", 4, 8, 4, 1 },
        { "\"train_batch_size\": 8, \"pipeline\": {\"stages\": 2}", 3, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zt_config_overrides over = no_overrides();
        struct result got;
        char text[256];
        over.ranks = cases[i].ranks;
        snprintf(text, sizeof text, "{%s}", cases[i].keys);
        read_bytes(&got, text, strlen(text), &over);
        ck_assert_msg((got.config != NULL) == (cases[i].train > 0), "case %zu: %s%s", i, text, got.text);
        if (!got.config)
            continue;
        ck_assert_int_eq(got.config->train_batch, cases[i].train);
        ck_assert_int_eq(got.config->micro_batch, cases[i].micro);
        ck_assert_int_eq(got.config->accumulation, cases[i].accumulation);
        ck_assert_int_eq(got.config->train_batch,
                         got.config->micro_batch * got.config->accumulation * got.config->data_parallel);
        zt_config_destroy(got.config);
    }
}
END_TEST

static char *written(const struct zt_config *config) {
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    zt_config_write(config, to);
    fclose(to);
    return text;
}

START_TEST(a_written_config_reads_back_to_the_same) {
    static const char *const texts[] = {
        "{" BATCH "}",
        "{\"train_batch_size\": 6, \"gradient_accumulation_steps\": 3, \"gradient_clipping\": 0.1, \"log_level\": "
        "\"ERROR\","
        "\"optimizer\": {\"type\": \"lamb\", \"params\": {\"lr\": 0.1234567890123456789, \"betas\": [0.1, 0.7]}},"
        "\"scheduler\": {\"type\": \"onecycle\", \"params\": {\"cycle_min_lr\": 0.1, \"cycle_max_lr\": [0.3]}}}",
        "{" BATCH ", \"bf16\": {\"enabled\": true, \"check_grad_overflow\": true}}",
        "{" BATCH
        ", \"bf16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"Adagrad\"}, \"seed\": 3, \"zero_optimization\": "
        "{\"stage\": 3,"
        "\"stage3_prefetch_bucket_size\": \"auto\"}, \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": "
        "{\"total_num_steps\": \"auto\"}},"
        "\"ztrain\": {\"data\": {\"format\": \"cifar10\", \"path\": \"a\\\"\\u0001\\u00e4\", \"normalize\": {\"mean\": "
        "[0.1], \"std\": [0.3]}},"
        "\"loss\": {\"type\": \"cross_entropy\", \"label_smoothing\": 0.1, \"weight\": \"w\", \"class_weights\": "
        "[0.5, 2]}, \"metrics\": [\"accuracy\"], "
        "\"trainable\": [\"a*\", \"b\"], \"tie\": [[\"a\", \"b\"], [\"c\", \"d\", \"e\"]],"
        "\"param_groups\": [{\"match\": \"x\", \"lr\": 1e-7}], \"batch_norm\": \"frozen\", \"on_non_finite\": "
        "\"skip\"}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct zt_config *first = accept(texts[i]);
        char *one = written(first);
        struct zt_config *second = accept(one);
        char *two = written(second);
        ck_assert_str_eq(one, two);
        ck_assert_int_eq(second->without_effect.count, 0);
        ck_assert(second->optimizer.lr == first->optimizer.lr &&
                  second->zero.prefetch_bucket_size == first->zero.prefetch_bucket_size);
        ck_assert(second->group_count == first->group_count && second->skip_non_finite == first->skip_non_finite);
        ck_assert(second->tie.count == first->tie.count &&
                  second->loss.class_weights.count == first->loss.class_weights.count);
        ck_assert(second->seed == first->seed && second->scheduler.total_num_steps == first->scheduler.total_num_steps);
        zt_config_destroy(first);
        zt_config_destroy(second);
        free(one);
        free(two);
    }
}
END_TEST

/* A path may have bytes that are not UTF-8. The file is JSON, and read back it has the path. */
START_TEST(a_written_config_keeps_the_bytes_of_a_path) {
    static const char name[] = "bytes-of-a-path.json";
    struct zt_config *c = CONFIG("\"ztrain\": {\"data\": {\"format\": \"npz\", \"path\": \"/a\\udcff\\u00e4/b.npz\"}}");
    struct zt_config_overrides over = no_overrides();
    struct zt_err err = { 0 };
    struct result again;
    ck_assert_str_eq(c->data.path, "/a\xff\xc3\xa4/b.npz");
    ck_assert(zt_config_write_in(c, ".", name, &err));
    read_path(&again, name, &over);
    unlink(name);
    ck_assert_msg(again.config != NULL, "%s", again.text);
    ck_assert_str_eq(again.config->data.path, c->data.path);
    zt_config_destroy(again.config);
    zt_config_destroy(c);
}
END_TEST

START_TEST(bf16_skips_steps_that_overflow_where_the_key_says_so) {
    static const struct {
        const char *rest;
        bool skips;
    } cases[] = {
        { ", \"bf16\": {\"enabled\": true}", false },
        { ", \"bf16\": {\"enabled\": true, \"check_grad_overflow\": false}", false },
        { ", \"bf16\": {\"enabled\": true, \"check_grad_overflow\": true}", true },
        { ", \"bf16\": {\"enabled\": false, \"check_grad_overflow\": true}", false },
        { ", \"bf16\": {\"enabled\": true, \"check_grad_overflow\": true}, \"ztrain\": {\"on_non_finite\": \"abort\"}",
          false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"train_batch_size\": 8%s}", cases[i].rest);
        struct zt_config *c = accept(text);
        ck_assert_msg(c->skip_non_finite == cases[i].skips, "%s", text);
        zt_config_destroy(c);
    }
}
END_TEST

START_TEST(milestones_are_integers) {
    static const char text[] =
        "{" BATCH ", " ADAM ", \"scheduler\": {\"type\": \"MultiStepLR\", \"params\": {\"milestones\": %s}}}";
    char config[512];
    snprintf(config, sizeof config, text, "[2, 1.5]");
    refuse(config, "scheduler.params.milestones[1]: wants an integer, found 1.5", 1);
    snprintf(config, sizeof config, text, "3");
    refuse(config, "wants a list of integers", 1);
    snprintf(config, sizeof config, text, "[2, 2e3]");
    zt_config_destroy(accept(config));
}
END_TEST

START_TEST(a_schedule_may_give_each_parameter_group_its_rate) {
    struct zt_config *c = CONFIG(
        "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": [1, 0.5]}}, \"ztrain\": "
        "{\"param_groups\": [{\"match\": \"*.bias\", \"lr\": 0.1}]}");
    char *text = written(c);
    ck_assert_ptr_nonnull(strstr(text, "\"warmup_max_lr\": [1, 0.5]"));
    ck_assert_ptr_nonnull(strstr(text, "\"warmup_min_lr\": 0,"));
    ck_assert(
        mentions(&c->notes, "ztrain.param_groups[0].lr has no effect: scheduler.params.warmup_max_lr gives each"));
    free(text);
    zt_config_destroy(c);
}
END_TEST

int main(void) {
    const TTest *const cases[] = { an_almost_empty_config_has_every_default,
                                   each_optimizer_has_its_own_defaults,
                                   schedulers_read_their_own_parameters,
                                   auto_is_resolved_and_listed,
                                   lists_are_axes_of_autotuning,
                                   types_of_gradients_are_stored_and_their_division_works_in_16_bits,
                                   deprecated_names_are_converted_with_a_note,
                                   an_old_name_of_bf16_beside_it_is_not_read,
                                   keys_without_effect_are_listed_with_the_reason,
                                   data_types_have_torchs_names_too,
                                   unused_parameters_have_an_old_name,
                                   two_keys_of_one_meaning_may_agree,
                                   a_change_of_pictures_is_on_where_its_object_is_given,
                                   the_command_line_wins,
                                   paths_in_the_file_are_relative_to_its_folder,
                                   parameter_groups_keep_what_they_do_not_set,
                                   the_batch_follows_the_table,
                                   a_written_config_reads_back_to_the_same,
                                   a_written_config_keeps_the_bytes_of_a_path,
                                   bf16_skips_steps_that_overflow_where_the_key_says_so,
                                   milestones_are_integers,
                                   a_schedule_may_give_each_parameter_group_its_rate };
    return run_cases("config values", cases, sizeof cases / sizeof cases[0]);
}
