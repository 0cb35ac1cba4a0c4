/* Optimizers against 20-step trajectories written from the formulas in float64
 * (tests/reference/tables/optimizers.json), and what the header promises about cutting slices. */
#include "config_of.h"
#include "optim/one_bit/trust.h"
#include "optim/types/types.h"
#include "optim/step.h"
#include "tables.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ELEMENTS = 32, CUT = 3 * 4096 + 77, STEPS = 4 };

/* Flattens nested arrays of numbers. */
static int flatten(const cJSON *array, double *to) {
    if (cJSON_IsNumber(array)) {
        to[0] = array->valuedouble;
        return 1;
    }
    int n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array) n += flatten(item, to + n);
    return n;
}

struct tensor {
    float p[ELEMENTS], state[ZT_OPTIM_STATES][ELEMENTS];
};

static void apply(const struct zt_optimizer *row, const struct zt_update *u, float *p, float *g, float *const state[],
                  int64_t count) {
    double ratio = 1, norms[2] = { 0 };
    union zt_coefficients c;
    row->prepare(u, &c);
    if (row->norms) {
        row->norms(&c, p, g, state, count, norms);
        ratio = row->ratio(&c, norms);
    }
    struct zt_trust trust = { 0 };
    struct zt_trust_norms sums = { 0 };
    const struct zt_slice slice = { p, g, state, count, &trust };
    if (row->one_bit)
        row->one_bit->pack(&c, &slice);
    if (row->one_bit && row->one_bit->norms) {
        row->one_bit->norms(&c, &slice, &sums);
        row->one_bit->trust(&c, &sums, &trust);
        ratio = (double)trust.ratio;
    }
    row->update(&c, ratio, p, g, state, count);
}

/* The largest relative error of one tensor of one run over all steps; gradients come in scaled by 8. */
static double worst_error(const cJSON *table, const cJSON *run, const char *name) {
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(run, "optimizer"));
    struct zt_config *whole = config_of("\"optimizer\": %s", text);
    const struct zt_optimizer_config *config = &whole->optimizer;
    const struct zt_optimizer *row = zt_optimizer_find(config->type);
    struct tensor t = { 0 };
    float *state[ZT_OPTIM_STATES] = { t.state[0], t.state[1], t.state[2] };
    double x[ELEMENTS], worst = 0;
    int n = flatten(cJSON_GetObjectItem(cJSON_GetObjectItem(table, "params0"), name), x), step = 1;
    for (int i = 0; i < n; i++)
        t.p[i] = (float)x[i];
    const cJSON *grads, *want = cJSON_GetObjectItem(run, "trajectory")->child;
    cJSON_ArrayForEach(grads, cJSON_GetObjectItem(table, "grads")) {
        float g[ELEMENTS];
        flatten(cJSON_GetObjectItem(grads, name), x);
        for (int i = 0; i < n; i++)
            g[i] = (float)x[i] * 8;
        struct zt_update u = { config, config->lr, config->weight_decay, config->beta1, config->beta2, step++, 0.125 };
        apply(row, &u, t.p, g, state, n);
        double scale = 0;
        flatten(cJSON_GetObjectItem(want, name), x);
        for (int i = 0; i < n; i++)
            scale = fmax(scale, fabs(x[i]));
        for (int i = 0; i < n; i++)
            worst = fmax(worst, fabs(t.p[i] - x[i]) / fmax(fabs(x[i]), 0.1 * scale));
        want = want->next;
    }
    ck_assert_int_eq(step, 21);
    zt_config_destroy(whole);
    free(text);
    return worst;
}

START_TEST(every_optimizer_follows_the_reference_trajectory) {
    cJSON *table = test_table("optimizers.json");
    const cJSON *run;
    int runs = 0;
    cJSON_ArrayForEach(run, cJSON_GetObjectItem(table, "runs")) {
        const char *type = cJSON_GetObjectItem(cJSON_GetObjectItem(run, "optimizer"), "type")->valuestring;
        if (!zt_optimizer_find(type))
            continue;
        double a = worst_error(table, run, "a"), b = worst_error(table, run, "b");
        ck_assert_msg(a < 1e-5 && b < 1e-5, "%s: relative error %g and %g",
                      cJSON_GetObjectItem(run, "name")->valuestring, a, b);
        runs++;
    }
    ck_assert_int_eq(runs, 16);
    cJSON_Delete(table);
}
END_TEST

START_TEST(optimizer_names_ignore_case_and_unknown_ones_have_no_row) {
    ck_assert_str_eq(zt_optimizer_find("adamw")->type.name, "AdamW");
    ck_assert_str_eq(zt_optimizer_find("LAMB")->type.name, "Lamb");
    ck_assert_ptr_null(zt_optimizer_find("Adamm"));
}
END_TEST

START_TEST(sgd_without_momentum_needs_no_state) {
    const struct zt_optimizer *sgd = zt_optimizer_find("SGD");
    struct zt_config *config = config_of("\"optimizer\": {\"type\": \"SGD\"}");
    ck_assert_int_eq(sgd->states_used(&config->optimizer), 0);
    zt_config_destroy(config);
    config = config_of("\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.9}}");
    ck_assert_int_eq(sgd->states_used(&config->optimizer), 1);
    zt_config_destroy(config);
}
END_TEST

/* Values without a pattern, different for every element and stream. */
static float noise(int stream, int64_t i) {
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)stream * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(int32_t)x * 0x1p-31f;
}

static const int64_t cuts[] = { 1, 2, 7, 8, 9, 31, 4096, 8192, 8193 + 64, CUT };

/* The optimizer with its defaults, but for the momentum of SGD; 1-bit optimizers come to all kinds of updates. */
static struct zt_config *usual(const struct zt_optimizer *row) {
    const char *own = strcmp(row->type.name, "SGD") == 0           ? "\"momentum\": 0.9"
                      : strcmp(row->type.name, "ZeroOneAdam") == 0 ? "\"var_freeze_step\": 2, \"local_step_scaler\": 1"
                      : row->one_bit                               ? "\"freeze_step\": 2"
                                                                   : "";
    return config_of("\"optimizer\": {\"type\": \"%s\", \"params\": {%s}}", row->type.name, own);
}

static void run_cut(const struct zt_optimizer *row, const struct zt_optimizer_config *config, float *block, bool cut) {
    static float g[CUT];
    float *p = block;
    for (int64_t i = 0; i < CUT; i++)
        p[i] = noise(0, i);
    memset(block + CUT, 0, sizeof(float) * CUT * ZT_OPTIM_STATES);
    for (int step = 1; step <= STEPS; step++) {
        struct zt_update u = { config, 0.01, 0.1, 0.9, 0.99, step, 0.3, 0.02, 2 };
        union zt_coefficients coefficients;
        row->prepare(&u, &coefficients);
        for (int64_t i = 0; i < CUT; i++)
            g[i] = noise(step, i);
        int64_t at = 0;
        for (int c = 0; c < (int)(sizeof cuts / sizeof *cuts); c++) {
            int64_t end = cut ? cuts[c] : CUT;
            float *const state[] = { block + CUT + at, block + 2 * CUT + at, block + 3 * CUT + at };
            double norms[2] = { 0 };
            if (row->norms)
                row->norms(&coefficients, p + at, g + at, state, end - at, norms);
            const struct zt_trust trust = { .rms = 0.25f };
            const struct zt_slice slice = { p + at, g + at, state, end - at, &trust };
            if (row->one_bit)
                row->one_bit->pack(&coefficients, &slice);
            if (row->one_bit && row->one_bit->norms)
                row->one_bit->norms(&coefficients, &slice, &(struct zt_trust_norms){ 0 });
            row->update(&coefficients, 0.7, p + at, g + at, state, end - at);
            at = end;
        }
    }
}

START_TEST(cutting_a_slice_anywhere_leaves_the_bits) {
    static float whole[(1 + ZT_OPTIM_STATES) * CUT], pieces[(1 + ZT_OPTIM_STATES) * CUT];
    for (int k = 0; zt_optimizers[k]; k++) {
        struct zt_config *config = usual(zt_optimizers[k]);
        run_cut(zt_optimizers[k], &config->optimizer, whole, false);
        run_cut(zt_optimizers[k], &config->optimizer, pieces, true);
        zt_config_destroy(config);
        for (int64_t i = 0; i < (1 + ZT_OPTIM_STATES) * CUT; i++)
            ck_assert_msg(memcmp(&whole[i], &pieces[i], sizeof(float)) == 0, "%s: element %ld is %.9g, in pieces %.9g",
                          zt_optimizers[k]->type.name, (long)i, (double)whole[i], (double)pieces[i]);
    }
}
END_TEST

START_TEST(a_nan_gradient_reaches_the_weight) {
    for (int k = 0; zt_optimizers[k]; k++) {
        struct zt_config *config = usual(zt_optimizers[k]);
        float p[1] = { 1 }, g[1] = { NAN }, m[1] = { 0 }, v[1] = { 0 }, w[1] = { 0 };
        float *const state[] = { m, v, w };
        struct zt_update u = { &config->optimizer, 0.01, 0, 0.9, 0.99, 1, 1 };
        apply(zt_optimizers[k], &u, p, g, state, 1);
        zt_config_destroy(config);
        ck_assert_msg(isnan(p[0]), "%s swallows a NaN", zt_optimizers[k]->type.name);
    }
}
END_TEST

START_TEST(lion_does_not_move_where_nothing_pulls) {
    float p[2] = { 1, 1 }, g[2] = { 0, -0.0f }, m[2] = { 0 };
    float *const state[] = { m, NULL, NULL };
    struct zt_update u = { NULL, 0.01, 0, 0.9, 0.99, 1, 1 };
    apply(zt_optimizer_find("Lion"), &u, p, g, state, 2);
    ck_assert(p[0] == 1 && p[1] == 1);
}
END_TEST

START_TEST(lamb_trust_ratio_is_one_where_a_norm_is_zero) {
    const struct zt_optimizer *lamb = zt_optimizer_find("Lamb");
    struct zt_config *config = usual(lamb);
    struct zt_update u = { .config = &config->optimizer };
    union zt_coefficients c;
    lamb->prepare(&u, &c);
    ck_assert(lamb->ratio(&c, (double[]){ 0, 4 }) == 1);
    ck_assert(lamb->ratio(&c, (double[]){ 4, 0 }) == 1);
    ck_assert(lamb->ratio(&c, (double[]){ 16, 4 }) == 2);
    ck_assert(lamb->ratio(&c, (double[]){ 1e6, 1 }) == 10);
    zt_config_destroy(config);
}
END_TEST

START_TEST(adagrad_starts_from_its_initial_accumulator) {
    struct zt_config *config =
        config_of("\"optimizer\": {\"type\": \"Adagrad\", \"params\": {\"initial_accumulator_value\": 3, \"eps\": 0}}");
    float p[1] = { 0 }, g[1] = { 1 }, v[1] = { 0 };
    float *const state[] = { v, NULL, NULL };
    struct zt_update u = { &config->optimizer, 1, 0, 0, 0, 1, 1 };
    apply(zt_optimizer_find("Adagrad"), &u, p, g, state, 1);
    ck_assert(v[0] == 4 && p[0] == -0.5f);
    zt_config_destroy(config);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("optim");
    tcase_add_test(cases, every_optimizer_follows_the_reference_trajectory);
    tcase_add_test(cases, optimizer_names_ignore_case_and_unknown_ones_have_no_row);
    tcase_add_test(cases, sgd_without_momentum_needs_no_state);
    tcase_add_test(cases, cutting_a_slice_anywhere_leaves_the_bits);
    tcase_add_test(cases, a_nan_gradient_reaches_the_weight);
    tcase_add_test(cases, lion_does_not_move_where_nothing_pulls);
    tcase_add_test(cases, lamb_trust_ratio_is_one_where_a_norm_is_zero);
    tcase_add_test(cases, adagrad_starts_from_its_initial_accumulator);
    return test_run("optim", cases);
}
