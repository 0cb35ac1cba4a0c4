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
            check_near(zt_rate_at(config, NULL, 0, update).lr, wanted->valuedouble, "lr", schedule, update);
            update++;
        }
        ck_assert_int_eq(update, 200);
        update = 0;
        cJSON_ArrayForEach(wanted, cJSON_GetObjectItem(entry, "betas")) {
            struct zt_rate rate = zt_rate_at(config, NULL, 0, update);
            check_near(rate.beta1, cJSON_GetArrayItem(wanted, 0)->valuedouble, "beta1", schedule, update);
            check_near(rate.beta2, cJSON_GetArrayItem(wanted, 1)->valuedouble, "beta2", schedule, update++);
        }
        update = 0;
        cJSON_ArrayForEach(wanted, cJSON_GetObjectItem(entry, "momentum")) {
            struct zt_rate rate = zt_rate_at(config, NULL, 0, update);
            check_near(rate.beta1, wanted->valuedouble, "beta1", schedule, update);
            check_near(rate.momentum, wanted->valuedouble, "momentum", schedule, update);
            check_near(rate.beta2, 0.999, "beta2", schedule, update++);
        }
        ck_assert(config->optimizer.momentum_moves == (update == 200));
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
    ck_assert_int_eq(follow("lr-schedules-torch.json"), 21);
}
END_TEST

/* Values come as those of evaluations, and as the mean loss of an epoch of two steps. */
START_TEST(a_plateau_lowers_the_rate) {
    cJSON *table = test_table("lr-schedules-torch.json");
    const cJSON *entry, *wanted;
    int schedule = 0;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(table, "plateaus")) {
        struct zt_config *config = config_from(entry);
        struct zt_lr_state evaluated = zt_lr_state_of(config, config->arena);
        struct zt_lr_state trained = zt_lr_state_of(config, config->arena);
        const cJSON *value = cJSON_GetObjectItem(table, "values")->child;
        int epoch = 0;
        cJSON_ArrayForEach(wanted, cJSON_GetObjectItem(entry, "lr")) {
            const double before = evaluated.lr[0];
            bool changed = zt_lr_end_epoch(config, &evaluated, &value->valuedouble);
            zt_lr_add_step(&trained, value->valuedouble + 0.25, 6);
            zt_lr_add_step(&trained, value->valuedouble - 0.75, 2);
            zt_lr_end_epoch(config, &trained, NULL);
            check_near(zt_rate_at(config, &evaluated, 0, epoch).lr, wanted->valuedouble, "lr", schedule, epoch);
            check_near(zt_rate_at(config, &trained, 0, epoch).lr, wanted->valuedouble, "lr", schedule, epoch);
            epoch++;
            ck_assert(changed == (evaluated.lr[0] != before));
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
    struct zt_lr_state state = zt_lr_state_of(config, config->arena);
    ck_assert(!zt_lr_end_epoch(config, &state, NULL) && !state.has_best); /* an epoch of skipped steps */
    ck_assert(zt_lr_end_epoch(config, &state, &(double){ NAN }) && fabs(state.lr[0] - 0.01) < 1e-15);
    zt_config_destroy(config);
}
END_TEST

/* PyTorch: a group's rate falls until its own min_lr, and not by less than eps. */
START_TEST(a_plateau_lowers_the_rate_of_each_group) {
    static const struct {
        const char *least;
        double wanted[3][3]; /* after each of three values: of the optimizer, of a group with lr 0.01, of one without */
    } cases[] = {
        { "[0.02, 0.004, 0.1]", { { 0.05, 0.005, 0.1 }, { 0.025, 0.004, 0.1 }, { 0.02, 0.004, 0.1 } } },
        { "0.03", { { 0.05, 0.01, 0.05 }, { 0.03, 0.01, 0.03 }, { 0.03, 0.01, 0.03 } } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_config *config = config_of(
            "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.1}}, \"scheduler\": {\"type\": "
            "\"ReduceLROnPlateau\", \"params\": {\"patience\": 0, \"factor\": 0.5, \"min_lr\": %s}}, \"ztrain\": "
            "{\"param_groups\": [{\"match\": \"*.bias\", \"lr\": 0.01}, {\"match\": \"head.*\"}]}",
            cases[i].least);
        struct zt_lr_state state = zt_lr_state_of(config, config->arena);
        ck_assert(zt_lr_by_group(config));
        for (int n = 0; n < config->notes.count; n++)
            ck_assert_ptr_null(strstr(config->notes.at[n], "param_groups"));
        ck_assert(!zt_lr_end_epoch(config, &state, &(double){ 1 }));
        for (int epoch = 0; epoch < 3; epoch++) {
            ck_assert(zt_lr_end_epoch(config, &state, &(double){ 2 }) == (epoch < 2 || i == 0));
            for (int group = 0; group < 3; group++)
                check_near(zt_rate_at(config, &state, group, epoch).lr, cases[i].wanted[epoch][group], "lr", group,
                           epoch);
        }
        zt_config_destroy(config);
    }
}
END_TEST

START_TEST(a_plateau_goes_on_from_a_checkpoint) {
    struct zt_config *config = config_of(
        "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.1}}, \"scheduler\": {\"type\": "
        "\"ReduceLROnPlateau\"}, \"ztrain\": {\"param_groups\": [{\"match\": \"*.bias\", \"lr\": 0.01}]}");
    struct zt_lr_state state = zt_lr_state_of(config, config->arena);
    struct zt_err err = { 0 };
    double lr[] = { 0.05, 0.02, 0.01 }, lr_sum[] = { 1, 2, 3 };
    struct zt_lr_state saved = { .groups = 2, .lr = lr, .lr_sum = lr_sum, .bad_epochs = 3 };
    ck_assert(zt_lr_state_take(config, &state, &saved, &err) && state.bad_epochs == 3);
    ck_assert(state.lr != lr && state.lr[0] == 0.05 && state.lr[1] == 0.02 && state.lr_sum[1] == 2);
    saved.groups = 1; /* older programs: the ratio of the groups stays */
    ck_assert(zt_lr_state_take(config, &state, &saved, &err) && state.lr[0] == 0.05);
    check_near(state.lr[1], 0.005, "lr", 0, 1);
    check_near(state.lr_sum[1], 0.1, "sum", 0, 1);
    saved.groups = 3;
    ck_assert(!zt_lr_state_take(config, &state, &saved, &err) && strstr(err.text[0], "of 3 parameter groups") &&
              state.lr[0] == 0.05);
    zt_err_finish(&err);
    zt_config_destroy(config);
}
END_TEST

/* DeepSpeed: after last_batch_iteration k, update u has counter k + u, and update 0 the optimizer's own rates, which
 * the constructor leaves. PyTorch: update u is that of epoch last_epoch + 1 + u. */
START_TEST(a_schedule_continues_behind_the_last_update) {
    static const struct {
        const char *type, *params, *last;
        bool late;
    } cases[] = {
        { "WarmupLR", "\"warmup_num_steps\": 40", "last_batch_iteration", true },
        { "WarmupDecayLR", "\"warmup_num_steps\": 9, \"total_num_steps\": 50", "last_batch_iteration", true },
        { "WarmupCosineLR", "\"warmup_num_steps\": 9, \"total_num_steps\": 50", "last_batch_iteration", true },
        { "LRRangeTest", "\"lr_range_test_step_size\": 3", "last_batch_iteration", true },
        { "OneCycle", "\"cycle_min_lr\": 0, \"cycle_max_lr\": 1, \"cycle_first_step_size\": 15", "last_batch_iteration",
          true },
        { "StepLR", "\"step_size\": 4", "last_epoch", false },
        { "ExponentialLR", "\"gamma\": 0.9", "last_epoch", false },
        { "CosineAnnealingLR", "\"T_max\": 20", "last_epoch", false },
        { "MultiStepLR", "\"milestones\": [5, 9]", "last_epoch", false },
        { "CosineAnnealingWarmRestarts", "\"T_0\": 4, \"T_mult\": 2", "last_epoch", false },
        { "OneCycleLR", "\"max_lr\": 1, \"total_steps\": 40", "last_epoch", false },
        { "CyclicLR", "\"base_lr\": 0, \"max_lr\": 1, \"step_size_up\": 9, \"mode\": \"triangular2\"", "last_epoch",
          false },
    };
    static const char rule[] =
        "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.1}}, "
        "\"scheduler\": {\"type\": \"%s\", \"params\": {%s, \"%s\": %d}}";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_config *whole = config_of(rule, cases[i].type, cases[i].params, cases[i].last, -1);
        struct zt_config *rest = config_of(rule, cases[i].type, cases[i].params, cases[i].last, 6);
        for (int update = 0; update < 40; update++) {
            const struct zt_rate found = zt_rate_at(rest, NULL, 0, update);
            struct zt_rate wanted = zt_rate_at(whole, NULL, 0, update + 7);
            if (update == 0 && cases[i].late)
                wanted = (struct zt_rate){ .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999 };
            ck_assert_msg(found.lr == wanted.lr && found.beta1 == wanted.beta1 && found.beta2 == wanted.beta2,
                          "%s, update %d: %.17g, wants %.17g", cases[i].type, update, found.lr, wanted.lr);
        }
        zt_config_destroy(whole);
        zt_config_destroy(rest);
    }
}
END_TEST

START_TEST(a_cycle_may_be_longer_than_any_run) {
    struct zt_config *config = config_of(
        "\"optimizer\": {\"type\": \"Adam\"}, \"scheduler\": {\"type\": \"OneCycle\", \"params\": "
        "{\"cycle_min_lr\": 0.1, \"cycle_max_lr\": 0.2, \"cycle_first_step_size\": %s, \"decay_step_size\": 1, "
        "\"decay_lr_rate\": 1}}",
        "9223372036854775807");
    ck_assert_double_eq_tol(zt_rate_at(config, NULL, 0, 3).lr, 0.1, 1e-15);
    zt_config_destroy(config);
}
END_TEST

START_TEST(without_a_scheduler_the_optimizers_own_rate_holds) {
    struct zt_config config = { .optimizer = { .lr = 0.25, .beta1 = 0.5, .beta2 = 0.75 } };
    for (int update = 0; update < 1000; update += 333) {
        struct zt_rate rate = zt_rate_at(&config, NULL, 0, update);
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
    ck_assert(zt_rate_at(config, NULL, 0, 0).lr == 0 && zt_rate_at(config, NULL, 0, 1).lr == 0);
    check_near(zt_rate_at(config, NULL, 0, 2).lr, 1e-5 * log(2) / log(1000), "lr", 0, 2);
    check_near(zt_rate_at(config, NULL, 0, 1001).lr, 1e-5, "lr", 0, 1001);
    zt_config_destroy(config);
}
END_TEST

static double falling_height(const char *more) {
    struct zt_config *config = config_of(
        "\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0, \"cycle_max_lr\": 1, "
        "\"cycle_first_step_size\": 10, \"cycle_first_stair_count\": 5%s}}",
        more);
    double height = zt_rate_at(config, NULL, 0, 11).lr; /* nine of ten updates above the end: stair 4 of 5 */
    zt_config_destroy(config);
    return height;
}

START_TEST(a_cycle_of_torch_may_be_longer_than_any_run) {
    struct zt_config *config = config_of(
        "\"optimizer\": {\"type\": \"Adam\"}, \"scheduler\": {\"type\": \"OneCycleLR\", \"params\": "
        "{\"max_lr\": 1, \"epochs\": %s, \"steps_per_epoch\": 1099511627776}}",
        "1099511627776");
    ck_assert_int_eq(config->scheduler.total_num_steps, INT64_MAX);
    zt_config_destroy(config);
}
END_TEST

/* max_lr, its 25th at the start, and behind the end the last rate; cycle_momentum false leaves the betas. */
START_TEST(a_cycle_of_torch_has_the_steps_of_the_run) {
    struct zt_config *config = config_of(
        "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.5}}, \"scheduler\": {\"type\": \"OneCycleLR\", "
        "\"params\": {\"max_lr\": \"auto\", \"cycle_momentum\": false, \"epochs\": 3}}");
    ck_assert_int_eq(config->scheduler.total_num_steps, 0);
    ck_assert(
        config->without_effect.count == 1 &&
        strstr(config->without_effect.at[0], "scheduler.params.epochs = 3 (read with epochs and steps_per_epoch"));
    config->scheduler.total_num_steps = 20;
    check_near(zt_rate_at(config, NULL, 0, 0).lr, 0.02, "lr", 0, 0);
    check_near(zt_rate_at(config, NULL, 0, 5).lr, 0.5, "lr", 0, 5);
    check_near(zt_rate_at(config, NULL, 0, 19).lr, 2e-6, "lr", 0, 19);
    check_near(zt_rate_at(config, NULL, 0, 500).lr, 2e-6, "lr", 0, 500);
    ck_assert(zt_rate_at(config, NULL, 0, 5).beta1 == 0.9 && !config->optimizer.momentum_moves);
    zt_config_destroy(config);
}
END_TEST

START_TEST(falling_stairs_are_those_of_the_rise_unless_they_are_given) {
    check_near(falling_height(""), 0.8, "lr", 0, 11);
    check_near(falling_height(", \"cycle_second_stair_count\": \"auto\""), 0.8, "lr", 1, 11);
    check_near(falling_height(", \"cycle_second_stair_count\": 0"), 0.9, "lr", 2, 11);
    check_near(falling_height(", \"cycle_second_stair_count\": 2"), 0.5, "lr", 3, 11);
}
END_TEST

static struct zt_config *scheduled(const char *const rule[3], const char *value) {
    char params[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(params, sizeof params, rule[1], value);
#pragma GCC diagnostic pop
    return config_of(
        "\"optimizer\": {\"type\": \"Adam\"}, \"scheduler\": {\"type\": \"%s\", \"params\": {%s}}, "
        "\"ztrain\": {\"param_groups\": [{\"match\": \"*.bias\"}, {\"match\": \"head.*\"}]}",
        rule[0], params);
}

/* A list has the values of the groups' own schedules; numbers beside it are those of all groups. */
START_TEST(a_list_gives_each_group_its_rates) {
    static const char *const rules[][3] = {
        { "WarmupLR", "\"warmup_min_lr\": %s, \"warmup_max_lr\": 1, \"warmup_num_steps\": 8",
          "[0.25, 0, 0.5]|0.25|0|0.5" },
        { "WarmupDecayLR", "\"warmup_max_lr\": %s, \"warmup_num_steps\": 8, \"total_num_steps\": 20",
          "[1, 2, 3]|1|2|3" },
        { "LRRangeTest", "\"lr_range_test_min_lr\": %s, \"lr_range_test_step_size\": 3",
          "[0.1, 0.2, 0.3]|0.1|0.2|0.3" },
        { "OneCycle", "\"cycle_min_lr\": 0, \"cycle_max_lr\": %s, \"cycle_first_step_size\": 7, \"decay_step_size\": 2",
          "[1, 2, 3]|1|2|3" },
        { "OneCycle", "\"cycle_min_lr\": 0, \"cycle_max_lr\": 1, \"cycle_min_mom\": %s, \"cycle_first_step_size\": 7",
          "[0.5, 0.6, 0.7]|0.5|0.6|0.7" },
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        char values[64], *rest = NULL;
        snprintf(values, sizeof values, "%s", rules[i][2]);
        struct zt_config *list = scheduled(rules[i], strtok_r(values, "|", &rest));
        ck_assert(zt_lr_by_group(list));
        for (int group = 0; group < 3; group++) {
            struct zt_config *one = scheduled(rules[i], strtok_r(NULL, "|", &rest));
            ck_assert(!zt_lr_by_group(one));
            for (int update = 0; update < 25; update++) {
                const struct zt_rate found = zt_rate_at(list, NULL, group, update);
                const struct zt_rate wanted = zt_rate_at(one, NULL, group, update);
                ck_assert(found.lr == wanted.lr && found.beta1 == wanted.beta1 && found.beta2 == wanted.beta2);
            }
            zt_config_destroy(one);
        }
        zt_config_destroy(list);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("lr");
    tcase_add_test(cases, every_schedule_gives_the_rates_of_deepspeed);
    tcase_add_test(cases, every_schedule_gives_the_rates_of_torch);
    tcase_add_test(cases, a_plateau_lowers_the_rate);
    tcase_add_test(cases, a_loss_that_is_no_number_is_no_better_one);
    tcase_add_test(cases, a_plateau_lowers_the_rate_of_each_group);
    tcase_add_test(cases, a_plateau_goes_on_from_a_checkpoint);
    tcase_add_test(cases, a_schedule_continues_behind_the_last_update);
    tcase_add_test(cases, a_cycle_may_be_longer_than_any_run);
    tcase_add_test(cases, without_a_scheduler_the_optimizers_own_rate_holds);
    tcase_add_test(cases, rules_are_found_whatever_the_case);
    tcase_add_test(cases, warmup_runs_one_update_late);
    tcase_add_test(cases, a_cycle_of_torch_may_be_longer_than_any_run);
    tcase_add_test(cases, a_cycle_of_torch_has_the_steps_of_the_run);
    tcase_add_test(cases, falling_stairs_are_those_of_the_rise_unless_they_are_given);
    tcase_add_test(cases, a_list_gives_each_group_its_rates);
    return test_run("lr", cases);
}
