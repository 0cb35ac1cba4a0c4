/* The kernels of the optimizer step and of many arrays, emulated, against the loops of the host: bit for bit, but for
 * what Lamb sums. */
#include "device/arrays_cuda.h"
#include "graph/ir/dtype.h"
#include "optim/one_bit/trust.h"
#include "optim/types/types.h"
#include "optim/step_cuda.h"
#include "tests/optim/config_of.h"
#include "tests/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, GROUPS = 2, PIECES = 3, COUNT = 3 * ZT_STEP_PART + 77, ALL = PIECES * COUNT };

struct slice {
    float p[ALL], g[ALL], state[ZT_OPTIM_STATES][ALL];
    struct zt_trust trust[2];
};

static const double group_lr[GROUPS] = { 1, 0.5 }, group_decay[GROUPS] = { 0.01, 0 };

/* Pieces 0 and 2 are of one tensor, 1 of another with values of its own. */
static int tensor_of(int piece) {
    return piece == 1;
}

static struct slice *make(void) {
    struct slice *s = calloc(1, sizeof *s);
    for (int i = 0; i < ALL; i++)
        s->p[i] = sinf((float)i) * 0.3f;
    return s;
}

static void fill_gradients(struct slice *s, int step) {
    for (int i = 0; i < ALL; i++)
        s->g[i] = i % 97 == 0 ? 0 : cosf((float)(i + 31 * step)) * (tensor_of(i / COUNT) ? 0.01f : 1.0f);
}

static struct zt_update update_of(const struct zt_optimizer_config *c, int64_t update, int group) {
    return (struct zt_update){ .config = c,
                               .lr = 0.01 * (double)(update + 1) * group_lr[group],
                               .weight_decay = group_decay[group],
                               .beta1 = 0.9,
                               .beta2 = 0.99,
                               .step = update + 1,
                               .grad_scale = 0.25,
                               .lr_sum = 0.05 * (double)(update + 1) * group_lr[group],
                               .ranks = 2 };
}

static void prepare_on_host(const struct zt_optimizer *row, const struct zt_optimizer_config *c, int64_t update,
                            struct slice *s) {
    struct zt_trust_norms norms[2] = { { 0 } };
    union zt_coefficients own[2];
    for (int k = 0; k < PIECES; k++) {
        const int at = k * COUNT, t = tensor_of(k);
        const struct zt_update u = update_of(c, update, t);
        float *state[] = { s->state[0] + at, s->state[1] + at, s->state[2] + at };
        const struct zt_slice slice = { s->p + at, s->g + at, state, COUNT, &s->trust[t] };
        row->prepare(&u, &own[t]);
        row->one_bit->pack(&own[t], &slice);
        if (row->one_bit->norms)
            row->one_bit->norms(&own[t], &slice, &norms[t]);
    }
    for (int t = 0; t < 2 && row->one_bit->norms; t++)
        row->one_bit->trust(&own[t], &norms[t], &s->trust[t]);
}

static void step_on_host(const struct zt_optimizer *row, const struct zt_optimizer_config *c, int64_t update,
                         struct slice *s) {
    double norms[2][2] = { { 0 } }, ratio[2] = { 1, 1 };
    if (row->one_bit)
        prepare_on_host(row, c, update, s);
    for (int t = 0; t < 2 && row->one_bit && row->one_bit->norms; t++)
        ratio[t] = (double)s->trust[t].ratio;
    for (int pass = row->norms ? 0 : 1; pass < 2; pass++)
        for (int k = 0; k < PIECES; k++) {
            int at = k * COUNT, t = tensor_of(k);
            struct zt_update u = update_of(c, update, t);
            union zt_coefficients own;
            row->prepare(&u, &own);
            float *state[] = { s->state[0] + at, s->state[1] + at, s->state[2] + at };
            if (pass == 0)
                row->norms(&own, s->p + at, s->g + at, state, COUNT, norms[t]);
            else if (row->norms)
                ratio[t] = row->ratio(&own, norms[t]);
            if (pass == 1)
                row->update(&own, ratio[t], s->p + at, s->g + at, state, COUNT);
        }
}

struct on_device {
    struct zt_step_state state;
    union zt_coefficients table[STEPS][GROUPS];
    struct zt_step_piece pieces[PIECES];
    double parts[ZT_STEP_NORMS * PIECES * ZT_STEP_PARTS], norms[4], ratios[2];
    struct zt_trust *trust;
};

static void set_up(const struct zt_optimizer *row, const struct zt_optimizer_config *c, struct slice *s,
                   struct on_device *d) {
    *d = (struct on_device){ .trust = s->trust,
                             .state = { .loss_scale = 1, .scale = 0.25f, .finite = 1, .updates = 3, .first = 3 } };
    for (int u = 0; u < STEPS; u++)
        for (int g = 0; g < GROUPS; g++) {
            struct zt_update update = update_of(c, u, g);
            update.grad_scale = 1;
            row->prepare(&update, &d->table[u][g]);
        }
    for (int k = 0; k < PIECES; k++) {
        int at = k * COUNT, states = row->states_used ? row->states_used(c) : row->states;
        d->pieces[k] = (struct zt_step_piece){ .param = s->p + at,
                                               .grad = s->g + at,
                                               .count = COUNT,
                                               .group = tensor_of(k),
                                               .tensor = tensor_of(k),
                                               .measured = 1 };
        for (int i = 0; i < states; i++)
            d->pieces[k].state[i] = s->state[i] + at;
    }
}

static void step_on_device(const struct zt_optimizer_cuda *k, struct on_device *d) {
    struct zt_step_call call = { .state = &d->state,
                                 .table = d->table[0],
                                 .pieces = d->pieces,
                                 .groups = GROUPS,
                                 .piece_count = PIECES,
                                 .tensor_count = 2,
                                 .parts = d->parts,
                                 .norms = d->norms,
                                 .ratios = d->ratios,
                                 .trust = d->trust };
    if (k->pack)
        ck_assert_int_eq(k->pack(NULL, &call), 0);
    if (k->norms)
        ck_assert_int_eq(k->norms(NULL, &call), 0);
    ck_assert_int_eq(k->update(NULL, &call), 0);
    d->state.updates += d->state.finite; /* as the next step's zt_step_clip does */
}

#define KERNELS(name) &zt_optimizer_cuda_##name,
static const struct zt_optimizer_cuda *const kernels[] = { ZT_OPTIMIZERS(KERNELS) };

/* Parameters that are not the defaults, two ways. */
static struct zt_config *config_for(int optimizer, bool plain) {
    static const char *const params[ZT_OPTIMIZER_COUNT][2] = {
        [ZT_OPTIMIZER_sgd] = { "\"momentum\": 0.9, \"nesterov\": true", "\"momentum\": 0" },
        [ZT_OPTIMIZER_adam] = { "\"adam_w_mode\": false", "\"adam_w_mode\": true" },
        [ZT_OPTIMIZER_lamb] = { "\"max_coeff\": 10", "\"eps_inside_sqrt\": true" },
        [ZT_OPTIMIZER_rmsprop] = { "\"momentum\": 0.9, \"centered\": true", "\"alpha\": 0.9" },
        [ZT_OPTIMIZER_adagrad] = { "\"initial_accumulator_value\": 0.1, \"lr_decay\": 0.1, \"eps\": 1e-8",
                                   "\"initial_accumulator_value\": 0.1" },
        /* plain: all kinds of updates; otherwise the first alone */
        [ZT_OPTIMIZER_one_bit_adam] = { "\"freeze_step\": 9", "\"freeze_step\": 2" },
        [ZT_OPTIMIZER_zero_one_adam] = { "\"var_freeze_step\": 4, \"var_update_scaler\": 1",
                                         "\"var_freeze_step\": 1, \"local_step_scaler\": 1" },
        [ZT_OPTIMIZER_one_bit_lamb] = { "\"freeze_step\": 9", "\"freeze_step\": 2" },
    };
    const char *own = params[optimizer][plain];
    return config_of("\"optimizer\": {\"type\": \"%s\", \"params\": {\"lr\": 0.01%s%s}}",
                     zt_optimizers[optimizer]->type.name, own ? ", " : "", own ? own : "");
}

static void compare(const struct zt_optimizer *row, const char *what, const float *got, const float *want) {
    for (int i = 0; i < ALL; i++) {
        const bool sums = row->norms || (row->one_bit && row->one_bit->norms);
        float tolerance = sums ? 1e-6f * fabsf(want[i]) : 0;
        ck_assert_msg(fabsf(got[i] - want[i]) <= tolerance, "%s: %s[%d] is %.9g, wants %.9g", row->type.name, what, i,
                      (double)got[i], (double)want[i]);
    }
}

START_TEST(kernels_step_as_the_host_does) {
    const int optimizer = _i % ZT_OPTIMIZER_COUNT;
    const struct zt_optimizer *row = zt_optimizers[optimizer];
    struct zt_config *config = config_for(optimizer, _i / ZT_OPTIMIZER_COUNT);
    struct slice *host = make(), *device = make();
    struct on_device d;
    set_up(row, &config->optimizer, device, &d);
    for (int step = 0; step < STEPS; step++) {
        fill_gradients(host, step);
        fill_gradients(device, step);
        step_on_host(row, &config->optimizer, step, host);
        step_on_device(kernels[optimizer], &d);
    }
    ck_assert_int_eq(d.state.updates, 3 + STEPS);
    compare(row, "p", device->p, host->p);
    compare(row, "g", device->g, host->g);
    for (int i = 0; i < row->states; i++)
        compare(row, row->state_names[i], device->state[i], host->state[i]);
    zt_config_destroy(config);
    free(host);
    free(device);
}
END_TEST

/* ---- matrices ---- */

enum { MATRIX = 150 * 70, MATRIX_ROOM = 10 * MATRIX };

struct matrix_slice {
    _Alignas(64) float direction[MATRIX], room[MATRIX_ROOM];
    float p[MATRIX], g[MATRIX], state[2][MATRIX];
};

static const struct zt_matrix matrices[] = {
    { .rows = 70, .columns = 150 },  { .rows = 150, .columns = 70 },
    { .rows = 100, .columns = 100 }, { .rows = 3, .columns = 700, .inputs_first = true },
    { .rows = 1, .columns = 1 },
};
enum { MATRICES = sizeof matrices / sizeof *matrices };

static struct matrix_slice *make_matrix(void) {
    struct matrix_slice *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    memset(s, 0, sizeof *s);
    for (int i = 0; i < MATRIX; i++)
        s->p[i] = sinf((float)i) * 0.3f;
    return s;
}

static void step_matrix_on_host(const struct zt_optimizer_config *c, int64_t update, const struct zt_matrix *m,
                                struct matrix_slice *s) {
    const struct zt_optimizer *muon = zt_optimizers[ZT_OPTIMIZER_muon];
    const struct zt_matrix_optimizer *row = muon->matrix;
    const int64_t count = m->rows * m->columns;
    struct zt_update u = update_of(c, update, 0);
    union zt_coefficients own;
    u.matrix = *m;
    muon->prepare(&u, &own);
    row->direct(&own, s->g, (float *const[]){ s->state[0], s->state[1] }, s->direction, count);
    row->apply(&own, s->p, row->orthogonalise(row->method(c), m, s->direction, s->room, &zt_matrix_plain), count);
}

/* Two pieces, of which the first ends within a part; they are the second and third of the call. */
static void step_matrix_on_device(const struct zt_optimizer_config *c, int64_t update, const struct zt_matrix *m,
                                  struct matrix_slice *s, const struct zt_step_state *state) {
    const struct zt_optimizer_cuda *k = &zt_optimizer_cuda_muon;
    const int64_t count = m->rows * m->columns, cut = count / 3;
    struct zt_step_piece pieces[3] = { { .matrix = 1 } };
    union zt_coefficients own;
    struct zt_update u = update_of(c, update, 0);
    u.matrix = *m;
    zt_optimizers[ZT_OPTIMIZER_muon]->prepare(&u, &own);
    for (int i = 0; i < 2; i++) {
        int64_t at = i ? cut : 0;
        pieces[1 + i] = (struct zt_step_piece){ .param = s->p + at,
                                                .grad = s->g + at,
                                                .state = { s->state[0] + at, s->state[1] + at },
                                                .count = i ? count - cut : cut,
                                                .matrix = 1,
                                                .at = at };
    }
    const struct zt_step_call call = { .state = state, .table = &own, .pieces = pieces, .groups = 1, .piece_count = 3 };
    const struct zt_step_matrix matrix = { .shape = *m,
                                           .method = zt_optimizers[ZT_OPTIMIZER_muon]->matrix->method(c),
                                           .first_piece = 1,
                                           .piece_count = 2,
                                           .direction = s->direction,
                                           .room = s->room };
    ck_assert_int_eq(k->update(NULL, &call), 0); /* leaves matrices alone */
    ck_assert_int_eq(k->direct(NULL, &call, &matrix), 0);
    ck_assert_int_eq(k->matrix(NULL, &call, &matrix), 0);
}

START_TEST(matrices_step_as_the_host_does) {
    const struct zt_matrix *m = &matrices[_i % MATRICES];
    struct zt_config *config = config_of("\"optimizer\": {\"type\": \"Muon\", \"params\": {\"ns_method\": \"%s\"}}",
                                         _i / MATRICES ? "standard" : "gram");
    struct matrix_slice *host = make_matrix(), *device = make_matrix();
    const int64_t count = m->rows * m->columns;
    struct zt_step_state state = { .loss_scale = 1, .scale = 0.25f, .finite = 1 };
    ck_assert(zt_optimizers[ZT_OPTIMIZER_muon]->matrix->room(_i / MATRICES, m) <= MATRIX_ROOM);
    for (int step = 0; step < 2; step++) {
        for (int64_t i = 0; i < count; i++)
            host->g[i] = device->g[i] = cosf((float)(i * (i % 5 + 1) + 31 * step));
        step_matrix_on_host(&config->optimizer, step, m, host);
        step_matrix_on_device(&config->optimizer, step, m, device, &state);
    }
    for (int64_t i = 0; i < count; i++) {
        ck_assert_msg(fabsf(host->p[i] - device->p[i]) <= 1e-6f, "p[%d] is %.9g, wants %.9g", (int)i,
                      (double)device->p[i], (double)host->p[i]);
        ck_assert(host->state[0][i] == device->state[0][i]);
    }
    ck_assert(device->p[0] != 0 || count == 1);
    const struct matrix_slice before = *device;
    state.finite = 0;
    step_matrix_on_device(&config->optimizer, STEPS, m, device, &state);
    ck_assert(memcmp(before.p, device->p, sizeof before.p) == 0 &&
              memcmp(before.state, device->state, sizeof before.state) == 0);
    zt_config_destroy(config);
    free(host);
    free(device);
}
END_TEST

START_TEST(averages_advance_and_change_places_with_the_weights) {
    static float p[2][COUNT], average[2][COUNT], wanted[COUNT];
    struct zt_step_state state = { .finite = 1 };
    struct zt_step_piece piece = { .param = p[0], .average = average[0], .count = COUNT };
    const struct zt_step_call call = { .state = &state, .pieces = &piece, .piece_count = 1 };
    for (int i = 0; i < COUNT; i++) {
        p[0][i] = p[1][i] = sinf((float)i);
        average[0][i] = average[1][i] = wanted[i] = cosf((float)i);
    }
    zt_average(0.9, p[1], wanted, COUNT);
    ck_assert_int_eq(zt_launch_average(NULL, &call, 0.9), 0);
    ck_assert(memcmp(average[0], wanted, sizeof wanted) == 0 && memcmp(p[0], p[1], sizeof p[0]) == 0);
    state.finite = 0; /* the step was left out */
    ck_assert_int_eq(zt_launch_average(NULL, &call, 0.9), 0);
    ck_assert(memcmp(average[0], wanted, sizeof wanted) == 0);
    ck_assert_int_eq(zt_launch_swap_average(NULL, &call), 0);
    ck_assert(memcmp(p[0], wanted, sizeof wanted) == 0 && memcmp(average[0], p[1], sizeof p[1]) == 0);
}
END_TEST

START_TEST(a_step_that_is_not_finite_is_left_out) {
    struct zt_config *config = config_for(_i, false);
    struct slice *before = make(), *device = make();
    struct on_device d;
    set_up(zt_optimizers[_i], &config->optimizer, device, &d);
    fill_gradients(before, 0);
    fill_gradients(device, 0);
    d.state.squares = NAN;
    ck_assert_int_eq(zt_launch_clip(NULL, &d.state, 1), 0);
    ck_assert_int_eq(d.state.finite, 0);
    ck_assert_int_eq(d.state.updates, 4); /* with the step before */
    step_on_device(kernels[_i], &d);
    ck_assert(memcmp(before, device, sizeof *before) == 0);
    ck_assert_int_eq(d.state.updates, 4);
    zt_config_destroy(config);
    free(before);
    free(device);
}
END_TEST

static unsigned arrived;

/* The state behind the norm of the slice in two launches; `last` as they have it. */
static struct zt_step_state find_norm(struct slice *s, struct zt_step_state state, struct zt_step_norm last) {
    static double parts[ZT_SQUARE_PARTS];
    struct zt_launch_step_norm first = { .of = { .state = &state },
                                         .count = 2,
                                         .at = { { s->g, 1 }, { s->g + 1, COUNT - 1 } },
                                         .parts = parts,
                                         .arrived = &arrived };
    struct zt_launch_step_norm rest = first;
    rest.of = last;
    rest.of.state = &state;
    rest.at[0] = (struct zt_floats){ s->g + COUNT, 0 };
    rest.at[1] = (struct zt_floats){ s->g + COUNT, ALL - COUNT };
    ck_assert(zt_launch_step_norm(NULL, &first) == 0 && zt_launch_step_norm(NULL, &rest) == 0 && arrived == 0);
    return state;
}

START_TEST(clipping_is_that_of_the_host) {
    static const double clips[] = { 0, 0.5, 2, 1e9 };
    const float loss = 4;
    const double samples = 2;
    struct slice *s = make();
    fill_gradients(s, 0);
    double norm = sqrt(zt_sum_squares(s->g, ALL));
    for (int i = 0; i < 4; i++) {
        const struct zt_step_state from = { .loss_scale = 1, .loss = 3, .updates = 5, .finite = i % 2 };
        const struct zt_step_norm last = { .loss = &loss, .samples = &samples, .clip = clips[i], .whole = true };
        struct zt_step_state state = find_norm(s, from, last);
        ck_assert_double_eq_tol(state.norm, norm, 1e-12 * norm);
        ck_assert(state.finite && fabs((double)state.scale - zt_clip_factor(norm, clips[i])) <= 1e-7);
        ck_assert(state.total == 11 && state.loss == 0 && state.squares == 0 && state.updates == 5 + i % 2);
    }
    free(s);
}
END_TEST

/* With other ranks, loss and squares wait for theirs; the bits are the same in any order of the blocks. */
START_TEST(the_norm_of_several_ranks_is_not_found_yet) {
    const struct zt_step_state from = { .loss_scale = 1, .loss = 3, .updates = 5, .finite = 1 };
    struct slice *s = make();
    fill_gradients(s, 1);
    struct zt_step_state state = find_norm(s, from, (struct zt_step_norm){ 0 });
    setenv("ZT_EMULATED_BACKWARDS", "1", 1);
    struct zt_step_state backwards = find_norm(s, from, (struct zt_step_norm){ 0 });
    unsetenv("ZT_EMULATED_BACKWARDS");
    ck_assert(state.loss == 3 && state.updates == 5 && state.norm == 0 && state.squares == backwards.squares);
    ck_assert_double_eq_tol(state.squares, zt_sum_squares(s->g, ALL), 1e-12 * state.squares);
    free(s);
}
END_TEST

START_TEST(the_norm_of_nothing_adds_the_loss) {
    const float loss = 4;
    const double samples = 2;
    double part = NAN;
    struct zt_step_state state = { .loss_scale = 1 };
    struct zt_launch_step_norm none = { .of = { .state = &state, .loss = &loss, .samples = &samples, .whole = true },
                                        .parts = &part,
                                        .arrived = &arrived };
    ck_assert_int_eq(zt_launch_step_norm(NULL, &none), 0);
    ck_assert(state.total == 8 && state.norm == 0 && state.finite && arrived == 0);
}
END_TEST

START_TEST(losses_are_weighted_by_their_samples) {
    struct zt_step_state state = { .loss_scale = 1024 };
    float losses[] = { 2, 5, NAN };
    struct zt_step_feed feed[] = { { 3, 0.75f, 0 }, { 1, 0.25f, 0 }, { 0, 0, 0 } };
    for (int i = 0; i < 3; i++)
        ck_assert(zt_launch_add_loss(NULL, &state, &losses[i], &feed[i].samples) == 0 &&
                  zt_launch_scale_seed(NULL, &state, &feed[i]) == 0);
    ck_assert_double_eq(state.loss, 11);
    ck_assert(feed[0].scaled == 768 && feed[1].scaled == 256 && feed[2].scaled == 0);
}
END_TEST

START_TEST(gradients_are_unscaled_and_the_scale_follows_overflows) {
    struct zt_step_state fixed = { .loss_scale = 4, .squares = 64, .loss = 1 }, state = { .loss_scale = 4 };
    state.scaling = (struct zt_scaling){
        .scale = 4, .since = 1, .hysteresis = 2, .window = 2, .tolerated = 2, .least = 1, .dynamic = 1
    };
    ck_assert(zt_launch_clip(NULL, &fixed, 1) == 0 && fixed.norm == 2 && fixed.finite && fixed.loss_scale == 4);
    ck_assert(fabs((double)fixed.scale - zt_clip_factor(2, 1) / 4) <= 1e-7);
    const double squares[] = { 64, INFINITY, (double)NAN, 64, 64, 64 }, scales[] = { 4, 4, 2, 2, 4, 4 };
    for (int i = 0; i < 6; i++) {
        const double before = state.loss_scale;
        state.squares = squares[i];
        ck_assert_int_eq(zt_launch_clip(NULL, &state, 0), 0);
        ck_assert(state.finite == (i != 1 && i != 2) && state.scaled == before && state.loss_scale == scales[i]);
    }
    ck_assert_int_eq(state.updates + state.finite, 4);
}
END_TEST

/* From and to places of every alignment, of every length up to some packs and a rest; nothing beside them is written.
 */
START_TEST(copies_of_any_place_and_length_are_made) {
    enum { ROOM = 128, APART = ZT_COPIES * ROOM };
    static _Alignas(16) unsigned char from[APART], to[APART];
    struct zt_launch_copies copies = { .count = ZT_COPIES };
    for (int i = 0; i < APART; i++) {
        from[i] = (unsigned char)(i % 251 + 1);
        to[i] = 0;
    }
    for (int i = 0; i < ZT_COPIES; i++) {
        const int shift = i % 3 == 0 ? 0 : i % 3 == 1 ? 4 : i % 16;
        copies.at[i] = (struct zt_copy){ to + i * ROOM + shift, from + i * ROOM + shift, (size_t)(i * 7 % 100) };
    }
    ck_assert_int_eq(zt_launch_copies(NULL, &copies), 0);
    for (int i = 0; i < APART; i++) {
        const struct zt_copy *c = &copies.at[i / ROOM];
        const bool copied = to + i >= (unsigned char *)c->to && to + i < (unsigned char *)c->to + c->bytes;
        ck_assert_int_eq(to[i], copied ? from[i] : 0);
    }
}
END_TEST

START_TEST(weights_are_cast_many_at_once) {
    static const int64_t counts[] = { 1, 0, 7, 4096, 4097, 3, 12345 };
    enum { TENSORS = sizeof counts / sizeof *counts, MOST = 12352 };
    static float from[TENSORS][MOST];
    static uint16_t to[TENSORS][MOST];
    struct zt_launch_casts casts = { .count = TENSORS, .fp16 = _i };
    for (int t = 0; t < TENSORS; t++) {
        for (int64_t i = 0; i < MOST; i++)
            from[t][i] = (float)sin((double)(t * MOST + i)) * 3;
        casts.at[t] = (struct zt_cast){ .to = to[t], .from = from[t] + t, .count = counts[t] };
    }
    ck_assert_int_eq(zt_launch_casts(NULL, &casts), 0);
    for (int t = 0; t < TENSORS; t++)
        for (int64_t i = 0; i < MOST - t; i++) {
            uint16_t wanted = 0;
            if (i < counts[t])
                zt_store_double(_i ? ZT_FLOAT16 : ZT_BFLOAT16, &wanted, 0, (double)from[t][t + i]);
            ck_assert_int_eq(to[t][i], wanted);
        }
}
END_TEST

START_TEST(weights_are_cast_and_laid_channels_last) {
    static const struct zt_cast turned[] = { { .count = 6, .channels = 3, .places = 2 },
                                             { .count = 1, .channels = 1, .places = 1 },
                                             { .count = 3 * 150 * 49, .channels = 150, .places = 49 },
                                             { .count = 5 * 4097, .channels = 4097, .places = 1 },
                                             { .count = 2 * 4096 * 3, .channels = 4096, .places = 3 } };
    enum { TENSORS = sizeof turned / sizeof *turned, MOST = 25000 };
    static float from[TENSORS][MOST];
    static uint16_t to[TENSORS][MOST];
    struct zt_launch_casts casts = { .count = TENSORS, .fp16 = _i };
    for (int t = 0; t < TENSORS; t++) {
        for (int i = 0; i < MOST; i++)
            from[t][i] = (float)sin((double)(t * MOST + i)) * 3;
        casts.at[t] = turned[t];
        casts.at[t].to = to[t];
        casts.at[t].from = from[t];
    }
    ck_assert_int_eq(zt_launch_casts(NULL, &casts), 0);
    for (int t = 0; t < TENSORS; t++)
        for (int64_t i = 0; i < MOST; i++) {
            const int64_t channels = turned[t].channels, matrix = channels * turned[t].places,
                          place = i % matrix / channels;
            uint16_t wanted = 0;
            if (i < turned[t].count)
                zt_store_double(_i ? ZT_FLOAT16 : ZT_BFLOAT16, &wanted, 0,
                                (double)from[t][i / matrix * matrix + i % channels * turned[t].places + place]);
            ck_assert_int_eq(to[t][i], wanted);
        }
}
END_TEST

int main(void) {
    TCase *test = tcase_create("step");
    tcase_add_loop_test(test, kernels_step_as_the_host_does, 0, 2 * ZT_OPTIMIZER_COUNT);
    tcase_add_loop_test(test, matrices_step_as_the_host_does, 0, 2 * MATRICES);
    tcase_add_test(test, averages_advance_and_change_places_with_the_weights);
    tcase_add_loop_test(test, a_step_that_is_not_finite_is_left_out, 0, ZT_OPTIMIZER_COUNT);
    tcase_add_test(test, clipping_is_that_of_the_host);
    tcase_add_test(test, the_norm_of_several_ranks_is_not_found_yet);
    tcase_add_test(test, the_norm_of_nothing_adds_the_loss);
    tcase_add_test(test, losses_are_weighted_by_their_samples);
    tcase_add_test(test, gradients_are_unscaled_and_the_scale_follows_overflows);
    tcase_add_test(test, copies_of_any_place_and_length_are_made);
    tcase_add_loop_test(test, weights_are_cast_many_at_once, 0, 2);
    tcase_add_loop_test(test, weights_are_cast_and_laid_channels_last, 0, 2);
    return run_suite("step", test, CK_NOFORK);
}
