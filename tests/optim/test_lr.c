/* Learning-rate rules against the rates DeepSpeed itself gave (tests/reference/tables/lr-schedules.json) and against
 * those of PyTorch's recurrences (lr-schedules-torch.json, by make_tables.py). */
#include "config_of.h"
#include "optim/optim.h"
#include "tables.h"

#include <check.h>
#include <math.h>
#include <string.h>

static struct zt_config *config_from(const cJSON *entry) {
    char *scheduler = cJSON_PrintUnformatted(cJSON_GetObjectItem(entry, "scheduler"));
    struct zt_config *config =
        config_of("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": %.17g}}, \"scheduler\": %s",
                  cJSON_GetObjectItem(entry, "optimizer_lr")->valuedouble, scheduler);
    free(scheduler);
    return config;
}

static void check_near(double found, double wanted, const char *what, int schedule, int update) {
    ck_assert_msg(fabs(found - wanted) <= 1e-12 * fabs(wanted), "schedule %d, update %d: %s %.17g, wants %.17g",
                  schedule, update, what, found, wanted);
}

/* The number of schedules of a table, all of which have been followed. */
static int follow(const char *name) {
    cJSON *table = test_table(name);
    const cJSON *entry;
    int schedule = 0;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(table, "schedules")) {
        struct zt_config *config = config_from(entry);
        const cJSON *rates = cJSON_GetObjectItem(entry, "lr_stairs"), *wanted;
        if (!rates) /* stairs as 0.19 has them: 0.16.5 ignored the key */
            rates = cJSON_GetObjectItem(entry, "lr");
        int update = 0;
        cJSON_ArrayForEach(wanted, rates) {
            check_near(zt_rate_at(config, NULL, update).lr, wanted->valuedouble, "lr", schedule, update);
            update++;
        }
        ck_assert_int_eq(update, 200);
        update = 0;
        cJSON_ArrayForEach(wanted, cJSON_GetObjectItem(entry, "betas")) {
            struct zt_rate rate = zt_rate_at(config, NULL, update);
            check_near(rate.beta1, cJSON_GetArrayItem(wanted, 0)->valuedouble, "beta1", schedule, update);
            check_near(rate.beta2, cJSON_GetArrayItem(wanted, 1)->valuedouble, "beta2", schedule, update++);
        }
        zt_config_destroy(config);
        schedule++;
    }
    cJSON_Delete(table);
    return schedule;
}

START_TEST(every_schedule_gives_the_rates_of_deepspeed) {
    ck_assert_int_eq(follow("lr-schedules.json"), 14);
}
END_TEST

START_TEST(every_schedule_gives_the_rates_of_torch) {
    ck_assert_int_eq(follow("lr-schedules-torch.json"), 5);
}
END_TEST

/* Values come as those of evaluations, and as the mean loss of an epoch of two steps. */
START_TEST(a_plateau_lowers_the_rate) {
    cJSON *table = test_table("lr-schedules-torch.json");
    const cJSON *entry, *wanted;
    int schedule = 0;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(table, "plateaus")) {
        struct zt_config *config = config_from(entry);
        struct zt_lr_state evaluated = zt_lr_state_of(config), trained = evaluated;
        const cJSON *value = cJSON_GetObjectItem(table, "values")->child;
        int epoch = 0;
        cJSON_ArrayForEach(wanted, cJSON_GetObjectItem(entry, "lr")) {
            const double before = evaluated.lr;
            bool changed = zt_lr_end_epoch(config, &evaluated, &value->valuedouble);
            zt_lr_add_step(&trained, value->valuedouble + 0.25, 6);
            zt_lr_add_step(&trained, value->valuedouble - 0.75, 2);
            zt_lr_end_epoch(config, &trained, NULL);
            check_near(zt_rate_at(config, &evaluated, epoch).lr, wanted->valuedouble, "lr", schedule, epoch);
            check_near(zt_rate_at(config, &trained, epoch).lr, wanted->valuedouble, "lr", schedule, epoch);
            epoch++;
            ck_assert(changed == (evaluated.lr != before));
            value = value->next;
        }
        ck_assert(epoch == 60 && zt_lr_wants_accuracy(config) == (schedule == 5));
        zt_config_destroy(config);
        schedule++;
    }
    ck_assert_int_eq(schedule, 6);
    cJSON_Delete(table);
}
END_TEST

START_TEST(a_loss_that_is_no_number_is_no_better_one) {
    struct zt_config *config = config_of(
        "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.1}}, \"scheduler\": {\"type\": "
        "\"ReduceLROnPlateau\", \"params\": {\"patience\": 1}}");
    struct zt_lr_state state = zt_lr_state_of(config);
    ck_assert(!zt_lr_end_epoch(config, &state, NULL) && !state.has_best); /* an epoch of skipped steps */
    ck_assert(zt_lr_end_epoch(config, &state, &(double){ NAN }) && fabs(state.lr - 0.01) < 1e-15);
    zt_config_destroy(config);
}
END_TEST

START_TEST(without_a_scheduler_the_optimizers_own_rate_holds) {
    struct zt_config config = { .optimizer = { .lr = 0.25, .beta1 = 0.5, .beta2 = 0.75 } };
    for (int update = 0; update < 1000; update += 333) {
        struct zt_rate rate = zt_rate_at(&config, NULL, update);
        ck_assert(rate.lr == 0.25 && rate.beta1 == 0.5 && rate.beta2 == 0.75);
    }
}
END_TEST

START_TEST(rules_are_found_whatever_the_case) {
    ck_assert_str_eq(zt_lr_rule_find("onecycle")->type.name, "OneCycle");
    ck_assert_ptr_null(zt_lr_rule_find("Cosine"));
}
END_TEST

/* Rates that DeepSpeed gave with WarmupLR(0, 1e-5, 1000, log). */
START_TEST(warmup_runs_one_update_late) {
    struct zt_config *config =
        config_of("\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": 1e-5}}");
    ck_assert(zt_rate_at(config, NULL, 0).lr == 0 && zt_rate_at(config, NULL, 1).lr == 0);
    check_near(zt_rate_at(config, NULL, 2).lr, 1e-5 * log(2) / log(1000), "lr", 0, 2);
    check_near(zt_rate_at(config, NULL, 1001).lr, 1e-5, "lr", 0, 1001);
    zt_config_destroy(config);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("lr");
    tcase_add_test(cases, every_schedule_gives_the_rates_of_deepspeed);
    tcase_add_test(cases, every_schedule_gives_the_rates_of_torch);
    tcase_add_test(cases, a_plateau_lowers_the_rate);
    tcase_add_test(cases, a_loss_that_is_no_number_is_no_better_one);
    tcase_add_test(cases, without_a_scheduler_the_optimizers_own_rate_holds);
    tcase_add_test(cases, rules_are_found_whatever_the_case);
    tcase_add_test(cases, warmup_runs_one_update_late);
    return test_run("lr", cases);
}
