/* Several files over one another, comments, the ztrain block's optimizer, and the user's spelling in messages. */
#include "read.h"

enum { MOST = 3 };

/* Reads texts as files a.json, b.json, c.json of a new folder below the current one. */
static void read_files(struct result *to, const char *const *texts, int count, const struct zt_config_overrides *over) {
    char folder[] = "zt-overlay-XXXXXX", path[MOST][64];
    const char *paths[MOST];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < count; i++) {
        snprintf(path[i], sizeof path[i], "%s/%c.json", folder, 'a' + i);
        paths[i] = path[i];
        FILE *file = fopen(path[i], "w");
        fputs(texts[i], file);
        fclose(file);
    }
    *to = (struct result){ 0 };
    to->config = zt_config_read(&(struct zt_texts){ paths, count }, over, &catalog, &to->err);
    for (int i = 0; i < to->err.count && i < ZT_ERR_LINES; i++) {
        size_t n = strlen(to->text);
        snprintf(to->text + n, sizeof to->text - n, "%s\n%s\n", to->err.text[i], to->err.hint[i]);
    }
    for (int i = 0; i < count; i++)
        unlink(path[i]);
    rmdir(folder);
}

static struct zt_config *accept_files(const char *a, const char *b, const char *c) {
    const char *const texts[MOST] = { a, b, c };
    struct zt_config_overrides over = no_overrides();
    struct result got;
    read_files(&got, texts, c ? 3 : 2, &over);
    ck_assert_msg(got.config != NULL, "%s", got.text);
    return got.config;
}

static void refuse_files(const char *a, const char *b, const char *words, int count) {
    const char *const texts[MOST] = { a, b };
    struct zt_config_overrides over = no_overrides();
    struct result got;
    char word[256];
    read_files(&got, texts, 2, &over);
    ck_assert_ptr_null(got.config);
    ck_assert_int_eq(got.err.count, count);
    while (*words) {
        size_t n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        ck_assert_msg(strstr(got.text, word), "\"%s\" is not in\n%s", word, got.text);
        words += words[n] ? n + 1 : n;
    }
}

START_TEST(later_files_win_key_by_key) {
    struct zt_config *c = accept_files(
        "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 100}, "
        "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.5, \"betas\": [0.8, 0.9]}}, \"bf16\": "
        "{\"enabled\": "
        "true}}",
        "{\"train_batch_size\": 4, \"zero_optimization\": {\"stage\": 1}, \"optimizer\": {\"params\": {\"lr\": 0.25}}, "
        "\"ztrain\": {\"seed\": 3}}",
        "{\"bf16\": null, \"ztrain\": {\"steps\": 7}}");
    ck_assert(c->train_batch == 4 && c->zero.stage == 1 && c->zero.reduce_bucket_size == 100);
    ck_assert(c->optimizer.lr == 0.25 && c->optimizer.beta1 == 0.8 && !c->bf16 && c->seed == 3 && c->steps == 7);
    zt_config_destroy(c);
}
END_TEST

START_TEST(another_optimizer_takes_no_parameters_of_the_former) {
    struct zt_config *c =
        accept_files("{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"betas\": [0.8, 0.9]}}}",
                     "{\"ztrain\": {\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.5}}}}", NULL);
    ck_assert_str_eq(c->optimizer.type, "SGD");
    ck_assert(param(c, "optimizer.params.momentum") == 0.5);
    ck_assert(mentions(&c->notes, "optimizer.type is SGD (b.json line 1), so that the params of AdamW have no effect"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(paths_belong_to_the_file_that_gives_them) {
    struct zt_config *c = accept_files("{\"ztrain\": {\"data\": {\"format\": \"npz\", \"path\": \"x.npz\"}}}",
                                       "{\"ztrain\": {\"data\": {\"eval_path\": \"/y.npz\"}}}", NULL);
    ck_assert(strncmp(c->data.path, "zt-overlay-", 11) == 0 && strstr(c->data.path, "/x.npz"));
    ck_assert_str_eq(c->data.eval_path, "/y.npz");
    zt_config_destroy(c);
}
END_TEST

START_TEST(old_and_new_names_of_different_files_are_one_key) {
    struct zt_config *c = accept_files(
        "{\"zero_optimization\": {\"stage\": 3, \"prefetch_bucket_size\": 1}, "
        "\"dataloader_drop_last\": true, \"bfloat16\": {\"enabled\": true}}",
        "{\"zero_optimization\": {\"stage3_prefetch_bucket_size\": 2}, \"ztrain\": "
        "{\"data\": {\"drop_last\": false}}, \"bf16\": {\"enabled\": false}}",
        NULL);
    ck_assert(c->zero.prefetch_bucket_size == 2 && !c->data.drop_last && !c->bf16);
    zt_config_destroy(c);
    c = accept_files("{\"ztrain\": {\"seed\": 4}}", "{\"seed\": 5}", NULL);
    ck_assert_int_eq(c->seed, 5);
    zt_config_destroy(c);
}
END_TEST

START_TEST(problems_name_their_file) {
    refuse_files("{\"train_batch_size\": 8,\n\"gradient_accumulation_steps\": 3}",
                 "{\n\"ztrain\": {\"stepz\": 1}, \"train_micro_batch_size_per_gpu\": 2}",
                 "a.json:1:2: train_batch_size: 8 (a.json line 1) is not|2 (b.json line 2)|3 (a.json line 2)|"
                 "b.json:2:12: ztrain.stepz: unknown key, did you mean steps?",
                 2);
    refuse_files("{\"a\": }", "{\"b\" 1}", "a.json:1:7: |b.json:1:6: ", 2);
}
END_TEST

START_TEST(the_block_of_the_optimizer_may_stand_in_the_ztrain_block) {
    struct zt_config *c =
        accept("{" BATCH
               ", \"ztrain\": {\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.5}}, \"scheduler\": "
               "{\"type\": \"WarmupLR\"}}}");
    ck_assert_str_eq(c->optimizer.type, "SGD");
    ck_assert_str_eq(c->scheduler.type, "WarmupLR");
    zt_config_destroy(c);
    c = accept("{" BATCH ", \"optimizer\": {\"type\": \"SGD\"}, \"ztrain\": {\"optimizer\": {\"type\": \"SGD\"}}}");
    ck_assert_str_eq(c->optimizer.type, "SGD");
    zt_config_destroy(c);
    refuse("{" BATCH
           ", \"optimizer\": {\"type\": \"SGD\"}, \"ztrain\": {\"optimizer\": {\"type\": \"Adam\", \"params\": "
           "{\"lrr\": 1}}}}",
           "ztrain.optimizer.type: differs from optimizer.type (\"SGD\", line 1)|ztrain.optimizer.params.lrr: unknown",
           2);
}
END_TEST

START_TEST(messages_keep_the_users_spelling) {
    refuse("{" BATCH ", \"bfloat16\": {\"enabled\": 7, \"enable\": true}}",
           "bfloat16.enabled: wants true or false|bfloat16.enable: unknown key, did you mean enabled?", 2);
    struct zt_config *c = accept("{" BATCH ", \"zero_optimization\": {\"cpu_offload\": true}}");
    ck_assert(mentions(
        &c->notes, "zero_optimization.cpu_offload has no effect: it needs zero_optimization.stage 1 to 3, found 0"));
    zt_config_destroy(c);
    c = accept("{" BATCH ", \"aio\": {\"thread_count\": 3}}");
    ck_assert(mentions(&c->without_effect, "aio.thread_count = 3"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(comments_are_ignored_with_a_note) {
    struct zt_config *c =
        accept("{" BATCH
               ", \"_comment\": 1, \"_comment\": {\"_\": 2}, \"//\": 3, \"fp16\": {\"//enabled\": true},\n"
               "\"ztrain\": {\"padding_idx\": {\"_orig.weight\": 4}}}");
    ck_assert(!c->fp16.enabled && c->padding_count == 1);
    ck_assert_str_eq(c->paddings[0].match, "_orig.weight");
    ck_assert(mentions(&c->notes,
                       "keys that begin with _ or // are comments: _comment (line 1), _comment (line 1), // "
                       "(line 1), fp16.//enabled (line 1)"));
    zt_config_destroy(c);
    refuse("{" BATCH ", \"a\": 1, \"a\": 2}", "a: given twice", 0);
}
END_TEST

/* A typo below any object is found, whatever DeepSpeed does with it. */
START_TEST(no_object_swallows_a_typo) {
    static const char *const texts[] = { "\"compile\": {\"typo\": 1}",
                                         "\"amp\": {\"enabled\": false, \"typo\": 1}",
                                         "\"autotuning\": {\"model_info\": {\"typo\": 1}}",
                                         "\"autotuning\": {\"arg_mappings\": {\"typo\": \"--x\"}}",
                                         "\"expert_parallel\": {\"enabled\": false, \"typo\": 1}",
                                         "\"quantize_training\": {\"enabled\": false, \"typo\": 1}",
                                         "\"compression_training\": {\"row_pruning\": {\"shared_parameters\": "
                                         "{\"enabled\": false}, \"different_groups\": {\"g\": {\"params\": {\"typo\": "
                                         "1}}}}}",
                                         "\"zero_optimization\": {\"zenflow\": {\"typo\": 1}}" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct zt_text text = { 0 };
        zt_text_add(&text, "{" BATCH ", %s}", texts[i]);
        refuse(text.at, "typo: unknown key", 0);
        zt_text_finish(&text);
    }
}
END_TEST

START_TEST(the_command_line_is_above_all_files) {
    const char *const texts[] = { "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.8, 0.9]}}}",
                                  "{\"train_batch_size\": 6}" };
    static const char *const set[] = { "optimizer={\"type\": \"SGD\"}", "train_batch_size=4", "bfloat16.enabled=true" };
    struct zt_config_overrides over = no_overrides();
    struct result got;
    over.set = set;
    over.set_count = 3;
    read_files(&got, texts, 2, &over);
    ck_assert_msg(got.config != NULL, "%s", got.text);
    ck_assert_str_eq(got.config->optimizer.type, "SGD");
    ck_assert(got.config->train_batch == 4 && got.config->bf16);
    zt_config_destroy(got.config);
}
END_TEST

static void problem(struct zt_err *err, const struct zt_config *c, const char *text, const char *wanted) {
    *err = (struct zt_err){ 0 };
    zt_fail(err, ZT_EXIT_CONFIG, "%s", text);
    zt_config_locate(c, "FILES", err, 0);
    const char *found = strstr(err->text[0], wanted);
    bool whole = found && (found == err->text[0] || found[-1] == '/') && strlen(found) == strlen(wanted);
    ck_assert_msg(whole, "%s\nwants %s", err->text[0], wanted);
}

START_TEST(later_problems_name_the_origin_of_their_key) {
    const char *const texts[] = {
        "{\"ztrain\": {\"cluster\": \"x\",\n \"freeze\": [\"a\"], \"padding_idx\": {\"*.a\": 1}}}",
        "{\"ztrain\": {\"seed\": 5,\n  \"cluster\": \"y\", \"padding_idx\": {\"*.a.b\": 2}}}"
    };
    static const char *const set[] = { "ztrain.tie=[[\"c\", \"d\"]]", "ztrain.loss={\"logits\": \"z\"}" };
    struct zt_config_overrides over = no_overrides();
    struct result got;
    over.set = set;
    over.set_count = 2;
    over.seed = 7;
    read_files(&got, texts, 2, &over);
    ck_assert_msg(got.config != NULL, "%s", got.text);
    static const char *const cases[][2] = {
        { "ztrain.cluster: wrong", "b.json:2:3: ztrain.cluster: wrong" }, /* the file that has the last word */
        { "ztrain.freeze[0]: wrong", "a.json:2:13: ztrain.freeze[0]: wrong" },
        { "ztrain.freeze[1]: wrong", "a.json:2:2: ztrain.freeze[1]: wrong" }, /* the list has no such item */
        { "ztrain.padding_idx.*.a.b: wrong", "b.json:2:35: ztrain.padding_idx.*.a.b: wrong" },
        { "ztrain.cluster \"y\" is wrong", "b.json:2:3: ztrain.cluster \"y\" is wrong" },
        { "ztrain.tie[0][1]: wrong", "--set ztrain.tie[0][1]: wrong" },
        { "ztrain.loss.logits: wrong", "--set ztrain.loss: ztrain.loss.logits: wrong" },
        { "ztrain.seed: wrong", "--seed: ztrain.seed: wrong" },
        { "ztrain.memory_limit: wrong", "FILES: ztrain.memory_limit: wrong" }, /* not given */
        { "optimizer.type: wrong", "FILES: optimizer.type: wrong" },           /* a default */
        { "a rank needs more", "FILES: a rank needs more" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        problem(&got.err, got.config, cases[i][0], cases[i][1]);
    zt_config_destroy(got.config);
}
END_TEST

/* The command line of `count` options that are laid over one another in their order. */
static struct zt_config_overrides options(const char *const *set) {
    struct zt_config_overrides over = no_overrides();
    over.set = set;
    while (set[over.set_count])
        over.set_count++;
    return over;
}

START_TEST(an_option_inside_another_is_laid_over_it_or_refused) {
    static const char *const accepted[] = { "_note=1",
                                            "optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 0.5}}",
                                            "optimizer.params.momentum=0.25",
                                            "ztrain.loss.type=huber",
                                            "ztrain.loss={\"delta\": 2}",
                                            "ztrain.loss.delta=3",
                                            "zero_optimization=null",
                                            "zero_optimization.stage=2",
                                            NULL };
    const struct zt_config_overrides over = options(accepted);
    struct zt_config *c =
        with("{" BATCH ", " ADAM ", \"zero_optimization\": {\"stage\": 1, \"overlap_comm\": false}}", &over);
    ck_assert_str_eq(c->optimizer.type, "SGD");
    ck_assert_double_eq(c->optimizer.lr, 0.5);
    ck_assert_double_eq(param(c, "optimizer.params.momentum"), 0.25);
    ck_assert_str_eq(c->loss.type, "huber");
    ck_assert_double_eq(param(c, "ztrain.loss.delta"), 3);
    ck_assert_int_eq(c->zero.stage, 2);
    ck_assert(mentions(&c->notes, "comments: _note (--set _note)"));
    zt_config_destroy(c);
    static const struct {
        const char *set[3], *words;
    } refused[] = {
        { { "zero_optimization=true", "zero_optimization.overlap_comm=true" },
          "--set zero_optimization.overlap_comm: sets a key inside zero_optimization, but --set zero_optimization "
          "makes "
          "it true" },
        { { "ztrain.loss.type=mse", "ztrain.loss=4" },
          "--set ztrain.loss: ztrain.loss is 4 here, but --set ztrain.loss.type sets a key inside it" },
        { { "ztrain.loss={\"type\": \"mse\", \"type\": \"l1\"}" }, "not JSON: 1:17: type: given twice" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const struct zt_config_overrides wrong = options(refused[i].set);
        refuse_with("{" BATCH ", " ADAM "}", &wrong, refused[i].words, 1);
    }
    static const char *const whole[] = { "ztrain=3", NULL };
    struct zt_config_overrides steps = options(whole);
    steps.steps = 1;
    refuse_with("{" BATCH ", " ADAM "}", &steps, "--steps: sets a key inside ztrain, but --set ztrain makes it 3", 0);
}
END_TEST

int main(void) {
    const TTest *const cases[] = { later_files_win_key_by_key,
                                   another_optimizer_takes_no_parameters_of_the_former,
                                   paths_belong_to_the_file_that_gives_them,
                                   old_and_new_names_of_different_files_are_one_key,
                                   problems_name_their_file,
                                   the_block_of_the_optimizer_may_stand_in_the_ztrain_block,
                                   messages_keep_the_users_spelling,
                                   comments_are_ignored_with_a_note,
                                   no_object_swallows_a_typo,
                                   the_command_line_is_above_all_files,
                                   an_option_inside_another_is_laid_over_it_or_refused,
                                   later_problems_name_the_origin_of_their_key };
    return run_cases("config overlay", cases, sizeof cases / sizeof cases[0]);
}
