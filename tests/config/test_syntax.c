/* The JSON of a config: comments, trailing commas, and every way a file can be wrong, with line and column. */
#include "read.h"

START_TEST(comments_and_trailing_commas_are_allowed) {
    struct zt_config *c = accept("// first\n{ # second\n /* third\n * */ " BATCH
                                 ", /* \"a\": 1, */\n"
                                 "\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.5,},},\n"
                                 "\"ztrain\": {\"freeze\": [\"a // b\", \"# c\", \"/* d */\",],}, } // end");
    ck_assert_double_eq(c->optimizer.lr, 0.5);
    ck_assert_int_eq(c->freeze.count, 3);
    ck_assert_str_eq(c->freeze.at[0], "a // b");
    ck_assert_str_eq(c->freeze.at[2], "/* d */");
    zt_config_destroy(c);
}
END_TEST

START_TEST(a_byte_order_mark_and_escapes_are_understood) {
    struct zt_config *c =
        accept("\xef\xbb\xbf{" BATCH ", \"ztrain\": {\"loss\": {\"logits\": \"\\u00e4\\n\\ud83d\\ude00\"}}}");
    ck_assert_str_eq(c->loss.logits, "\xc3\xa4\n\xf0\x9f\x98\x80");
    zt_config_destroy(c);
    c = accept("{" BATCH ", \"ztrain\": {\"loss\": {\"logits\": \"a\\udc80\\udcFF\"}}}"); /* bytes */
    ck_assert_str_eq(c->loss.logits, "a\x80\xff");
    zt_config_destroy(c);
}
END_TEST

START_TEST(syntax_errors_say_line_and_column) {
    static const char *const cases[][2] = {
        { "", ":1:1:|empty" },
        { "  \n # only a comment\n", ":3:1:|empty" },
        { "[1, 2]", ":1:1:|object" },
        { "{\n \"train_batch_size\": 8\n \"seed\": 1}", ":3:2:|ends in line 2|','" },
        { "{\n \"train_batch_size\": }", ":2:22:|value" },
        { "{" BATCH ", \n \"seed\": 1", ":2:11:|end of the file" },
        { "{" BATCH "} {}", ":1:25:|end of the file" },
        { "{" BATCH ",, \"seed\": 1}", ":1:24:|key" },
        { "{train_batch_size: 8}", ":1:2:|quotes" },
        { "{'train_batch_size': 8}", ":1:2:|quotes" },
        { "{\"train_batch_size\": 'a'}", ":1:22:|double quotes" },
        { "{\"train_batch_size\" 8}", ":1:21:|':'" },
        { "{\"log_level\": debug}", ":1:15:|without quotes" },
        { "{\"train_batch_size\": BATCH_SIZE, \"optimizer\": {\"type\": adam w # x\n},\n\"seed\": SEED}",
          ":1:22: a text without quotes: BATCH_SIZE;|:1:56: a text without quotes: adam w;|:3:9: a text without "
          "quotes: "
          "SEED;" },
        { "{\"train_batch_size\": BATCH, \"zero_optimization\": {\"stage\": STAGE, \"offload_optimizer\": {\"device\": "
          "\"nvme\"}, "
          "\"stagex\": 2}, \"fp16\": {\"enabled\": 7}, \"optimizer\": {\"type\": TYPE, \"params\": {\"lrr\": 1}}}",
          "BATCH;|STAGE;|TYPE;|zero_optimization.stagex: unknown key|fp16.enabled: wants true or false|lrr: unknown "
          "key" },
        { "{\"train_batch_size\": ${BATCH}, \"seed\": <seed>,\n\"tensorboard\": {\"output_path\": /home/me/run-1 }, "
          "\"sed\": $SEED}",
          ":1:22: a text without quotes: ${BATCH};|: <seed>;|:2:32: a text without quotes: /home/me/run-1;|: "
          "$SEED;|sed: unknown key" },
        { "{\"log_level\": True}", ":1:15:|without quotes|write true" },
        { "{\"fp16\": {\"enabled\": None}}", "without quotes|write null" },
        { "{\"log_level\": Truth}", "without quotes|put double quotes" },
        { "{\"gradient_clipping\": NaN}", ":1:23:|without quotes" },
        { "{\"gradient_clipping\": 01}", ":1:23:|number" },
        { "{\"gradient_clipping\": 1.}", ":1:23:|number" },
        { "{\"gradient_clipping\": .5}", ":1:23:" },
        { "{\"gradient_clipping\": +5}", ":1:23:" },
        { "{\"gradient_clipping\": 1e}", ":1:23:|number" },
        { "{\"gradient_clipping\": 1x}", ":1:23:|number" },
        { "{\"gradient_clipping\": -}", ":1:23:|number" },
        { "{\"gradient_clipping\": 1e999}", ":1:2:|too large" },
        { "{\"gradient_clipping\": 1000000000000000000000000000000000000000000000000000000000000000000000}",
          "60 characters" },
        { "{\"log_level\": \"a\nb\"}", ":1:15:|not closed" },
        { "{\"log_level\": \"a\tb\"}", ":1:17:|control character" },
        { "{\"log_level\": \"a\\qb\"}", ":1:17:|escape" },
        { "{\"log_level\": \"a\\u0000b\"}", ":1:17:|u0000" },
        { "{\"log_level\": \"\\ud800x\"}", ":1:16:|no character" },
        { "{\"log_level\": \"\\udc00\"}", ":1:16:|no character" },
        { "{\"log_level\": \"\\udc7f\"}", ":1:16:|no character" },
        { "{\"log_level\": \"\\udd00\"}", ":1:16:|no character" },
        { "{\"log_level\": \"\\u12g4\"}", ":1:16:|no character" },
        { "{\n/* never closed", ":2:1:|never ends" },
        { "{\"log_level\": \"\xc3(\"}", ":1:16:|UTF-8" },
        { "{\"log_level\": \"\xed\xa0\x80\"}", "UTF-8" },
        { "{\"log_level\": \"\xc0\xaf\"}", "UTF-8" },
        { "\xff\xfe{", ":1:1:|UTF-8" },
        { "{\"\xc3\xa4\xc3\xb6\": 1, \"x\" 2}", ":1:15:|':'" }, /* columns are characters */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse(cases[i][0], cases[i][1], 0);
}
END_TEST

START_TEST(a_nul_byte_is_named) {
    static const char text[] = "{\n\"log_level\": \0\"info\"}";
    struct zt_config_overrides over = no_overrides();
    struct result got;
    read_bytes(&got, text, sizeof text - 1, &over);
    ck_assert_ptr_null(got.config);
    ck_assert_ptr_nonnull(strstr(got.text, ":2:14: a NUL byte"));
}
END_TEST

START_TEST(a_number_beyond_a_double_is_one_problem) {
    refuse("{\"train_batch_size\": 1e400}", ":1:2: the number 1e400 is too large", 1);
    refuse("{" BATCH ", \"gradient_clipping\": -1e400}", "the number -1e400 is too large", 1);
    refuse("{" BATCH ", \"ztrain\": {\"loss\": {\"class_weights\": [1, 1e400]}}}", "the number 1e400 is too large", 1);
}
END_TEST

START_TEST(duplicate_keys_name_both_lines) {
    refuse("{" BATCH ",\n\"seed\": 1,\n\n\"seed\": 2,\n\"ztrain\": {\"epochs\": 1, \"\\u0065pochs\": 1}}",
           ":4:1: seed: given twice, in line 2 and in line 4|:5:25: ztrain.epochs: given twice", 2);
}
END_TEST

START_TEST(nesting_and_size_have_limits) {
    struct zt_text deep = { 0 }, wide = { 0 };
    zt_text_add(&deep, "{\"domino\": ");
    for (int i = 0; i < 100000; i++)
        zt_text_add_bytes(&deep, "[", 1);
    refuse(deep.at, "64 levels", 1);
    zt_text_finish(&deep);
    for (int i = 0; i < 63; i++)
        zt_text_add(&deep, "%s", i ? "[" : "{" BATCH ", \"amp\": {\"loss_scale\": ");
    for (int i = 0; i < 63; i++)
        zt_text_add(&deep, "%s", i ? "]" : "");
    zt_text_add(&deep, "}}");
    zt_config_destroy(accept(deep.at));
    zt_text_finish(&deep);
    zt_text_add(&wide, "{\"amp\": {\"x\": [");
    for (int i = 0; i < 100001; i++)
        zt_text_add_bytes(&wide, "1,", 2);
    zt_text_add(&wide, "]}}");
    refuse(wide.at, "100000 values", 1);
    zt_text_finish(&wide);
    zt_text_add(&wide, "{\"%0200d\": 1}", 7);
    refuse(wide.at, "128 bytes", 1);
    zt_text_finish(&wide);
    zt_text_add(&wide, "{" BATCH "}");
    for (int i = 0; i < 17 << 10; i++)
        zt_text_add(&wide, "%1024s", "");
    refuse(wide.at, "16 MiB", 1);
    zt_text_finish(&wide);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named) {
    struct zt_config_overrides over = no_overrides();
    struct result got;
    read_path(&got, "/no/such/folder/c.json", &over);
    ck_assert_ptr_nonnull(strstr(got.text, "/no/such/folder/c.json"));
    read_path(&got, ".", &over);
    ck_assert_ptr_nonnull(strstr(got.text, ".: not a regular file"));
}
END_TEST

/* Everything at once: sections, lists, comments, escapes; half of it is refused, which is as good. */
static const char rich[] =
    "{\n" BATCH
    ", // c\n\"gradient_clipping\": 1.5e0, \"train_micro_batch_size_per_gpu\": \"auto\",\n"
    "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-3, \"betas\": [0.9, 0.99],}},\n"
    "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": [0, 0], \"warmup_num_steps\": 5}},\n"
    "\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": false, \"max_live_parameters\": 1e9},\n"
    "\"bf16\": {\"enabled\": \"false\"}, \"pipeline\": {\"stages\": 1}, \"sparse_attention\": false, # d\n"
    "\"ztrain\": {\"data\": {\"format\": \"npz\", \"path\": \"a\\u00e4\", \"normalize\": {\"mean\": [0.5], \"std\": "
    "[2]}},\n"
    "\"param_groups\": [{\"match\": \"*.bias\", \"lr\": 0.1}], \"freeze\": [\"x\", \"y\"], \"tie\": [],\n"
    "\"metrics\": [\"accuracy\"], \"memory_limit\": null, /* e */ \"seed\": 7}\n}\n";

static void read_and_drop(const char *text, size_t size) {
    struct zt_config_overrides over = no_overrides();
    struct result got;
    read_bytes(&got, text, size, &over);
    zt_config_destroy(got.config);
}

START_TEST(a_file_cut_at_any_byte_is_refused_or_read) {
    zt_config_destroy(accept(rich));
    for (size_t n = 0; n < sizeof rich; n++)
        read_and_drop(rich, n);
}
END_TEST

START_TEST(a_file_with_any_byte_changed_is_refused_or_read) {
    static const char into[] = { 0, '"', '{', ']', ',', '9', '-', '\\', '\n', (char)0xff };
    char copy[sizeof rich];
    for (size_t n = 0; n < sizeof rich - 1; n++)
        for (size_t i = 0; i < sizeof into; i++) {
            memcpy(copy, rich, sizeof rich);
            copy[n] = into[i];
            read_and_drop(copy, sizeof rich - 1);
        }
}
END_TEST

START_TEST(a_file_with_any_value_replaced_is_refused_or_read) {
    static const char *const into[] = { "null", "-1", "0", "1e18", "\"auto\"", "\"x\"", "[]", "{}", "[[1], {\"a\": 2}]",
                                        "true" };
    for (size_t n = 0; n < sizeof rich - 1; n++)
        for (size_t i = 0; rich[n] == ':' && i < sizeof into / sizeof into[0]; i++) {
            size_t end = n + 1 + strcspn(rich + n + 1, ",}");
            struct zt_text text = { 0 };
            zt_text_add(&text, "%.*s %s%s", (int)n + 1, rich, into[i], rich + end);
            read_and_drop(text.at, text.length);
            zt_text_finish(&text);
        }
}
END_TEST

START_TEST(words_of_a_template_are_all_kept) {
    struct zt_text text = { 0 };
    struct result got;
    zt_text_add(&text, "{\"train_batch_size\": 8, \"a\": [WORD1");
    for (int i = 2; i <= 150; i++)
        zt_text_add(&text, ", WORD%d", i);
    zt_text_add(&text, "]}");
    read_text(&got, text.at);
    ck_assert(got.config == NULL && got.err.rest != NULL && got.err.count == 151);
    ck_assert(strstr(got.err.rest, "WORD100;") && !strstr(got.err.rest, "WORD101;"));
    ck_assert(strstr(got.err.rest, "a: unknown key"));
    zt_err_finish(&got.err);
    zt_text_finish(&text);
}
END_TEST

int main(void) {
    const TTest *const cases[] = { comments_and_trailing_commas_are_allowed,
                                   a_byte_order_mark_and_escapes_are_understood,
                                   syntax_errors_say_line_and_column,
                                   words_of_a_template_are_all_kept,
                                   a_nul_byte_is_named,
                                   a_number_beyond_a_double_is_one_problem,
                                   duplicate_keys_name_both_lines,
                                   nesting_and_size_have_limits,
                                   a_file_that_cannot_be_read_is_named,
                                   a_file_cut_at_any_byte_is_refused_or_read,
                                   a_file_with_any_byte_changed_is_refused_or_read,
                                   a_file_with_any_value_replaced_is_refused_or_read };
    return run_cases("config syntax", cases, sizeof cases / sizeof cases[0]);
}
