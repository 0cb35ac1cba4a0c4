/* The commands of a program, as text. Where its values lie is in test_places.c. */
#include "small_program.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <string.h>

static void check_text(const struct wish *wish, const char *wanted) {
    struct small_program m;
    struct zt_text text = { 0 };
    struct zt_command after[16];
    small_program_create(&m, tiny_mlp(), wish);
    small_program_print(&text, &m, m.program->forward, m.program->forward_count);
    zt_text_add(&text, "-\n");
    small_program_print(&text, &m, m.program->backward, m.program->backward_count);
    zt_text_add(&text, "-\n");
    small_program_print(&text, &m, after, zt_collectives_after_step(m.flat, wished_sharding(wish), after));
    ck_assert_msg(strcmp(text.at, wanted) == 0, "got:\n%s\nwanted:\n%s", text.at, wanted);
    zt_text_finish(&text);
    small_program_finish(&m);
}

/* fc1 192 + 16, fc2 256 + 16, y 80 + 5 parameters: buckets of 300 hold one layer each. */
enum { BUCKET = 300 };
#define GATHERS "GATHER 0\nGATHER 1\nGATHER 2\nGATHERED 0\nGATHERED 1\nGATHERED 2\n"
#define FORWARD "Gemm fc1\nRelu relu1\nGemm fc2\nRelu relu2\nGemm y\nCrossEntropy loss\n"

START_TEST(one_rank_runs_nodes_alone) {
    check_text(&(struct wish){ .zero = 0, .ranks = 1, .stages = 1, .bucket = BUCKET }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1 +=\n"
               "ReduceSum grad of fc1 +=\n"
               "-\n");
}
END_TEST

START_TEST(ddp_reduces_to_all_in_the_last_micro_batch) {
    check_text(&(struct wish){ .zero = 0, .ranks = 2, .stages = 1, .bucket = BUCKET }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "REDUCE 2 to all last\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "REDUCE 1 to all last\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1 +=\n"
               "ReduceSum grad of fc1 +=\n"
               "REDUCE 0 to all last\n"
               "-\n");
}
END_TEST

#define ZERO1_TEXT(to_all)                                                                                             \
    FORWARD                                                                                                            \
    "-\n"                                                                                                              \
    "CrossEntropyGrad grad of loss\n"                                                                                  \
    "Gemm grad of y\n"                                                                                                 \
    "Gemm grad of y +=\n"                                                                                              \
    "ReduceSum grad of y +=\n"                                                                                         \
    "REDUCE 2" to_all                                                                                                  \
    " last\n"                                                                                                          \
    "ReluGrad grad of relu2\n"                                                                                         \
    "Gemm grad of fc2\n"                                                                                               \
    "Gemm grad of fc2 +=\n"                                                                                            \
    "ReduceSum grad of fc2 +=\n"                                                                                       \
    "REDUCE 1" to_all                                                                                                  \
    " last\n"                                                                                                          \
    "ReluGrad grad of relu1\n"                                                                                         \
    "Gemm grad of fc1 +=\n"                                                                                            \
    "ReduceSum grad of fc1 +=\n"                                                                                       \
    "REDUCE 0" to_all                                                                                                  \
    " last\n"                                                                                                          \
    "-\n" GATHERS

START_TEST(zero1_reduces_to_the_owner_and_gathers_after_the_step) {
    check_text(&(struct wish){ .zero = 1, .ranks = 2, .stages = 1, .bucket = BUCKET }, ZERO1_TEXT(""));
}
END_TEST

#define ZERO2_TEXT(to_all)                                                                                             \
    FORWARD                                                                                                            \
    "-\n"                                                                                                              \
    "CrossEntropyGrad grad of loss\n"                                                                                  \
    "Gemm grad of y\n"                                                                                                 \
    "Gemm grad of y\n"                                                                                                 \
    "ReduceSum grad of y\n"                                                                                            \
    "REDUCE 2" to_all                                                                                                  \
    " to shard\n"                                                                                                      \
    "ReluGrad grad of relu2\n"                                                                                         \
    "Gemm grad of fc2\n"                                                                                               \
    "Gemm grad of fc2\n"                                                                                               \
    "ReduceSum grad of fc2\n"                                                                                          \
    "REDUCE 1" to_all                                                                                                  \
    " to shard\n"                                                                                                      \
    "ReluGrad grad of relu1\n"                                                                                         \
    "Gemm grad of fc1\n"                                                                                               \
    "ReduceSum grad of fc1\n"                                                                                          \
    "REDUCE 0" to_all                                                                                                  \
    " to shard\n"                                                                                                      \
    "-\n" GATHERS

START_TEST(zero2_reduces_to_shards_in_every_micro_batch) {
    check_text(&(struct wish){ .zero = 2, .ranks = 2, .stages = 1, .bucket = BUCKET }, ZERO2_TEXT(""));
}
END_TEST

START_TEST(without_reduce_scatter_all_ranks_get_the_sums) {
    struct wish wish = { .zero = 1, .ranks = 2, .stages = 1, .bucket = BUCKET, .all_reduces = true };
    check_text(&wish, ZERO1_TEXT(" to all"));
    wish.zero = 2;
    check_text(&wish, ZERO2_TEXT(" to all"));
    wish.zero = 3; /* has no all-reduce */
    ck_assert_ptr_eq(wished_sharding(&wish), zt_sharding_of(3));
}
END_TEST

START_TEST(overlapped_sums_in_the_gradient_block_are_awaited_at_the_end) {
    check_text(&(struct wish){ .zero = 0, .ranks = 2, .stages = 1, .bucket = BUCKET, .traffic.overlap = true }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "REDUCE 2 to all last\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "REDUCE 1 to all last\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1 +=\n"
               "ReduceSum grad of fc1 +=\n"
               "REDUCE 0 to all last\n"
               "REDUCED 1\n"
               "REDUCED 2\n"
               "-\n");
}
END_TEST

START_TEST(overlapped_sums_to_shards_are_awaited_before_the_next_begins) {
    check_text(&(struct wish){ .zero = 2, .ranks = 2, .stages = 1, .bucket = BUCKET, .traffic.overlap = true }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCED 2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCED 1\n"
               "REDUCE 0 to shard\n"
               "-\n"
               "GATHER 0\n"
               "GATHER 1\n"
               "GATHER 2\n"
               "GATHERED 0\n"
               "GATHERED 1\n"
               "GATHERED 2\n");
}
END_TEST

/* The buckets have 208, 272 and 85 elements. */
START_TEST(zero3_gathers_the_next_bucket_ahead_within_prefetch_and_max_live) {
    struct zt_traffic traffic = { .prefetch = 300, .max_live = 400 }; /* 208 + 272 in place would be too many */
    check_text(&(struct wish){ .zero = 3, .ranks = 2, .stages = 1, .bucket = BUCKET, .traffic = traffic },
               "GATHER 0 from shards\n"
               "Gemm fc1\n"
               "RELEASE 0\n"
               "Relu relu1\n"
               "GATHER 1 from shards\n"
               "GATHER 2 from shards\n"
               "GATHERED 1\n"
               "Gemm fc2\n"
               "RELEASE 1\n"
               "Relu relu2\n"
               "GATHERED 2\n"
               "Gemm y\n"
               "RELEASE 2\n"
               "CrossEntropy loss\n"
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "GATHER 2 from shards\n"
               "GATHER 1 from shards\n"
               "GATHERED 2\n"
               "Gemm grad of y\n"
               "RELEASE 2\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "GATHERED 1\n"
               "Gemm grad of fc2\n"
               "RELEASE 1\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCE 0 to shard\n"
               "-\n");
}
END_TEST

START_TEST(zero3_keeps_what_is_read_again_within_the_reuse_distance) {
    struct zt_traffic traffic = { .reuse_distance = 171 }; /* between the uses of bucket 1, bucket 2 is read twice */
    check_text(&(struct wish){ .zero = 3, .ranks = 2, .stages = 1, .bucket = BUCKET, .traffic = traffic },
               "GATHER 0 from shards\n"
               "Gemm fc1\n"
               "RELEASE 0\n"
               "Relu relu1\n"
               "GATHER 1 from shards\n"
               "Gemm fc2\n"
               "Relu relu2\n"
               "GATHER 2 from shards\n"
               "Gemm y\n"
               "CrossEntropy loss\n"
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "RELEASE 2\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "RELEASE 1\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCE 0 to shard\n"
               "-\n");
}
END_TEST

START_TEST(zero3_gathers_around_each_use) {
    check_text(&(struct wish){ .zero = 3, .ranks = 2, .stages = 1, .bucket = BUCKET },
               "GATHER 0 from shards\n"
               "Gemm fc1\n"
               "RELEASE 0\n"
               "Relu relu1\n"
               "GATHER 1 from shards\n"
               "Gemm fc2\n"
               "RELEASE 1\n"
               "Relu relu2\n"
               "GATHER 2 from shards\n"
               "Gemm y\n"
               "RELEASE 2\n"
               "CrossEntropy loss\n"
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "GATHER 2 from shards\n"
               "Gemm grad of y\n"
               "RELEASE 2\n"
               "Gemm grad of y\n"
               "ReduceSum grad of y\n"
               "REDUCE 2 to shard\n"
               "ReluGrad grad of relu2\n"
               "GATHER 1 from shards\n"
               "Gemm grad of fc2\n"
               "RELEASE 1\n"
               "Gemm grad of fc2\n"
               "ReduceSum grad of fc2\n"
               "REDUCE 1 to shard\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ReduceSum grad of fc1\n"
               "REDUCE 0 to shard\n"
               "-\n");
}
END_TEST

START_TEST(kernels_that_cannot_add_leave_it_to_a_command) {
    check_text(&(struct wish){ .zero = 0, .ranks = 1, .stages = 1, .bucket = BUCKET, .accumulates = true }, FORWARD
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y\n"
               "ADD y.weight +=\n"
               "ReduceSum grad of y\n"
               "ADD y.bias +=\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2\n"
               "ADD fc2.weight +=\n"
               "ReduceSum grad of fc2\n"
               "ADD fc2.bias +=\n"
               "ReluGrad grad of relu1\n"
               "Gemm grad of fc1\n"
               "ADD fc1.weight +=\n"
               "ReduceSum grad of fc1\n"
               "ADD fc1.bias +=\n"
               "-\n");
}
END_TEST

START_TEST(the_last_stage_of_two) {
    check_text(&(struct wish){ .zero = 1, .ranks = 2, .stage = 1, .stages = 2, .bucket = BUCKET },
               "Gemm fc2\n"
               "Relu relu2\n"
               "Gemm y\n"
               "CrossEntropy loss\n"
               "-\n"
               "CrossEntropyGrad grad of loss\n"
               "Gemm grad of y\n"
               "Gemm grad of y +=\n"
               "ReduceSum grad of y +=\n"
               "REDUCE 1 last\n"
               "ReluGrad grad of relu2\n"
               "Gemm grad of fc2\n"
               "Gemm grad of fc2 +=\n"
               "ReduceSum grad of fc2 +=\n"
               "REDUCE 0 last\n"
               "-\n"
               "GATHER 0\n"
               "GATHER 1\n"
               "GATHERED 0\n"
               "GATHERED 1\n");
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *cases = tcase_create("program");
    tcase_add_test(cases, one_rank_runs_nodes_alone);
    tcase_add_test(cases, ddp_reduces_to_all_in_the_last_micro_batch);
    tcase_add_test(cases, zero1_reduces_to_the_owner_and_gathers_after_the_step);
    tcase_add_test(cases, zero2_reduces_to_shards_in_every_micro_batch);
    tcase_add_test(cases, without_reduce_scatter_all_ranks_get_the_sums);
    tcase_add_test(cases, overlapped_sums_in_the_gradient_block_are_awaited_at_the_end);
    tcase_add_test(cases, overlapped_sums_to_shards_are_awaited_before_the_next_begins);
    tcase_add_test(cases, zero3_gathers_the_next_bucket_ahead_within_prefetch_and_max_live);
    tcase_add_test(cases, zero3_keeps_what_is_read_again_within_the_reuse_distance);
    tcase_add_test(cases, zero3_gathers_around_each_use);
    tcase_add_test(cases, kernels_that_cannot_add_leave_it_to_a_command);
    tcase_add_test(cases, the_last_stage_of_two);
    return run_suite("plans", cases, CK_NOFORK);
}
