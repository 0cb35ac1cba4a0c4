/* The configs of tests/reference: the broken ones are refused with the words that bad/expect.json asks for, the cases
 * and DeepSpeed's own files are understood. */
#include "read.h"

#include <dirent.h>

static const char *reference(void) {
    const char *folder = getenv("ZT_REFERENCE");
    return folder ? folder : "tests/reference";
}

static void read_reference(struct result *to, const char *file, const char *const *set, int count) {
    struct zt_config_overrides over = no_overrides();
    char path[1024];
    over.set = set;
    over.set_count = count;
    snprintf(path, sizeof path, "%s/%s", reference(), file);
    read_path(to, path, &over);
}

START_TEST(broken_configs_are_refused_with_the_words_expected) {
    static const struct {
        const char *file, *words[3];
    } cases[] = {
        { "syntax_error.json", { ".json:4:3" } },
        { "unknown_key.json", { "train_batchsize", "train_batch_size" } },
        { "wrong_type.json", { "train_batch_size" } },
        { "batch_mismatch.json", { "train_batch_size" } },
        { "negative_lr.json", { "lr" } },
        { "zero_stage_5.json", { "stage" } },
        { "fp16_and_bf16.json", { "fp16", "bf16" } },
        { "unknown_optimizer.json", { "AdamX" } },
        { "unknown_optimizer_param.json", { "beta" } },
        { "pipeline_stages.json", { "stages", "64" } },
        { "nvme_path_missing.json", { "nvme_path" } },
        { "unknown_scheduler.json", { "WarmupXLR" } },
        { "negative_clipping.json", { "gradient_clipping" } },
        { "unknown_loss.json", { "cross_entrpy" } },
        { "betas_range.json", { "betas" } },
        { "steps_negative.json", { "steps" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char file[128];
        struct result got;
        snprintf(file, sizeof file, "bad/configs/%s", cases[i].file);
        read_reference(&got, file, NULL, 0);
        ck_assert_msg(got.config == NULL, "%s is not refused", file);
        for (int k = 0; k < 3 && cases[i].words[k]; k++) {
            /* The words must be in the message itself, not only in the name of the file. */
            char *what = strstr(got.text, ".json:");
            ck_assert_msg(what && strstr(what, cases[i].words[k]), "%s: %s", file, got.text);
        }
    }
}
END_TEST

START_TEST(configs_that_fail_later_are_accepted) {
    static const char *const files[] = { "good",
                                         "configs/logits_missing",
                                         "data/target_out_of_range",
                                         "data/target_dtype",
                                         "data/nan_in_data",
                                         "data/wrong_width",
                                         "data/input_missing",
                                         "data/data_missing" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char file[128];
        struct result got;
        snprintf(file, sizeof file, "bad/%s.json", files[i]);
        read_reference(&got, file, NULL, 0);
        ck_assert_msg(got.config != NULL, "%s: %s", file, got.text);
        ck_assert(got.config->train_batch == 16 && got.config->steps == 4 && !got.config->data.shuffle);
        zt_config_destroy(got.config);
    }
}
END_TEST

START_TEST(every_case_is_read) {
    char folder[600];
    int seen = 0;
    snprintf(folder, sizeof folder, "%s/cases", reference());
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char file[600];
        struct result got;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "cases/%s/config.json", entry->d_name);
        read_reference(&got, file, NULL, 0);
        ck_assert_msg(got.config != NULL, "%s", got.text);
        ck_assert(got.config->optimizer.type && got.config->data.path && got.config->without_effect.count <= 1);
        zt_config_destroy(got.config);
        seen++;
    }
    closedir(dir);
    ck_assert_int_ge(seen, 20);
}
END_TEST

/* Unsupported keys of each of DeepSpeed's files; with these switched off, the file loads. */
START_TEST(configs_of_deepspeed_users_are_refused_by_key_or_loaded) {
    static const struct {
        const char *file, *words[5];
        int count;
    } cases[] = {
        { "cifar10_zero2_fp16.json", { NULL }, 0 },
        { "full_zero2_offload.json", { NULL }, 0 },
        { "zero2_auto.json", { NULL }, 0 },
        { "zero3_offload_auto.json", { NULL }, 0 },
        { "zero3_offload_checkpointing.json", { NULL }, 0 },
    };
    static const char *const off[] = { "zero_optimization.offload_optimizer.device=none",
                                       "zero_optimization.offload_param.device=none", "tensorboard.enabled=false",
                                       "activation_checkpointing.enabled=false" };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char file[128];
        struct result got;
        snprintf(file, sizeof file, "ds_configs/%s", cases[i].file);
        read_reference(&got, file, NULL, 0);
        ck_assert_msg(got.err.count == cases[i].count, "%s", got.text);
        for (int k = 0; k < 5 && cases[i].words[k]; k++)
            ck_assert_msg(strstr(got.text, cases[i].words[k]) != NULL, "%s", got.text);
        zt_config_destroy(got.config);
        read_reference(&got, file, off, 4);
        ck_assert_msg(got.config != NULL, "%s", got.text);
        ck_assert_int_gt(got.config->without_effect.count, 2);
        zt_config_destroy(got.config);
    }
}
END_TEST

int main(void) {
    const TTest *const cases[] = { broken_configs_are_refused_with_the_words_expected,
                                   configs_that_fail_later_are_accepted, every_case_is_read,
                                   configs_of_deepspeed_users_are_refused_by_key_or_loaded };
    return run_cases("config reference", cases, sizeof cases / sizeof cases[0]);
}
