/* Sampler: which samples make a step. */
#include "fixture.h"

#include "base/process_memory.h"
#include "data/sampler.h"

START_TEST(an_epoch_holds_every_sample_once) {
    struct zt_sampler s;
    struct zt_err err = { 0 };
    int64_t at[16], epoch, batch, moved = 0;
    ck_assert(zt_sampler_init(&s, &(struct zt_sampling){ 100, 16, true, false, 7 }, &err));
    ck_assert_int_eq(zt_epochs_batches(&s.epochs), 7);
    for (int64_t e = 0; e < 3; e++) {
        int seen[100] = { 0 }, total = 0;
        for (int64_t b = 0; b < 7; b++) {
            int64_t n = zt_sampler_step(&s, e * 7 + b, at, &epoch, &batch);
            ck_assert(epoch == e && batch == b && n == (b < 6 ? 16 : 4));
            for (int64_t i = 0; i < n; i++, total++) {
                seen[at[i]]++;
                moved += at[i] != total;
            }
        }
        for (int i = 0; i < 100; i++)
            ck_assert_int_eq(seen[i], 1);
    }
    ck_assert_int_gt(moved, 250);
    zt_sampler_finish(&s);
}
END_TEST

START_TEST(a_step_holds_the_same_samples_however_it_is_reached) {
    struct zt_sampler a, b;
    struct zt_err err = { 0 };
    int64_t x[8], y[8], epoch, batch;
    ck_assert(zt_sampler_init(&a, &(struct zt_sampling){ 50, 8, true, true, 3 }, &err) &&
              zt_sampler_init(&b, &(struct zt_sampling){ 50, 8, true, true, 3 }, &err));
    for (int64_t step = 0; step < 20; step++)
        zt_sampler_step(&a, step, x, &epoch, &batch);
    ck_assert_int_eq(zt_sampler_step(&b, 19, y, &epoch, &batch), 8);
    ck_assert(memcmp(x, y, sizeof x) == 0);
    ck_assert_int_eq(epoch, 3); /* 6 steps an epoch: 2 samples dropped */
    zt_sampler_finish(&a);
    zt_sampler_finish(&b);
}
END_TEST

START_TEST(without_shuffle_samples_come_in_order) {
    struct zt_sampler s;
    struct zt_err err = { 0 };
    int64_t at[8], epoch, batch;
    ck_assert(zt_sampler_init(&s, &(struct zt_sampling){ 20, 8, false, false, 3 }, &err));
    ck_assert_int_eq(zt_sampler_step(&s, 5, at, &epoch, &batch), 4);
    ck_assert(at[0] == 16 && at[3] == 19 && epoch == 1 && batch == 2);
    zt_sampler_finish(&s);
}
END_TEST

/* Steps of 4 over epochs of 10 and, with two samples repeated for the ranks, of 12. */
START_TEST(a_stream_goes_on_over_the_end_of_an_epoch) {
    static const struct {
        int64_t stream, at[5][4], epoch[5], batch[5], first[5];
    } cases[] = {
        { 10,
          { { 0, 1, 2, 3 }, { 4, 5, 6, 7 }, { 8, 9, 0, 1 }, { 2, 3, 4, 5 }, { 6, 7, 8, 9 } },
          { 0, 0, 0, 1, 1 },
          { 0, 1, 2, 0, 1 },
          { 0, 4, 8, 2, 6 } },
        { 12,
          { { 0, 1, 2, 3 }, { 4, 5, 6, 7 }, { 8, 9, 0, 1 }, { 0, 1, 2, 3 }, { 4, 5, 6, 7 } },
          { 0, 0, 0, 1, 1 },
          { 0, 1, 2, 0, 1 },
          { 0, 4, 8, 0, 4 } },
    };
    for (int k = 0; k < 2; k++) {
        struct zt_sampler s;
        struct zt_err err = { 0 };
        int64_t at[4], epoch, batch;
        ck_assert(zt_sampler_init(
            &s, &(struct zt_sampling){ .samples = 10, .train_batch = 4, .stream = { cases[k].stream, 4, true, 2 } },
            &err));
        for (int64_t step = 0; step < 5; step++) {
            ck_assert_int_eq(zt_sampler_step(&s, step, at, &epoch, &batch), 4);
            ck_assert(memcmp(at, cases[k].at[step], sizeof at) == 0);
            ck_assert(epoch == cases[k].epoch[step] && batch == cases[k].batch[step]);
            ck_assert_int_eq(zt_epochs_at(&s.epochs, step).first, cases[k].first[step]);
        }
        ck_assert(zt_epochs_ended(&s.epochs, 2) == 0 && zt_epochs_ended(&s.epochs, 3) == 1);
        ck_assert_int_eq(zt_epochs_steps(&s.epochs, 3), 3 * cases[k].stream / 4);
        zt_sampler_finish(&s);
    }
}
END_TEST

START_TEST(each_epoch_of_a_stream_is_another_permutation) {
    struct zt_sampler s;
    struct zt_err err = { 0 };
    int64_t at[8], all[50], epoch, batch, moved = 0;
    int seen[2][25] = { { 0 } };
    ck_assert(
        zt_sampler_init(&s,
                        &(struct zt_sampling){
                            .samples = 25, .train_batch = 8, .shuffle = true, .seed = 3, .stream = { 25, 8, true, 1 } },
                        &err));
    for (int64_t step = 0; step < 7; step++) {
        zt_sampler_step(&s, step, at, &epoch, &batch);
        for (int i = 0; i < 8 && step * 8 + i < 50; i++)
            all[step * 8 + i] = at[i];
    }
    for (int i = 0; i < 50; i++)
        seen[i / 25][all[i]]++;
    for (int i = 0; i < 25; i++) {
        ck_assert(seen[0][i] == 1 && seen[1][i] == 1);
        moved += all[i] != all[25 + i];
    }
    ck_assert_int_gt(moved, 10);
    zt_sampler_finish(&s);
}
END_TEST

/* The micro-batches one by one against the functions, which count them. */
START_TEST(a_stream_may_end_its_epochs_with_a_short_micro_batch) {
    static const struct zt_epochs cases[] = { { 5, 4, true, 2 },  { 11, 4, true, 4 }, { 22, 8, true, 4 },
                                              { 7, 12, true, 2 }, { 5, 15, true, 5 }, { 23, 8, true, 1 } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct zt_epochs *e = &cases[k];
        const int64_t pieces = e->batch / e->unit;
        int64_t epoch = 0, at = 0, begun = 0;
        for (int64_t step = 0; step < 40; step++) {
            const struct zt_epoch_place place = zt_epochs_at(e, step);
            ck_assert(place.epoch == epoch && place.first == at && place.batch == begun);
            ck_assert_int_eq(zt_epochs_ended(e, step), epoch);
            begun++;
            int64_t first = 0;
            for (int64_t m = 0; m < pieces; m++) {
                const struct zt_epoch_piece piece = zt_epochs_piece(e, step, m);
                const int64_t left = e->samples - at;
                ck_assert(piece.first == first && piece.samples == (left < e->unit ? left : e->unit));
                first += piece.samples;
                at += piece.samples;
                if (at == e->samples) {
                    at = begun = 0;
                    epoch++;
                    ck_assert_int_eq(zt_epochs_steps(e, epoch), step + (m + 1 == pieces));
                }
            }
            ck_assert_int_eq(zt_epochs_samples(e, step), first);
        }
    }
}
END_TEST

START_TEST(epochs_follow_the_config) {
    struct zt_config c = { .train_batch = 8, .micro_batch = 2, .accumulation = 2, .data_parallel = 2 };
    ck_assert(zt_epochs_of(&c, 21).samples == 21 && zt_epochs_batches(&(struct zt_epochs){ 21, 8, false }) == 3);
    c.data.drop_last = true;
    ck_assert_int_eq(zt_epochs_of(&c, 21).samples, 16);
    c.data.carries = true;
    ck_assert_int_eq(zt_epochs_of(&c, 23).samples, 20);
    c.data.drop_last = false;
    ck_assert_int_eq(zt_epochs_of(&c, 23).samples, 24);
    struct zt_epochs e = zt_epochs_of(&c, 21);
    ck_assert(e.samples == 22 && e.unit == 4 && e.batch == 8 && zt_epochs_batches(&e) == 3);
    e = zt_epochs_of(&c, 3); /* a micro-batch has all */
    ck_assert(e.samples == 4 && e.unit == 4 && e.batch == 8);
    e = zt_epochs_of(&c, 1);
    ck_assert(e.samples == 2 && e.unit == 2 && e.batch == 4 && zt_epochs_samples(&e, 7) == 4);
}
END_TEST

START_TEST(data_too_small_for_one_full_step_are_refused) {
    struct zt_sampler s;
    struct zt_err err = { 0 };
    ck_assert(!zt_sampler_init(&s, &(struct zt_sampling){ 5, 16, true, true, 0 }, &err));
    MENTIONS(&err, "5 samples", "16");
    ck_assert(!zt_sampler_init(&s, &(struct zt_sampling){ 0, 16, true, false, 0 }, &err));
    ck_assert(!zt_sampler_init(&s, &(struct zt_sampling){ INT64_MAX / 4, 16, true, false, 0 }, &err));
}
END_TEST

/* Memory that the system promises and does not have would end the process without a message. */
START_TEST(an_order_that_exceeds_the_memory_of_the_host_is_refused) {
    struct zt_sampler s;
    struct zt_err err = { 0 };
    const int64_t samples = zt_host_memory_bytes() / 8 + 1;
    ck_assert(samples > 1 && !zt_sampler_init(&s, &(struct zt_sampling){ samples, 16, true, false, 0 }, &err));
    MENTIONS(&err, "does not fit into the memory of this host");
    err = (struct zt_err){ 0 };
    ck_assert(zt_sampler_init(&s, &(struct zt_sampling){ samples, 16, false, false, 0 }, &err));
    zt_sampler_finish(&s);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("sampler");
    tcase_add_test(cases, an_epoch_holds_every_sample_once);
    tcase_add_test(cases, a_step_holds_the_same_samples_however_it_is_reached);
    tcase_add_test(cases, without_shuffle_samples_come_in_order);
    tcase_add_test(cases, a_stream_goes_on_over_the_end_of_an_epoch);
    tcase_add_test(cases, a_stream_may_end_its_epochs_with_a_short_micro_batch);
    tcase_add_test(cases, each_epoch_of_a_stream_is_another_permutation);
    tcase_add_test(cases, epochs_follow_the_config);
    tcase_add_test(cases, data_too_small_for_one_full_step_are_refused);
    tcase_add_test(cases, an_order_that_exceeds_the_memory_of_the_host_is_refused);
    return test_run("sampler", cases);
}
