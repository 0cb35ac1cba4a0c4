#include "tests/suite.h"

#include "base/rng.h"
#include "parallel/schedule/collectives.h"
#include "parallel/schedule/program.h"
#include "parallel/partition/shard.h"

#include <string.h>

enum { MOST = 40, MOST_RANKS = 9 };

static struct zt_arena *arena;

static void make(void) {
    arena = zt_arena_create();
}

static void destroy(void) {
    zt_arena_destroy(arena);
}

static void check_buckets(const struct zt_flat *f, const struct zt_flat_tensor *tensors, int count, int64_t size) {
    int64_t at = 0;
    int bucket = 0;
    ck_assert_int_eq(f->bucket[0], 0);
    ck_assert_int_eq(f->bucket[f->bucket_count], f->count);
    for (int t = 0; t < count; t++) {
        ck_assert_int_eq(f->tensors[t].offset, at); /* model order, no padding */
        ck_assert_int_eq(f->tensors[t].count, tensors[t].count);
        ck_assert(f->tensors[t].bucket == bucket || f->tensors[t].bucket == bucket + 1);
        bucket = f->tensors[t].bucket;
        ck_assert_int_le(f->bucket[bucket], at);
        at += tensors[t].count;
        ck_assert_int_le(at, f->bucket[bucket + 1]);
    }
    ck_assert_int_eq(at, f->count);
    for (int b = 0; b < f->bucket_count; b++) {
        int holds = 0;
        for (int t = 0; t < count; t++)
            holds += f->tensors[t].bucket == b;
        ck_assert_int_gt(holds, 0);
        ck_assert(holds == 1 || f->bucket[b + 1] - f->bucket[b] <= size);
    }
}

static void check_slices(const struct zt_flat *f) {
    for (int b = 0; b < f->bucket_count; b++) {
        ck_assert_int_eq(zt_slice_first(f, b, 0), f->bucket[b]);
        ck_assert_int_eq(zt_slice_first(f, b, f->ranks), f->bucket[b + 1]);
        for (int r = 0; r < f->ranks; r++) {
            int64_t first = zt_slice_first(f, b, r), last = zt_slice_first(f, b, r + 1);
            ck_assert_int_le(first, last);
            ck_assert(first % ZT_SLICE_BLOCK == 0 || first == f->bucket[b] || first == f->bucket[b + 1]);
            /* never more than a block from its even share */
            int64_t even = f->bucket[b] + (f->bucket[b + 1] - f->bucket[b]) / f->ranks * r;
            ck_assert_int_le(first - even, ZT_SLICE_BLOCK);
            ck_assert_int_le(even - first, ZT_SLICE_BLOCK + f->ranks);
        }
    }
}

/* Owned and held ranges of every rank: in every mode each element is updated by the rank that owns its slice, and lies
 * where nothing else does. */
static void check_ranges(const struct zt_flat *f) {
    struct zt_range *at = ZT_NEW_N(arena, struct zt_range, f->bucket_count * f->ranks + 1);
    for (int stage = 0; stage < 4; stage++) {
        const struct zt_sharding *s = zt_sharding_of(stage);
        int64_t mine = 0;
        for (int r = 0; r < f->ranks; r++) {
            int count = zt_collectives_owned(f, s, r, at);
            int64_t shard = 0, all = 0;
            for (int i = 0; i < count; i++) {
                ck_assert_int_lt(at[i].first, at[i].last);
                ck_assert(!zt_sharding_splits_update(s) || at[i].rank == r);
                ck_assert_int_eq(at[i].state_at, zt_sharding_splits_update(s) ? shard : at[i].first);
                ck_assert_int_eq(at[i].grad_at, zt_sharding_reduces_in_place(s) ? at[i].first : shard);
                ck_assert_int_eq(at[i].param_at, zt_sharding_gathers_for_use(s) ? shard : at[i].first);
                shard += at[i].rank == r ? at[i].last - at[i].first : 0;
                mine += at[i].rank == r ? at[i].last - at[i].first : 0;
                all += at[i].last - at[i].first;
            }
            ck_assert_int_eq(shard, f->owned[r]);
            ck_assert_int_eq(all, zt_sharding_splits_update(s) ? f->owned[r] : f->count);
            ck_assert_int_eq(all, zt_collectives_updated(f, s, r));
            int64_t held = 0;
            count = zt_collectives_held(f, s, r, at);
            for (int i = 0; i < count; i++)
                held += at[i].last - at[i].first;
            ck_assert_int_eq(held, zt_sharding_gathers_for_use(s) ? f->owned[r] : f->count);
            ck_assert_int_eq(held, zt_collectives_held_params(f, s, r));
            ck_assert_int_eq(zt_collectives_held_gradients(f, s, r),
                             zt_sharding_reduces_in_place(s) ? f->count : f->owned[r]);
        }
        ck_assert_int_eq(mine, f->count);
    }
}

START_TEST(each_stage_shards_one_thing_more) {
    static const bool split[] = { false, true, true, true }, in_place[] = { true, true, false, false },
                      after_step[] = { false, true, true, false }, for_use[] = { false, false, false, true };
    const struct zt_sharding *s = zt_sharding_of(_i);
    ck_assert_int_eq(zt_sharding_splits_update(s), split[_i]);
    ck_assert_int_eq(zt_sharding_reduces_in_place(s), in_place[_i]);
    ck_assert_int_eq(zt_sharding_gathers_after_step(s), after_step[_i]);
    ck_assert_int_eq(zt_sharding_gathers_for_use(s), for_use[_i]);
}
END_TEST

START_TEST(one_rank_shards_nothing_and_gathers_offloaded_parameters) {
    for (int stage = 0; stage < 4; stage++) {
        struct zt_sharding_wish wish = { .zero_stage = stage, .data_ranks = 2, .reduce_scatter = true };
        ck_assert_ptr_eq(zt_sharding_of_run(&wish), zt_sharding_of(stage));
        wish.data_ranks = 1;
        ck_assert_ptr_eq(zt_sharding_of_run(&wish), zt_sharding_of(0));
        wish.offloads_parameters = true;
        const struct zt_sharding *offloaded = zt_sharding_of_run(&wish);
        ck_assert(zt_sharding_gathers_for_use(offloaded) && !zt_sharding_splits_update(offloaded));
    }
    ck_assert_str_eq(
        zt_sharding_name(zt_sharding_of_run(&(struct zt_sharding_wish){ .data_ranks = 2, .replicas = true })), "dp");
}
END_TEST

START_TEST(layouts_of_random_tensors_cover_all_and_cut_at_blocks) {
    struct zt_rng rng = zt_rng_start(31, 0);
    for (int round = 0; round < 400; round++) {
        struct zt_flat_tensor tensors[MOST];
        int count = 1 + (int)zt_rng_below(&rng, MOST), ranks = 1 + (int)zt_rng_below(&rng, MOST_RANKS);
        int64_t total = 0, largest = 0, wanted = zt_rng_below(&rng, 2) ? (int64_t)zt_rng_below(&rng, 200000) : 0;
        for (int t = 0; t < count; t++) {
            uint64_t most = zt_rng_below(&rng, 3) ? 100 : 60000;
            tensors[t] = (struct zt_flat_tensor){ "w", 0, (int64_t)zt_rng_below(&rng, most), 0 };
            total += tensors[t].count;
            largest = tensors[t].count > largest ? tensors[t].count : largest;
        }
        struct zt_flat *f = zt_flat_make(arena, tensors, count, ranks, wanted);
        check_buckets(f, tensors, count, wanted ? wanted : largest > total / 16 ? largest : total / 16);
        check_slices(f);
        check_ranges(f);
    }
}
END_TEST

START_TEST(the_default_bucket_is_the_largest_tensor_or_a_sixteenth_of_the_model) {
    struct zt_flat_tensor even[32],
        one[4] = { { "a", 0, 10, 0 }, { "b", 0, 1000, 0 }, { "c", 0, 990, 0 }, { "d", 0, 10, 0 } };
    for (int i = 0; i < 32; i++)
        even[i] = (struct zt_flat_tensor){ "w", 0, 1000, 0 };
    ck_assert_int_eq(zt_flat_make(arena, even, 32, 2, 0)->bucket_count, 16);
    struct zt_flat *f = zt_flat_make(arena, one, 4, 2, 0);
    ck_assert_int_eq(f->bucket_count, 3);
    ck_assert_int_eq(f->tensors[3].bucket, 2);
    ck_assert_int_eq(zt_flat_make(arena, one, 4, 2, INT64_MAX)->bucket_count, 1);
    ck_assert_int_eq(zt_flat_make(arena, one, 4, 2, 1)->bucket_count, 4);
}
END_TEST

START_TEST(a_stage_without_parameters_has_an_empty_layout) {
    struct zt_flat *f = zt_flat_make(arena, NULL, 0, 3, 0);
    ck_assert_int_eq(f->count, 0);
    ck_assert_int_eq(f->bucket_count, 0);
    check_ranges(f);
}
END_TEST

START_TEST(a_model_of_2_to_the_44_elements_is_cut_without_overflow) {
    struct zt_flat_tensor tensors[16];
    for (int i = 0; i < 16; i++)
        tensors[i] = (struct zt_flat_tensor){ "w", 0, INT64_C(1) << 40, 0 };
    struct zt_flat *f = zt_flat_make(arena, tensors, 16, 1024, INT64_C(1) << 44);
    check_slices(f);
    ck_assert_int_eq(f->owned[1023], INT64_C(1) << 34);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("shard");
    tcase_add_checked_fixture(cases, make, destroy);
    tcase_add_loop_test(cases, each_stage_shards_one_thing_more, 0, 4);
    tcase_add_test(cases, one_rank_shards_nothing_and_gathers_offloaded_parameters);
    tcase_add_test(cases, layouts_of_random_tensors_cover_all_and_cut_at_blocks);
    tcase_add_test(cases, the_default_bucket_is_the_largest_tensor_or_a_sixteenth_of_the_model);
    tcase_add_test(cases, a_stage_without_parameters_has_an_empty_layout);
    tcase_add_test(cases, a_model_of_2_to_the_44_elements_is_cut_without_overflow);
    return run_suite("shard", cases, CK_FORK);
}
