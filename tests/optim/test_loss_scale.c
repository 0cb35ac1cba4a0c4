/* The loss scale of fp16 against DeepSpeed 0.16.5's for given overflows (tests/reference/tables/loss-scale.json). */
#include "config/config.h"
#include "optim/loss_scale.h"
#include "tables.h"

#include <math.h>

static double number_or(const cJSON *of, const char *key, double otherwise) {
    const cJSON *item = cJSON_GetObjectItem(of, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

static struct zt_scaling begin(const cJSON *fp16) {
    struct zt_config config = { .fp16 = { .enabled = true, .loss_scale = number_or(fp16, "loss_scale", 0) } };
    config.fp16.initial_scale_power = (int)number_or(fp16, "initial_scale_power", 16);
    config.fp16.loss_scale_window = (int64_t)number_or(fp16, "loss_scale_window", 1000);
    config.fp16.hysteresis = (int64_t)number_or(fp16, "hysteresis", 2);
    config.fp16.min_loss_scale = number_or(fp16, "min_loss_scale", 1);
    config.fp16.consecutive_hysteresis = cJSON_IsTrue(cJSON_GetObjectItem(fp16, "consecutive_hysteresis"));
    return zt_scaling_of(&config);
}

static double at(const cJSON *run, const char *list, int i) {
    const cJSON *item = cJSON_GetArrayItem(cJSON_GetObjectItem(run, list), i);
    ck_assert_msg(item != NULL, "%s[%d]", list, i);
    return item->valuedouble;
}

static void follow(const cJSON *run, int number) {
    const cJSON *overflow = cJSON_GetObjectItem(run, "overflow");
    const int steps = cJSON_GetArraySize(overflow), error_at = (int)number_or(run, "error_at", -1);
    struct zt_scaling s = begin(cJSON_GetObjectItem(run, "fp16"));
    for (int t = 0; t < steps; t++) {
        ck_assert_msg(s.scale == at(run, "scale", t), "run %d, step %d: scale %g", number, t, s.scale);
        zt_scaling_step(&s, cJSON_IsTrue(cJSON_GetArrayItem(overflow, t)));
        ck_assert_msg((s.event == ZT_SCALE_AT_MINIMUM) == (t == error_at), "run %d, step %d: %d", number, t, s.event);
        if (t == error_at)
            return;
        ck_assert_msg(s.scale == at(run, "scale_after", t), "run %d, step %d: then %g", number, t, s.scale);
        ck_assert_msg(s.hysteresis == (int64_t)at(run, "hysteresis_after", t), "run %d, step %d: hysteresis %lld",
                      number, t, (long long)s.hysteresis);
    }
}

START_TEST(the_scale_is_deepspeeds_at_every_step) {
    cJSON *table = test_table("loss-scale.json");
    const cJSON *run;
    int number = 0;
    cJSON_ArrayForEach(run, cJSON_GetObjectItem(table, "runs")) follow(run, number++);
    ck_assert_int_ge(number, 20);
    cJSON_Delete(table);
}
END_TEST

/* Section 3.1: where every scale of 65536 overflows, window 1000 and hysteresis 2 have a period of 1002 steps. */
START_TEST(the_log_of_a_long_run_repeats_after_1002_steps) {
    struct zt_scaling s = begin(NULL);
    for (int step = 0; step < 10000; step++) {
        const int overflow = isinf(zt_scaling_seed(s.scale));
        ck_assert_int_eq(overflow, step % 1002 < 2);
        zt_scaling_step(&s, overflow);
        ck_assert_int_eq(s.event, !overflow          ? step % 1002 == 1001 ? ZT_SCALE_RAISED : ZT_SCALE_STAYS
                                  : step % 1002 == 0 ? ZT_SCALE_HELD
                                                     : ZT_SCALE_HALVED);
    }
}
END_TEST

START_TEST(a_static_scale_and_none_stay) {
    struct zt_config config = { .fp16 = { .enabled = true, .loss_scale = 96.5, .hysteresis = 1 } };
    struct zt_scaling s = zt_scaling_of(&config);
    zt_scaling_step(&s, 1);
    ck_assert(s.scale == 96.5 && s.event == ZT_SCALE_STAYS && zt_scaling_seed(s.scale) == 96.5f);
    config.fp16.enabled = false;
    s = zt_scaling_of(&config);
    zt_scaling_step(&s, 1);
    ck_assert(s.scale == 1 && s.event == ZT_SCALE_STAYS && zt_scaling_seed(s.scale) == 1);
}
END_TEST

/* 0 is no bound of its own: the scale ends where fp32 does. A fraction is a bound as an integer is. */
START_TEST(the_least_scale_may_be_a_fraction_or_nothing) {
    static const struct { double least, end; } cases[] = { { 0.1, 0.1 }, { 0.25, 0.25 }, { 0, 0x1p-126 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_config config = {
            .fp16 = { .enabled = true, .initial_scale_power = 2, .loss_scale_window = 1000, .hysteresis = 1 }
        };
        config.fp16.min_loss_scale = cases[i].least;
        struct zt_scaling s = zt_scaling_of(&config);
        for (int step = 0; step < 200 && s.event != ZT_SCALE_AT_MINIMUM; step++)
            zt_scaling_step(&s, 1);
        ck_assert(s.event == ZT_SCALE_AT_MINIMUM && s.scale == cases[i].end);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("loss_scale");
    tcase_add_test(cases, the_scale_is_deepspeeds_at_every_step);
    tcase_add_test(cases, the_log_of_a_long_run_repeats_after_1002_steps);
    tcase_add_test(cases, a_static_scale_and_none_stay);
    tcase_add_test(cases, the_least_scale_may_be_a_fraction_or_nothing);
    return test_run("loss_scale", cases);
}
