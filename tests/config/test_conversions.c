/* Values that are written as another type than their key has. */
#include "read.h"

#include <math.h>

START_TEST(numbers_booleans_and_null_have_several_spellings) {
    struct zt_config *c = CONFIG(
        "\"steps_per_print\": 2e1, \"prescale_gradients\": \"On\", \"gradient_clipping\": null, \"fp16\": null,"
        "\"zero_optimization\": {\"stage\": 1.0, \"allgather_bucket_size\": 2e8, \"offload_param\": null},"
        "\"bf16\": {\"enabled\": 1}, \"ztrain\": {\"seed\": 9000000000000000000, \"steps\": 9223372036854775807}");
    ck_assert(c->steps_per_print == 20 && c->prescale_gradients && c->gradient_clipping == 0 && c->bf16);
    ck_assert(c->zero.stage == 1 && c->zero.allgather_bucket_size == 200000000);
    ck_assert(c->seed == INT64_C(9000000000000000000) && c->steps == INT64_MAX);
    zt_config_destroy(c);
}
END_TEST

START_TEST(texts_that_mean_false_are_false) {
    struct zt_config *c = CONFIG(
        "\"wall_clock_breakdown\": \"False\", \"prescale_gradients\": \"no\", \"memory_breakdown\": \"true\", "
        "\"sparse_attention\": \"false\", \"zero_optimization\": {\"stage\": 1, \"overlap_comm\": \"F\"}, "
        "\"fp16\": {\"enabled\": \"false\"}, \"ztrain\": {\"tf32\": \"off\"}");
    ck_assert(!c->wall_clock_breakdown && !c->prescale_gradients && c->memory_breakdown && !c->zero.overlap_comm &&
              !c->fp16.enabled && !c->tf32);
    ck_assert(
        mentions(&c->notes, "wall_clock_breakdown: the text \"False\" is read as false; DeepSpeed takes it for true"));
    ck_assert(mentions(&c->notes, "prescale_gradients: the text \"no\""));
    ck_assert(!mentions(&c->notes, "memory_breakdown:") && !mentions(&c->notes, "overlap_comm:") &&
              !mentions(&c->notes, "fp16") && !mentions(&c->notes, "tf32:"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(numbers_in_quotes_are_numbers) {
    struct zt_config *c = CONFIG(
        "\"train_micro_batch_size_per_gpu\": \"2\", \"gradient_accumulation_steps\": \"4\", \"gradient_clipping\": "
        "\"0.5\","
        "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"5e-4\", \"betas\": [\"0.8\", 0.9]}},"
        "\"zero_optimization\": {\"stage\": \"2\", \"reduce_bucket_size\": \"5_000_000\"}");
    ck_assert(c->micro_batch == 2 && c->accumulation == 4 && c->gradient_clipping == 0.5);
    ck_assert(c->optimizer.lr == 5e-4 && c->optimizer.beta1 == 0.8 && c->zero.stage == 2);
    ck_assert_int_eq(c->zero.reduce_bucket_size, 5000000);
    ck_assert(mentions(&c->notes, "gradient_accumulation_steps: the text \"4\" is read as a number"));
    ck_assert(mentions(&c->notes, "optimizer.params.betas[0]: the text \"0.8\" is read as a number"));
    ck_assert(!mentions(&c->notes, "betas[1]"));
    zt_config_destroy(c);
}
END_TEST

/* What pydantic 2.14 makes of a value in `zero_optimization.sub_group_size` (int) and `fp16.loss_scale` (float), and
 * Python of one in the sections that DeepSpeed keeps as they are; NAN: refused. */
static const struct {
    const char *value;
    double pydantic_int, pydantic_float, kept_int;
} coerced[] = {
    { "true", 1, 1, 1 },
    { "false", 0, 0, 0 },
    { "-0.0", 0, 0, 0 },
    { "5e8", 5e8, 5e8, 5e8 },
    { "1.5", NAN, 1.5, NAN },
    { "\"1e8\"", NAN, 1e8, 1e8 },
    { "\" 8 \"", 8, 8, 8 },
    { "\"8.00\"", 8, 8, 8 },
    { "\"8.5\"", NAN, 8.5, NAN },
    { "\"+8\"", 8, 8, 8 },
    { "\"08\"", 8, 8, 8 },
    { "\"1_000\"", 1000, 1000, 1000 },
    { "\"1__0\"", NAN, NAN, NAN },
    { "\"_1\"", NAN, NAN, NAN },
    { "\"0x10\"", NAN, NAN, NAN },
    { "\"--1\"", NAN, NAN, NAN },
    { "\"-0\"", 0, 0, 0 },
    { "\".5\"", NAN, 0.5, NAN },
    { "\"5.\"", NAN, 5, 5 },
    { "\"true\"", NAN, NAN, NAN },
    { "\"\"", NAN, NAN, NAN },
    { "\"nan\"", NAN, NAN, NAN },
    { "\"inf\"", NAN, NAN, NAN },
    { "\"............................................................\"", NAN, NAN, NAN },
    { "[1]", NAN, NAN, NAN },
    { "{}", NAN, NAN, NAN },
};

static void check_coerced(const char *object, const char *key, const char *value, double wants) {
    struct result got;
    char text[256];
    snprintf(text, sizeof text, "{" BATCH ", \"%s\": {\"%s\": %s}}", object, key, value);
    read_text(&got, text);
    ck_assert_msg(!got.config == isnan(wants), "%s\n%s", text, got.text);
    if (!got.config)
        return;
    const struct zt_config *c = got.config;
    const double is = object[0] == 'z'   ? (double)c->zero.sub_group_size
                      : object[0] == 'f' ? c->fp16.loss_scale
                                         : c->recompute.segments;
    ck_assert_msg(is == wants, "%s: %g, wants %g", text, is, wants);
    snprintf(text, sizeof text, "%s.%s: ", object, key);
    ck_assert_msg(mentions(&c->notes, text) == (value[0] == '"' || value[0] == 't' || value[0] == 'f'), "%s %s", text,
                  value);
    zt_config_destroy(got.config);
}

START_TEST(values_of_another_type_are_what_deepspeed_reads) {
    for (size_t i = 0; i < sizeof coerced / sizeof *coerced; i++) {
        const bool above = coerced[i].kept_int > 1e6; /* the most segments of recomputation */
        check_coerced("zero_optimization", "sub_group_size", coerced[i].value, coerced[i].pydantic_int);
        check_coerced("fp16", "loss_scale", coerced[i].value, coerced[i].pydantic_float);
        check_coerced("activation_checkpointing", "number_checkpoints", coerced[i].value,
                      above ? NAN : coerced[i].kept_int);
    }
    refuse("{" BATCH ", \"zero_optimization\": {\"sub_group_size\": \"1e9\"}}",
           "zero_optimization.sub_group_size: wants an integer, found a text: \"1e9\"|write it without quotes", 1);
    refuse("{" BATCH ", \"ztrain\": {\"seed\": true}}", "ztrain.seed: wants an integer, found a boolean: true", 1);
}
END_TEST

/* DeepSpeed's engine takes any number but 0 for true where it does not read the section with pydantic. */
START_TEST(numbers_of_kept_sections_are_true) {
    struct zt_config *c = CONFIG("\"wall_clock_breakdown\": 7, \"zero_optimization\": {\"overlap_comm\": 1}");
    ck_assert(c->wall_clock_breakdown && c->zero.overlap_comm);
    ck_assert(mentions(&c->notes, "wall_clock_breakdown: 7 is read as true"));
    ck_assert(!mentions(&c->notes, "overlap_comm"));
    zt_config_destroy(c);
    refuse("{" BATCH ", \"zero_optimization\": {\"overlap_comm\": 7}}", "overlap_comm: wants true or false", 1);
}
END_TEST

/* A file of DeepSpeed says with it that nothing is checkpointed. */
START_TEST(number_checkpoints_false_recomputes_nothing) {
    static const char *const values[] = { "false", "null", "0" };
    for (size_t i = 0; i < 3; i++) {
        char text[128];
        snprintf(text, sizeof text, "{" BATCH ", \"activation_checkpointing\": {\"number_checkpoints\": %s}}",
                 values[i]);
        struct zt_config *c = accept(text);
        ck_assert(!c->recompute.enabled && c->recompute.segments == 0);
        zt_config_destroy(c);
    }
}
END_TEST

int main(void) {
    const TTest *const cases[] = { numbers_booleans_and_null_have_several_spellings,
                                   texts_that_mean_false_are_false,
                                   numbers_in_quotes_are_numbers,
                                   values_of_another_type_are_what_deepspeed_reads,
                                   numbers_of_kept_sections_are_true,
                                   number_checkpoints_false_recomputes_nothing };
    return run_cases("config conversions", cases, sizeof cases / sizeof cases[0]);
}
