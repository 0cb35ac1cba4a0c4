/* Optimizers against 20-step trajectories written from the formulas in float64 (optimizers.json and, by make_tables.py,
 * optimizers-torch.json of tests/reference/tables), and what the header promises about cutting slices. */
#include "config_of.h"
#include "optim/one_bit/trust.h"
#include "optim/types/types.h"
#include "optim/step.h"
#include "tables.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ELEMENTS = 64, CUT = 3 * 4096 + 77, STEPS = 4 };

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
    float p[ELEMENTS], average[ELEMENTS], state[ZT_OPTIM_STATES][ELEMENTS];
};

/* The tensor as a matrix, updated in two pieces. */
static void apply_matrix(const struct zt_optimizer *row, const struct zt_update *u, float *p, const float *g,
                         float *const state[], int64_t count) {
    const struct zt_matrix_optimizer *m = row->matrix;
    const int method = m->method(u->config), cut = (int)count / 3;
    _Alignas(64) static float direction[ELEMENTS], room[16 * ELEMENTS];
    union zt_coefficients c;
    row->prepare(u, &c);
    ck_assert(m->room(method, &u->matrix) <= 16 * ELEMENTS);
    m->direct(&c, g, state, direction, cut);
    m->direct(&c, g + cut, (float *const[]){ state[0] + cut, state[1] + cut }, direction + cut, count - cut);
    const float *update = m->orthogonalise(method, &u->matrix, direction, room, &zt_matrix_plain);
    m->apply(&c, p, update, cut);
    m->apply(&c, p + cut, update + cut, count - cut);
}

static void apply(const struct zt_optimizer *row, const struct zt_update *u, float *p, float *g, float *const state[],
                  int64_t count) {
    double ratio = 1, norms[2] = { 0 };
    union zt_coefficients c;
    if (u->matrix.rows) {
        apply_matrix(row, u, p, g, state, count);
        return;
    }
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

/* The tensor as the optimizer takes it: a matrix where it has two axes or more. */
static struct zt_matrix matrix_of(const struct zt_optimizer *row, const cJSON *table, const char *name) {
    const cJSON *shape = cJSON_GetObjectItem(cJSON_GetObjectItem(table, "shapes"), name), *dim;
    struct zt_matrix m = { .columns = 1 };
    if (!row->matrix || cJSON_GetArraySize(shape) < 2 || !row->matrix->takes(name))
        return (struct zt_matrix){ 0 };
    m.rows = shape->child->valueint;
    for (dim = shape->child->next; dim; dim = dim->next)
        m.columns *= dim->valueint;
    return m;
}

/* The largest error of `got` against `want`, relative to each number or a tenth of the largest one. */
static double error_of(const float *got, const cJSON *want) {
    double x[ELEMENTS], scale = 0, worst = 0;
    int n = flatten(want, x);
    for (int i = 0; i < n; i++)
        scale = fmax(scale, fabs(x[i]));
    for (int i = 0; i < n; i++)
        worst = fmax(worst, fabs(got[i] - x[i]) / fmax(fabs(x[i]), 0.1 * scale));
    return worst;
}

/* The largest error of one tensor of one run over all steps, and of its average; gradients come in scaled by 8. */
static double worst_error(const cJSON *table, const cJSON *run, const char *name) {
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(run, "optimizer"));
    struct zt_config *whole = config_of("\"optimizer\": %s", text);
    const struct zt_optimizer_config *config = &whole->optimizer;
    const struct zt_optimizer *row = zt_optimizer_find(config->type);
    struct tensor t = { 0 };
    float *state[ZT_OPTIM_STATES] = { t.state[0], t.state[1], t.state[2] };
    double x[ELEMENTS], worst = 0;
    const struct zt_matrix matrix = matrix_of(row, table, name);
    const double lr = row->rate ? row->rate(config, matrix.rows > 0) : config->lr;
    const cJSON *decay = cJSON_GetObjectItem(run, "average");
    int n = flatten(cJSON_GetObjectItem(cJSON_GetObjectItem(table, "params0"), name), x), step = 1;
    for (int i = 0; i < n; i++)
        t.p[i] = t.average[i] = (float)x[i];
    const cJSON *grads, *want = cJSON_GetObjectItem(run, "trajectory")->child;
    cJSON_ArrayForEach(grads, cJSON_GetObjectItem(table, "grads")) {
        float g[ELEMENTS];
        flatten(cJSON_GetObjectItem(grads, name), x);
        for (int i = 0; i < n; i++)
            g[i] = (float)x[i] * 8;
        struct zt_update u = { config, lr, config->weight_decay, config->beta1, config->beta2, step++, 0.125, matrix };
        apply(row, &u, t.p, g, state, n);
        if (decay)
            zt_average(decay->valuedouble, t.p, t.average, n);
        worst = fmax(worst, error_of(t.p, cJSON_GetObjectItem(want, name)));
        want = want->next;
    }
    if (decay)
        worst = fmax(worst, error_of(t.average, cJSON_GetObjectItem(cJSON_GetObjectItem(run, "averages"), name)));
    ck_assert_int_eq(step, 21);
    zt_config_destroy(whole);
    free(text);
    return worst;
}

/* Runs of the table, all but those of optimizers that are not there. */
static int follow(const char *name) {
    cJSON *table = test_table(name);
    const cJSON *run, *tensor;
    int runs = 0;
    cJSON_ArrayForEach(run, cJSON_GetObjectItem(table, "runs")) {
        const char *type = cJSON_GetObjectItem(cJSON_GetObjectItem(run, "optimizer"), "type")->valuestring;
        if (!zt_optimizer_find(type))
            continue;
        cJSON_ArrayForEach(tensor, cJSON_GetObjectItem(table, "params0")) {
            double error = worst_error(table, run, tensor->string);
            ck_assert_msg(error < 1e-5, "%s: relative error %g of %s", cJSON_GetObjectItem(run, "name")->valuestring,
                          error, tensor->string);
        }
        runs++;
    }
    cJSON_Delete(table);
    return runs;
}

START_TEST(every_optimizer_follows_the_reference_trajectory) {
    ck_assert_int_eq(follow("optimizers.json"), 17);
    ck_assert_int_eq(follow("optimizers-torch.json"), 8);
}
END_TEST

START_TEST(optimizer_names_ignore_case_and_unknown_ones_have_no_row) {
    ck_assert_str_eq(zt_optimizer_find("adamw")->type.name, "AdamW");
    ck_assert_str_eq(zt_optimizer_find("LAMB")->type.name, "Lamb");
    ck_assert_ptr_null(zt_optimizer_find("Adamm"));
}
END_TEST

START_TEST(other_names_stand_for_the_same_optimizer) {
    static const struct {
        const char *name, *type;
    } names[] = { { "FusedAdam", "Adam" },
                  { "deepspeedcpuadam", "Adam" },
                  { "FusedLamb", "Lamb" },
                  { "FusedLion", "Lion" },
                  { "DeepSpeedCPUAdagrad", "Adagrad" } };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct zt_config *config = config_of("\"optimizer\": {\"type\": \"%s\"}", names[i].name);
        ck_assert_str_eq(config->optimizer.type, names[i].type);
        zt_config_destroy(config);
    }
}
END_TEST

static bool has_key(const struct zt_key_owner *type, const char *key) {
    const struct zt_key_row *row = type->keys;
    while (row->key && strcmp(row->key, key) != 0)
        row++;
    return row->key != NULL;
}

/* Every key of every optimizer with every other one. */
START_TEST(keys_that_a_type_does_not_read_are_refused_by_name) {
    int refused = 0;
    for (int t = 0; zt_optimizer_types[t]; t++)
        for (int o = 0; zt_optimizer_types[o]; o++)
            for (const struct zt_key_row *row = zt_optimizer_types[o]->keys; row->key; row++) {
                const struct zt_key_owner *type = zt_optimizer_types[t];
                const char *leaf = strrchr(row->key, '.') + 1;
                struct zt_err err = { 0 };
                char members[256], wanted[128];
                snprintf(members, sizeof members, "\"optimizer\": {\"type\": \"%s\", \"params\": {\"%s\": null}}",
                         type->name, leaf);
                snprintf(wanted, sizeof wanted, "optimizer.params.%s: unknown key: %s has no such parameter", leaf,
                         type->name);
                struct zt_config *config = config_read(members, &err);
                ck_assert_msg((config != NULL) == has_key(type, row->key), "%s", members);
                ck_assert_msg(config || strstr(err.text[0], wanted), "%s", err.text[0]);
                refused += !config;
                zt_config_destroy(config);
            }
    ck_assert_int_gt(refused, 100);
}
END_TEST

START_TEST(torch_adam_decays_as_torch_where_nothing_is_given) {
    static const struct {
        const char *params;
        double decay;
    } cases[] = {
        { "\"torch_adam\": true", 0.01 },
        { "\"torch_adam\": true, \"adam_w_mode\": false", 0 },
        { "\"torch_adam\": true, \"weight_decay\": 0", 0 },
        { "\"torch_adam\": true, \"weight_decay\": \"auto\"", 0 },
        { "\"torch_adam\": false", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zt_config *config = config_of("\"optimizer\": {\"type\": \"Adam\", \"params\": {%s}}", cases[i].params);
        ck_assert_msg(config->optimizer.weight_decay == cases[i].decay, "%s: %g", cases[i].params,
                      config->optimizer.weight_decay);
        zt_config_destroy(config);
    }
    struct zt_config *config =
        config_of("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"torch_adam\": true, \"adam_w_mode\": false}}");
    ck_assert(config->optimizer.weight_decay == 0.01);
    zt_config_destroy(config);
}
END_TEST

/* [outputs, inputs] as PyTorch has it, [inputs, outputs] as a MatMul has it: the transposed update. */
START_TEST(a_matrix_with_its_inputs_first_gets_the_transposed_update) {
    const struct zt_optimizer *muon = zt_optimizer_find("Muon");
    struct zt_config *config = config_of("\"optimizer\": {\"type\": \"Muon\"}");
    float p[2][32] = { { 0 } }, g[2][32], b[2][32] = { { 0 } }, v[32] = { 0 };
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++)
            g[0][4 * i + j] = g[1][8 * j + i] = sinf((float)(7 * i + 3 * j * j));
    for (int way = 0; way < 2; way++) {
        struct zt_update u = { &config->optimizer,
                               0.02,
                               0,
                               0.9,
                               0.95,
                               1,
                               1,
                               { .rows = way ? 4 : 8, .columns = way ? 8 : 4, .inputs_first = way } };
        apply(muon, &u, p[way], g[way], (float *const[]){ b[way], v }, 32);
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++)
            ck_assert(fabsf(p[0][4 * i + j] - p[1][8 * j + i]) < 1e-7f && p[0][4 * i + j] != 0);
    zt_config_destroy(config);
}
END_TEST

START_TEST(muon_leaves_token_tables_and_heads_to_adam) {
    const struct zt_matrix_optimizer *m = zt_optimizer_find("Muon")->matrix;
    ck_assert(m->takes("blocks.0.attn.weight") && m->takes("conv1.weight"));
    ck_assert(!m->takes("transformer.Embed_tokens.weight") && !m->takes("lm_head.weight"));
}
END_TEST

START_TEST(the_rates_of_muon_follow_lr_where_it_is_given) {
    static const struct {
        const char *params;
        double lr, muon, adam;
    } cases[] = {
        { "", 0.02, 0.02, 3e-4 },
        { "\"lr\": 0.01", 0.01, 0.01, 0.01 },
        { "\"lr\": 0.01, \"adam_lr\": 0.001", 0.01, 0.01, 0.001 },
        { "\"muon_lr\": 0.05", 0.05, 0.05, 3e-4 },
        { "\"lr\": 0, \"muon_lr\": 0.05", 0.05, 0.05, 0 },
        { "\"lr\": 0, \"adam_lr\": 0.05", 0.05, 0, 0.05 },
    };
    const struct zt_optimizer *muon = zt_optimizer_find("Muon");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zt_config *config = config_of("\"optimizer\": {\"type\": \"Muon\", \"params\": {%s}}", cases[i].params);
        const struct zt_optimizer_config *o = &config->optimizer;
        ck_assert(o->lr == cases[i].lr && muon->rate(o, true) == cases[i].muon &&
                  muon->rate(o, false) == cases[i].adam);
        zt_config_destroy(config);
    }
}
END_TEST

/* A schedule gives the momentum, whatever the config has; at 0 PyTorch leaves the buffer. */
START_TEST(a_momentum_that_a_schedule_moves_is_that_of_the_update) {
    static const struct {
        const char *type, *params;
        double wanted; /* weight, from 0, after gradients of 1 and lr 1 with the momenta 0.5, 0.75, 0 and 0.25 */
    } cases[] = {
        { "SGD", "", -(1 + (0.75 + 1) + 1 + (0.25 * 1.75 + 1)) },
        { "SGD", "\"momentum\": 0.9, \"nesterov\": true",
          -(1 + 0.5 + (1 + 0.75 * (0.75 + 1)) + 1 + (1 + 0.25 * (0.25 * 1.75 + 1))) },
        { "RMSprop", "\"alpha\": 0, \"eps\": 0", -(1 + (0.75 + 1) + 1 + (0.25 * 1.75 + 1)) },
        { "RMSprop", "\"alpha\": 0, \"eps\": 0, \"momentum\": 0.9", -(1 + (0.75 + 1) + 1 + (0.25 * 1.75 + 1)) },
    };
    static const double momenta[] = { 0.5, 0.75, 0, 0.25 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_config *config = config_of(
            "\"optimizer\": {\"type\": \"%s\", \"params\": {%s}}, \"scheduler\": {\"type\": \"CyclicLR\", "
            "\"params\": {\"base_lr\": 1, \"max_lr\": 1}}",
            cases[i].type, cases[i].params);
        const struct zt_optimizer *row = zt_optimizer_find(cases[i].type);
        const int states = row->states_used(&config->optimizer);
        float p = 0, s[2] = { 0 };
        ck_assert_int_eq(states, strcmp(cases[i].type, "SGD") == 0 ? 1 : 2);
        for (int step = 0; step < 4; step++) {
            struct zt_update u = {
                .config = &config->optimizer, .lr = 1, .step = step + 1, .grad_scale = 1, .momentum = momenta[step]
            };
            apply(row, &u, &p, &(float){ 1 }, (float *const[]){ &s[0], &s[1] }, 1);
        }
        ck_assert_msg((double)p == cases[i].wanted, "%s {%s}: %.9g, wants %.9g", cases[i].type, cases[i].params,
                      (double)p, cases[i].wanted);
        zt_config_destroy(config);
    }
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

/* Under the sanitizers: nothing is added to it. */
START_TEST(a_variance_that_never_freezes_is_shared_at_any_update) {
    struct zt_config *config = config_of(
        "\"optimizer\": {\"type\": \"ZeroOneAdam\", \"params\": {\"var_freeze_step\": %s}}", "9223372036854775807");
    const struct zt_sharing s = zt_optimizer_find("ZeroOneAdam")->one_bit->sharing(&config->optimizer, 1000);
    ck_assert(!s.clears && !s.apart);
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
        struct zt_update u = { config, 0.01, 0.1, 0.9, 0.99, step, 0.3, { 0 }, 0.02, 2 };
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
        struct zt_update u = { &config->optimizer, 0.01, 0, 0.9, 0.99, 1, 1, { 0 }, 0, 0 };
        apply(zt_optimizers[k], &u, p, g, state, 1);
        zt_config_destroy(config);
        ck_assert_msg(isnan(p[0]), "%s swallows a NaN", zt_optimizers[k]->type.name);
    }
}
END_TEST

START_TEST(lion_does_not_move_where_nothing_pulls) {
    float p[2] = { 1, 1 }, g[2] = { 0, -0.0f }, m[2] = { 0 };
    float *const state[] = { m, NULL, NULL };
    struct zt_update u = { NULL, 0.01, 0, 0.9, 0.99, 1, 1, { 0 } };
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
    struct zt_update u = { &config->optimizer, 1, 0, 0, 0, 1, 1, { 0 } };
    apply(zt_optimizer_find("Adagrad"), &u, p, g, state, 1);
    ck_assert(v[0] == 4 && p[0] == -0.5f);
    zt_config_destroy(config);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("optim");
    tcase_add_test(cases, every_optimizer_follows_the_reference_trajectory);
    tcase_add_test(cases, optimizer_names_ignore_case_and_unknown_ones_have_no_row);
    tcase_add_test(cases, other_names_stand_for_the_same_optimizer);
    tcase_add_test(cases, keys_that_a_type_does_not_read_are_refused_by_name);
    tcase_add_test(cases, torch_adam_decays_as_torch_where_nothing_is_given);
    tcase_add_test(cases, a_matrix_with_its_inputs_first_gets_the_transposed_update);
    tcase_add_test(cases, muon_leaves_token_tables_and_heads_to_adam);
    tcase_add_test(cases, the_rates_of_muon_follow_lr_where_it_is_given);
    tcase_add_test(cases, a_momentum_that_a_schedule_moves_is_that_of_the_update);
    tcase_add_test(cases, a_variance_that_never_freezes_is_shared_at_any_update);
    tcase_add_test(cases, sgd_without_momentum_needs_no_state);
    tcase_add_test(cases, cutting_a_slice_anywhere_leaves_the_bits);
    tcase_add_test(cases, a_nan_gradient_reaches_the_weight);
    tcase_add_test(cases, lion_does_not_move_where_nothing_pulls);
    tcase_add_test(cases, lamb_trust_ratio_is_one_where_a_norm_is_zero);
    tcase_add_test(cases, adagrad_starts_from_its_initial_accumulator);
    return test_run("optim", cases);
}
