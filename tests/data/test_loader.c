/* Read-ahead: that ranks get the samples of a step in order, and that the threads stop at any moment. */
#include "fixture.h"

#include "data/loader.h"
#include "data/sampler.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

/* A source whose one column is the index of the sample; sample `broken` cannot be read. */
static bool count_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)column;
    const int64_t *broken = source->state;
    if (index == *broken)
        return zt_fail(err, ZT_EXIT_DATA, "count: row %lld is broken", (long long)index);
    *(int64_t *)to = index;
    return true;
}

static const struct zt_format counting = { .type.name = "count", .read = count_read };
static int64_t none_broken = -1;

static struct zt_source count_to(int64_t samples, int64_t *broken) {
    return (struct zt_source){ .format = &counting,
                               .samples = samples,
                               .column_count = 1,
                               .state = broken,
                               .column = { { "i", ZT_INT64, { 0, { 0 } }, 8 } } };
}

enum { READERS = 5 };

static struct zt_loader_options options_for(const struct zt_source *source, int64_t micro, int accumulation, int rank,
                                            int ranks, int64_t steps) {
    return (struct zt_loader_options){ .source = source,
                                       .train_batch = micro * accumulation * ranks,
                                       .micro_batch = micro,
                                       .rank = rank,
                                       .ranks = ranks,
                                       .shuffle = true,
                                       .seed = 11,
                                       .steps = steps,
                                       .depth = 2 };
}

START_TEST(one_rank_sees_the_steps_of_the_sampler) {
    struct zt_source source = count_to(37, &none_broken);
    struct zt_loader_options options = options_for(&source, 4, 3, 0, 1, 10);
    options.first_step = 2;
    options.readers = _i;
    struct zt_err err = { 0 };
    struct zt_sampler s;
    ck_assert(zt_sampler_init(&s, &(struct zt_sampling){ 37, 12, true, false, 11 }, &err));
    struct zt_loader *loader = zt_loader_create(&options, &err);
    const struct zt_batch *batch;
    for (int64_t step = 2; step < 12; step++) {
        int64_t at[12], epoch, in_epoch, n = zt_sampler_step(&s, step, at, &epoch, &in_epoch), done = 0;
        for (int m = 0; done < n; m++) {
            ck_assert(zt_loader_next(loader, &batch, &err) && batch);
            ck_assert(batch->step == step && batch->epoch == epoch && batch->batch_in_epoch == in_epoch);
            ck_assert(batch->micro_batch == m && batch->step_samples == n && batch->rows == batch->samples);
            ck_assert(batch->first_in_epoch == in_epoch * 12 + done);
            ck_assert(memcmp(batch->column[0], at + done, (size_t)batch->samples * 8) == 0);
            done += batch->samples;
        }
        ck_assert_int_eq(done, n);
    }
    ck_assert(zt_loader_next(loader, &batch, &err) && !batch);
    ck_assert(zt_loader_next(loader, &batch, &err) && !batch);
    zt_loader_destroy(loader);
    zt_sampler_finish(&s);
}
END_TEST

/* On R ranks, every micro-batch has equal rows on all, their counted samples joined are the samples of the step, and
 * padding repeats a real sample of the piece. */
static void check_ranks(int64_t samples, int64_t micro, int accumulation, int ranks, int readers) {
    enum { RANKS = 5 };
    struct zt_source source = count_to(samples, &none_broken);
    struct zt_loader *loader[RANKS];
    struct zt_err err = { 0 };
    struct zt_sampler s;
    int64_t train_batch = micro * accumulation * ranks, at[1024], steps = 2 * (samples / train_batch + 1);
    ck_assert(zt_sampler_init(&s, &(struct zt_sampling){ samples, train_batch, true, false, 11 }, &err));
    for (int r = 0; r < ranks; r++) {
        struct zt_loader_options options = options_for(&source, micro, accumulation, r, ranks, steps);
        options.readers = readers;
        loader[r] = zt_loader_create(&options, &err);
    }
    for (int64_t step = 0; step < steps; step++) {
        int64_t epoch, in_epoch, n = zt_sampler_step(&s, step, at, &epoch, &in_epoch), done = 0;
        while (done < n) {
            int64_t rows = 0, piece = done;
            for (int r = 0; r < ranks; r++) {
                const struct zt_batch *batch;
                ck_assert(zt_loader_next(loader[r], &batch, &err) && batch);
                ck_assert(r == 0 || batch->rows == rows);
                ck_assert(batch->step_samples == n && batch->step == step);
                rows = batch->rows;
                const int64_t *found = batch->column[0];
                for (int64_t i = 0; i < rows; i++)
                    ck_assert_int_eq(found[i], i < batch->samples ? at[done + i] : at[piece]);
                done += batch->samples;
            }
            ck_assert(rows > 0 && rows <= micro);
        }
    }
    for (int r = 0; r < ranks; r++) {
        const struct zt_batch *batch;
        ck_assert(zt_loader_next(loader[r], &batch, &err) && !batch);
        zt_loader_destroy(loader[r]);
    }
    zt_sampler_finish(&s);
}

START_TEST(ranks_share_a_step_without_loss_or_repetition) {
    for (int ranks = 1; ranks <= 5; ranks++)
        for (int64_t micro = 1; micro <= 4; micro++)
            for (int64_t samples = 1; samples <= 50; samples += 7)
                check_ranks(samples, micro, 1 + (int)(samples % 3), ranks, 1 + (int)(samples + micro) % READERS);
}
END_TEST

START_TEST(a_row_that_cannot_be_read_comes_after_the_good_ones) {
    int64_t broken = 9;
    struct zt_source source = count_to(20, &broken);
    struct zt_loader_options options = options_for(&source, 4, 1, 0, 1, 5);
    options.shuffle = false;
    options.readers = _i;
    struct zt_err err = { 0 };
    struct zt_loader *loader = zt_loader_create(&options, &err);
    const struct zt_batch *batch;
    ck_assert(zt_loader_next(loader, &batch, &err) && batch);
    ck_assert(zt_loader_next(loader, &batch, &err) && batch);
    ck_assert(!zt_loader_next(loader, &batch, &err));
    MENTIONS(&err, "row 9 is broken");
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    zt_loader_destroy(loader);
}
END_TEST

START_TEST(destroying_a_loader_at_any_moment_ends_its_threads) {
    struct zt_source source = count_to(1000, &none_broken);
    for (int taken = 0; taken < 40; taken++) {
        struct zt_loader_options options = options_for(&source, 8, 2, 0, 1, 1000);
        options.readers = _i;
        struct zt_err err = { 0 };
        const struct zt_batch *batch;
        struct zt_loader *loader = zt_loader_create(&options, &err);
        for (int i = 0; i < taken % 7; i++)
            ck_assert(zt_loader_next(loader, &batch, &err) && batch);
        if (taken % 3 == 0)
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        zt_loader_destroy(loader);
    }
    zt_loader_destroy(NULL);
}
END_TEST

START_TEST(a_batch_stays_as_it_is_while_others_are_read_ahead) {
    struct zt_source source = count_to(1000, &none_broken);
    struct zt_loader_options options = options_for(&source, 10, 1, 0, 1, 100);
    options.shuffle = false;
    options.readers = _i;
    struct zt_err err = { 0 };
    const struct zt_batch *batch;
    struct zt_loader *loader = zt_loader_create(&options, &err);
    for (int64_t step = 0; step < 100; step++) {
        ck_assert(zt_loader_next(loader, &batch, &err) && batch);
        if (step % 10 == 0)
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        for (int64_t i = 0; i < 10; i++)
            ck_assert_int_eq(((int64_t *)batch->column[0])[i], step * 10 + i);
    }
    zt_loader_destroy(loader);
}
END_TEST

static bool tally_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)column, (void)index, (void)to, (void)err;
    atomic_fetch_add((atomic_int *)source->state, 1);
    return true;
}

START_TEST(as_many_micro_batches_are_read_ahead_as_asked) {
    static const struct zt_format tallying = { .type.name = "tally", .read = tally_read };
    atomic_int reads = 0;
    struct zt_source source = count_to(100, &none_broken);
    source.format = &tallying;
    source.state = &reads;
    struct zt_loader_options options = options_for(&source, 1, 1, 0, 1, 50);
    options.depth = 3;
    options.readers = _i;
    struct zt_err err = { 0 };
    const struct zt_batch *batch;
    struct zt_loader *loader = zt_loader_create(&options, &err);
    ck_assert(zt_loader_next(loader, &batch, &err) && batch);
    for (int i = 0; i < 1000 && atomic_load(&reads) < 4; i++)
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    ck_assert_int_eq(atomic_load(&reads), 4); /* the one held and three ahead */
    zt_loader_destroy(loader);
}
END_TEST

/* Rows that several readers have in hand. */
struct crowd {
    atomic_int inside, most;
};

static bool crowd_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)column, (void)index, (void)to, (void)err;
    struct crowd *c = source->state;
    int now = atomic_fetch_add(&c->inside, 1) + 1, most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now))
        ;
    for (int i = 0; i < 2000 && atomic_load(&c->most) < 3; i++)
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    atomic_fetch_sub(&c->inside, 1);
    return true;
}

START_TEST(rows_of_one_micro_batch_are_read_by_several_at_once) {
    static const struct zt_format crowded = { .type.name = "crowd", .read = crowd_read };
    struct crowd crowd = { 0 };
    struct zt_source source = count_to(24, &none_broken);
    source.format = &crowded;
    source.state = &crowd;
    struct zt_loader_options options = options_for(&source, 24, 1, 0, 1, 1);
    options.readers = 3;
    struct zt_err err = { 0 };
    const struct zt_batch *batch;
    struct zt_loader *loader = zt_loader_create(&options, &err);
    ck_assert(zt_loader_next(loader, &batch, &err) && batch);
    ck_assert_int_eq(atomic_load(&crowd.most), 3);
    zt_loader_destroy(loader);
}
END_TEST

/* Every third row from 9 on is broken, and the earlier ones take longest to tell. */
static bool late_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)source, (void)column;
    *(int64_t *)to = index;
    if (index < 9 || index % 3 != 0)
        return true;
    nanosleep(&(struct timespec){ 0, (index < 12 ? 20 : 1) * 1000000 }, NULL);
    return zt_fail(err, ZT_EXIT_DATA, "late: row %lld is broken", (long long)index);
}

START_TEST(of_several_rows_that_cannot_be_read_the_first_is_told) {
    static const struct zt_format late = { .type.name = "late", .read = late_read };
    struct zt_source source = count_to(60, &none_broken);
    source.format = &late;
    struct zt_loader_options options = options_for(&source, 8, 1, 0, 1, 7);
    options.shuffle = false;
    options.readers = _i;
    struct zt_err err = { 0 };
    const struct zt_batch *batch;
    struct zt_loader *loader = zt_loader_create(&options, &err);
    ck_assert(zt_loader_next(loader, &batch, &err) && batch);
    for (int64_t i = 0; i < 8; i++)
        ck_assert_int_eq(((int64_t *)batch->column[0])[i], i);
    ck_assert(!zt_loader_next(loader, &batch, &err));
    ck_assert_int_eq(err.count, 1);
    MENTIONS(&err, "row 9 is broken");
    zt_loader_destroy(loader);
}
END_TEST

/* The file is as it was until row 12 has been read, which fails as well. */
static bool changing_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)column, (void)to;
    if (index != 12)
        return true;
    atomic_store((atomic_int *)source->state, 1);
    return zt_fail(err, ZT_EXIT_DATA, "changing: row 12 holds nothing");
}
static bool changing_intact(const struct zt_source *source, struct zt_err *err) {
    if (!atomic_load((atomic_int *)source->state))
        return true;
    err->count = 0;
    return zt_fail(err, ZT_EXIT_DATA, "changing: the file changed");
}

START_TEST(a_file_that_changed_is_told_whatever_the_rows_say) {
    static const struct zt_format changing = { .type.name = "changing",
                                               .read = changing_read,
                                               .intact = changing_intact };
    atomic_int changed = 0;
    struct zt_source source = count_to(40, &none_broken);
    source.format = &changing;
    source.state = &changed;
    struct zt_loader_options options = options_for(&source, 5, 1, 0, 1, 8);
    options.shuffle = false;
    options.readers = _i;
    struct zt_err err = { 0 };
    const struct zt_batch *batch;
    struct zt_loader *loader = zt_loader_create(&options, &err);
    int good = 0;
    while (zt_loader_next(loader, &batch, &err))
        good++;
    ck_assert_int_le(good, 2); /* those before it may have been closed behind the change */
    ck_assert_int_eq(err.count, 1);
    MENTIONS(&err, "the file changed");
    zt_loader_destroy(loader);
}
END_TEST

/* Memory of the consumer's, and how much of it is out. */
static void *lend(void *with, size_t bytes, const char *what, struct zt_err *err) {
    (void)what, (void)err;
    *(size_t *)with += bytes;
    return aligned_alloc(64, bytes);
}
static void take_back(void *with, void *memory, size_t bytes) {
    *(size_t *)with -= bytes;
    free(memory);
}

START_TEST(micro_batches_lie_in_the_consumers_memory_and_stay_as_many_calls_as_asked) {
    enum { HELD = 3, BYTES = 640 };
    struct zt_source source = count_to(1000, &none_broken);
    struct zt_loader_options options = options_for(&source, 10, 1, 0, 1, 100);
    size_t lent = 0;
    options.shuffle = false;
    options.readers = _i;
    options.held = HELD;
    options.batch_bytes = BYTES;
    options.memory = (struct zt_batch_memory){ lend, take_back, &lent };
    struct zt_err err = { 0 };
    const struct zt_batch *batch[HELD + 1];
    struct zt_loader *loader = zt_loader_create(&options, &err);
    ck_assert_uint_eq(lent, (2 + HELD) * BYTES);
    for (int64_t step = 0; step < 100; step++) {
        ck_assert(zt_loader_next(loader, &batch[step % HELD], &err) && batch[step % HELD]);
        ck_assert(batch[step % HELD]->memory == (char *)batch[step % HELD]->column[0]);
        memset(batch[step % HELD]->memory + 80, (int)step, BYTES - 80); /* what the columns leave */
        if (step % 10 == 0)
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        for (int64_t old = step < HELD - 1 ? 0 : step - (HELD - 1); old <= step; old++)
            for (int64_t i = 0; i < 10; i++)
                ck_assert_int_eq(((int64_t *)batch[old % HELD]->column[0])[i], old * 10 + i);
    }
    ck_assert(zt_loader_next(loader, &batch[HELD], &err) && !batch[HELD]);
    zt_loader_destroy(loader);
    ck_assert_uint_eq(lent, 0);
}
END_TEST

START_TEST(where_nothing_is_read_the_numbers_of_the_samples_come) {
    int64_t broken = 3;
    struct zt_source source = count_to(20, &broken);
    struct zt_loader_options options = options_for(&source, 3, 2, 1, 2, 20);
    options.readers = _i;
    struct zt_err err = { 0 };
    struct zt_sampler s;
    int64_t at[12], epoch, in_epoch;
    ck_assert(zt_sampler_init(&s, &(struct zt_sampling){ 20, 12, true, false, 11 }, &err));
    options.indices = true;
    options.batch_bytes = 100;
    const struct zt_batch *batch;
    struct zt_loader *loader = zt_loader_create(&options, &err);
    for (int64_t step = 0; step < 20; step++) {
        int64_t n = zt_sampler_step(&s, step, at, &epoch, &in_epoch);
        for (int64_t start = 0; start < n; start += 6) {
            int64_t piece = n - start < 6 ? n - start : 6, rows = (piece + 1) / 2;
            ck_assert(zt_loader_next(loader, &batch, &err) && batch);
            ck_assert(batch->memory && !batch->column[0] && batch->rows == rows && batch->samples == piece - rows);
            for (int64_t i = 0; i < rows; i++) /* rank 1 of 2, whose last piece may be short */
                ck_assert_int_eq(batch->index[i], at[start + (i < batch->samples ? rows + i : 0)]);
        }
    }
    ck_assert(zt_loader_next(loader, &batch, &err) && !batch);
    zt_loader_destroy(loader);
    zt_sampler_finish(&s);
}
END_TEST

static void *lend_nothing(void *with, size_t bytes, const char *what, struct zt_err *err) {
    (void)with;
    zt_fail(err, ZT_EXIT_RUN, "no %zu bytes for %s", bytes, what);
    return NULL;
}

START_TEST(a_consumer_without_memory_is_told_so) {
    struct zt_source source = count_to(10, &none_broken);
    struct zt_loader_options options = options_for(&source, 10, 1, 0, 1, 1);
    options.memory = (struct zt_batch_memory){ lend_nothing, take_back, NULL };
    struct zt_err err = { 0 };
    ck_assert_ptr_null(zt_loader_create(&options, &err));
    MENTIONS(&err, "no ", "micro-batches read ahead");
}
END_TEST

START_TEST(readers_take_the_cores_that_nothing_computes_on) {
    ck_assert_int_eq(zt_loader_readers(2, 2), 1);
    ck_assert_int_eq(zt_loader_readers(2, 4), 1);
    ck_assert_int_eq(zt_loader_readers(8, 4), 4);
    ck_assert_int_eq(zt_loader_readers(64, 4), ZT_READERS);
}
END_TEST

START_TEST(a_micro_batch_too_big_for_memory_is_refused) {
    struct zt_source source = count_to(10, &none_broken);
    source.column[0].sample_bytes = (size_t)1 << 61;
    struct zt_loader_options options = options_for(&source, 10, 1, 0, 1, 1);
    struct zt_err err = { 0 };
    ck_assert_ptr_null(zt_loader_create(&options, &err));
    MENTIONS(&err, "\"i\"", "10 samples");
}
END_TEST

START_TEST(a_step_larger_than_the_data_takes_the_memory_of_the_data) {
    struct zt_source source = count_to(10, &none_broken);
    struct zt_loader_options options = options_for(&source, (int64_t)1 << 50, 1, 0, 1, 1);
    struct zt_err err = { 0 };
    struct zt_loader *loader = zt_loader_create(&options, &err);
    const struct zt_batch *batch;
    ck_assert_msg(loader && zt_loader_next(loader, &batch, &err), "%s", err.text[0]);
    ck_assert(batch->samples == 10 && batch->rows == 10 && batch->step_samples == 10);
    zt_loader_destroy(loader);
}
END_TEST

static int64_t switches(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_nvcsw;
}

/* On one core, which the reader has to give back to the consumer and the consumer to the reader. */
START_TEST(small_micro_batches_are_read_many_at_a_time) {
    enum { STEPS = 20000 };
    struct zt_source source = count_to(1000, &none_broken);
    struct zt_loader_options options = options_for(&source, 4, 1, 0, 1, STEPS);
    options.depth = zt_loader_depth(&source, 4);
    ck_assert_int_ge(options.depth, 32);
    cpu_set_t all, one;
    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof all, &all);
    for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&one) == 0; c++)
        if (CPU_ISSET(c, &all))
            CPU_SET(c, &one);
    sched_setaffinity(0, sizeof one, &one);
    struct zt_err err = { 0 };
    const struct zt_batch *batch;
    int64_t before = switches();
    struct zt_loader *loader = zt_loader_create(&options, &err);
    for (int i = 0; i < STEPS; i++)
        ck_assert(zt_loader_next(loader, &batch, &err) && batch);
    zt_loader_destroy(loader);
    sched_setaffinity(0, sizeof all, &all);
    ck_assert_int_lt(switches() - before, STEPS / 4);
}
END_TEST

START_TEST(large_micro_batches_are_read_two_ahead) {
    struct zt_source source = count_to(10, &none_broken);
    source.column[0].sample_bytes = 1 << 20;
    ck_assert_int_eq(zt_loader_depth(&source, 4), 2);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("loader");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, one_rank_sees_the_steps_of_the_sampler, 1, READERS + 1);
    tcase_add_test(cases, ranks_share_a_step_without_loss_or_repetition);
    tcase_add_loop_test(cases, a_row_that_cannot_be_read_comes_after_the_good_ones, 1, READERS + 1);
    tcase_add_loop_test(cases, destroying_a_loader_at_any_moment_ends_its_threads, 1, READERS + 1);
    tcase_add_loop_test(cases, a_batch_stays_as_it_is_while_others_are_read_ahead, 1, READERS + 1);
    tcase_add_loop_test(cases, as_many_micro_batches_are_read_ahead_as_asked, 1, READERS + 1);
    tcase_add_test(cases, rows_of_one_micro_batch_are_read_by_several_at_once);
    tcase_add_loop_test(cases, of_several_rows_that_cannot_be_read_the_first_is_told, 1, READERS + 1);
    tcase_add_loop_test(cases, a_file_that_changed_is_told_whatever_the_rows_say, 1, READERS + 1);
    tcase_add_loop_test(cases, micro_batches_lie_in_the_consumers_memory_and_stay_as_many_calls_as_asked, 1,
                        READERS + 1);
    tcase_add_loop_test(cases, where_nothing_is_read_the_numbers_of_the_samples_come, 1, READERS + 1);
    tcase_add_test(cases, a_consumer_without_memory_is_told_so);
    tcase_add_test(cases, readers_take_the_cores_that_nothing_computes_on);
    tcase_add_test(cases, small_micro_batches_are_read_many_at_a_time);
    tcase_add_test(cases, large_micro_batches_are_read_two_ahead);
    tcase_add_test(cases, a_micro_batch_too_big_for_memory_is_refused);
    tcase_add_test(cases, a_step_larger_than_the_data_takes_the_memory_of_the_data);
    return test_run("loader", cases);
}
