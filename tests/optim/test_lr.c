/* Learning-rate rules against the rates DeepSpeed itself gave (tests/reference/tables/lr-schedules.json). */
#include "optim/optim.h"
#include "tables.h"

#include <check.h>
#include <math.h>
#include <string.h>

struct key {
    const char *name;
    size_t offset;
    enum { REAL, COUNT, FLAG } kind;
};
#define KEY(field, k)                                                                                                  \
    { #field, offsetof(struct zt_scheduler_config, field), k }
static const struct key keys[] = {
    KEY(warmup_min_lr, REAL),
    KEY(warmup_max_lr, REAL),
    KEY(warmup_num_steps, COUNT),
    KEY(total_num_steps, COUNT),
    KEY(warmup_min_ratio, REAL),
    KEY(cos_min_ratio, REAL),
    KEY(lr_range_test_min_lr, REAL),
    KEY(lr_range_test_step_rate, REAL),
    KEY(lr_range_test_step_size, COUNT),
    KEY(lr_range_test_staircase, FLAG),
    KEY(cycle_min_lr, REAL),
    KEY(cycle_max_lr, REAL),
    KEY(decay_lr_rate, REAL),
    KEY(cycle_first_step_size, COUNT),
    KEY(cycle_second_step_size, COUNT),
    KEY(cycle_first_stair_count, COUNT),
    KEY(cycle_second_stair_count, COUNT),
    KEY(decay_step_size, COUNT),
    KEY(cycle_momentum, FLAG),
    KEY(cycle_min_mom, REAL),
    KEY(cycle_max_mom, REAL),
    KEY(decay_mom_rate, REAL),
};

static void set(struct zt_scheduler_config *s, const cJSON *value) {
    if (strcmp(value->string, "warmup_type") == 0) {
        s->warmup_log = strcmp(value->valuestring, "log") == 0;
        return;
    }
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        char *at = (char *)s + keys[k].offset;
        if (strcmp(keys[k].name, value->string) != 0)
            continue;
        if (keys[k].kind == REAL)
            *(double *)(void *)at = value->valuedouble;
        else if (keys[k].kind == COUNT)
            *(int64_t *)(void *)at = (int64_t)value->valuedouble;
        else
            *(bool *)(void *)at = cJSON_IsTrue(value);
        return;
    }
    ck_abort_msg("no field for %s", value->string);
}

static struct zt_config config_from(const cJSON *entry) {
    const cJSON *scheduler = cJSON_GetObjectItem(entry, "scheduler"), *value;
    struct zt_config config = {
        .optimizer = { .type = "Adam",
                       .beta1 = 0.9,
                       .beta2 = 0.999,
                       .lr = cJSON_GetObjectItem(entry, "optimizer_lr")->valuedouble },
        .scheduler = { .type = cJSON_GetObjectItem(scheduler, "type")->valuestring,
                       .warmup_log = true,
                       .warmup_min_ratio = 0,
                       .cos_min_ratio = 1e-4,
                       .cycle_momentum = true },
    };
    cJSON_ArrayForEach(value, cJSON_GetObjectItem(scheduler, "params")) set(&config.scheduler, value);
    return config;
}

static void check_near(double found, double wanted, const char *what, int schedule, int update) {
    ck_assert_msg(fabs(found - wanted) <= 1e-12 * fabs(wanted), "schedule %d, update %d: %s %.17g, wants %.17g",
                  schedule, update, what, found, wanted);
}

START_TEST(every_schedule_gives_the_rates_of_deepspeed) {
    cJSON *table = test_table("lr-schedules.json");
    const cJSON *entry;
    int schedule = 0;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(table, "schedules")) {
        struct zt_config config = config_from(entry);
        const cJSON *rates = cJSON_GetObjectItem(entry, "lr_stairs"), *wanted;
        if (!rates) /* stairs as 0.19 has them: 0.16.5 ignored the key */
            rates = cJSON_GetObjectItem(entry, "lr");
        int update = 0;
        cJSON_ArrayForEach(wanted, rates) {
            check_near(zt_rate_at(&config, update).lr, wanted->valuedouble, "lr", schedule, update);
            update++;
        }
        ck_assert_int_eq(update, 200);
        update = 0;
        cJSON_ArrayForEach(wanted, cJSON_GetObjectItem(entry, "betas")) {
            struct zt_rate rate = zt_rate_at(&config, update);
            check_near(rate.beta1, cJSON_GetArrayItem(wanted, 0)->valuedouble, "beta1", schedule, update);
            check_near(rate.beta2, cJSON_GetArrayItem(wanted, 1)->valuedouble, "beta2", schedule, update++);
        }
        schedule++;
    }
    ck_assert_int_eq(schedule, 14);
    cJSON_Delete(table);
}
END_TEST

START_TEST(without_a_scheduler_the_optimizers_own_rate_holds) {
    struct zt_config config = { .optimizer = { .lr = 0.25, .beta1 = 0.5, .beta2 = 0.75 } };
    for (int update = 0; update < 1000; update += 333) {
        struct zt_rate rate = zt_rate_at(&config, update);
        ck_assert(rate.lr == 0.25 && rate.beta1 == 0.5 && rate.beta2 == 0.75);
    }
}
END_TEST

START_TEST(rules_are_found_whatever_the_case) {
    ck_assert_str_eq(zt_lr_rule_find("onecycle")->name, "OneCycle");
    ck_assert_ptr_null(zt_lr_rule_find("Cosine"));
}
END_TEST

/* Reference points of section 3.10: WarmupLR(0, 1e-5, 1000, log). */
START_TEST(warmup_runs_one_update_late) {
    struct zt_config config = {
        .scheduler = { .type = "WarmupLR", .warmup_max_lr = 1e-5, .warmup_num_steps = 1000, .warmup_log = true }
    };
    ck_assert(zt_rate_at(&config, 0).lr == 0 && zt_rate_at(&config, 1).lr == 0);
    check_near(zt_rate_at(&config, 2).lr, 1e-5 * log(2) / log(1000), "lr", 0, 2);
    check_near(zt_rate_at(&config, 1001).lr, 1e-5, "lr", 0, 1001);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("lr");
    tcase_add_test(cases, every_schedule_gives_the_rates_of_deepspeed);
    tcase_add_test(cases, without_a_scheduler_the_optimizers_own_rate_holds);
    tcase_add_test(cases, rules_are_found_whatever_the_case);
    tcase_add_test(cases, warmup_runs_one_update_late);
    return test_run("lr", cases);
}
