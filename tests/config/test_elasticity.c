/* Batches of elastic runs against those of deepspeed/elasticity/elasticity.py, and the keys. */
#include "read.h"

#include "config/batch.h"

struct elastic_case {
    double micro_batches[4]; /* 0: the end */
    int64_t max_batch, min_ranks, max_ranks;
    bool larger;
    double version;
    int64_t per_host, ranks;
    int64_t batch, micro_batch; /* micro_batch 0: refused */
};

/* The first is DeepSpeed's own test (tests/unit/elasticity/test_elastic.py). */
static const struct elastic_case cases[] = {
    { { 8, 12, 16, 17 }, 10000, 32, 1500, true, 0.1, 1, 64, 9792, 17 },
    { { 8, 12, 16, 17 }, 10000, 32, 1500, true, 0.1, 1, 128, 9792, 0 },
    { { 2, 4, 6 }, 2000, 1, 10000, true, 0.1, 1, 1, 1680, 6 },
    { { 2, 4, 6 }, 2000, 1, 10000, true, 0.1, 1, 11, 1680, 0 },
    { { 2, 4, 6 }, 2000, 1, 10000, true, 0.2, 1, 7, 1680, 6 },
    { { 2, 4, 6 }, 2000, 1, 10000, true, 0.2, 1, 11, 1980, 6 },
    { { 8, 12, 16, 17 }, 10000, 32, 1500, true, 0.2, 8, 64, 7680, 12 },
    { { 8, 12, 16, 17 }, 10000, 32, 1500, true, 0.2, 8, 20, 9920, 16 },
    { { 3, 5, 7 }, 10, 1, 100, true, 0.1, 1, 1, 105, 7 },
    { { 2, 4 }, 64, 1, 8, true, 0.1, 1, 8, 48, 2 },
    { { 4, 6 }, 100, 1, 100, true, 0.2, 4, 6, 96, 4 },
    { { 512 }, 2000, 1, 100, true, 0.2, 1, 8, 0, 0 },
};

START_TEST(batches_are_those_of_deepspeed) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct elastic_case *c = &cases[i];
        double micro_batches[4];
        struct zt_elasticity_config config = { .max_batch = c->max_batch,
                                               .min_ranks = c->min_ranks,
                                               .max_ranks = c->max_ranks,
                                               .ranks_per_host = c->per_host,
                                               .prefers_larger = c->larger,
                                               .version = c->version,
                                               .micro_batches = { micro_batches, 0 } };
        struct zt_elastic_batch found;
        memcpy(micro_batches, c->micro_batches, sizeof micro_batches);
        while (config.micro_batches.count < 4 && micro_batches[config.micro_batches.count])
            config.micro_batches.count++;
        ck_assert_msg(zt_elastic_choose(&config, c->ranks, &found) == (c->micro_batch > 0), "case %zu", i);
        ck_assert_msg(found.batch == c->batch && found.micro_batch == c->micro_batch, "case %zu: %lld, %lld", i,
                      (long long)found.batch, (long long)found.micro_batch);
    }
}
END_TEST

#define ELASTIC(more)                                                                                                  \
    "\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 64, \"micro_batch_sizes\": [2, 4]" more "}"

static struct zt_config *of_ranks(const char *text, int ranks) {
    struct zt_config_overrides over = no_overrides();
    over.ranks = ranks;
    return with(text, &over);
}

START_TEST(elasticity_sets_the_batch) {
    struct zt_config *c = of_ranks("{" ELASTIC("") "}", 3);
    ck_assert(c->train_batch == 48 && c->micro_batch == 4 && c->accumulation == 4);
    ck_assert(!mentions(&c->notes, "no batch size"));
    ck_assert(mentions(&c->resolved_auto, "elasticity: train_batch_size 48, train_micro_batch_size_per_gpu 4, "));
    char *text = NULL;
    size_t size;
    struct zt_err err = { 0 };
    text = zt_config_text(c, &size, &err);
    ck_assert_ptr_nonnull(text);
    zt_config_destroy(c);
    c = of_ranks(text, 3); /* the sizes are there as well */
    ck_assert(c->train_batch == 48 && c->micro_batch == 4 && c->accumulation == 4);
    free(text);
    zt_config_destroy(c);
    c = of_ranks(
        "{\"train_batch_size\": 7, " ELASTIC(", \"ignore_non_elastic_batch_info\": true, \"version\": 0.1") "}", 2);
    ck_assert(c->train_batch == 48 && c->micro_batch == 4 && c->accumulation == 6);
    ck_assert(mentions(&c->without_effect, "train_batch_size = 7 (elasticity sets it)"));
    zt_config_destroy(c);
    c = accept("{" BATCH ", \"elasticity\": {\"enabled\": false, \"max_train_batch_size\": 64}}");
    ck_assert(c->train_batch == 8 && mentions(&c->without_effect, "elasticity.max_train_batch_size = 64"));
    zt_config_destroy(c);
}
END_TEST

START_TEST(elasticity_is_refused_where_it_fits_nothing) {
    struct zt_config_overrides over = no_overrides();
    over.ranks = 5;
    refuse_with("{" ELASTIC(", \"version\": 0.1") "}", &over,
                "elasticity.enabled: 5 data-parallel ranks cannot share a batch of 48|4 or 6 ranks would do", 1);
    over.ranks = 33;
    refuse_with("{" ELASTIC("") "}", &over, "max_train_batch_size: 64 is less than a micro-batch on each of 33", 1);
    refuse("{" BATCH ", " ELASTIC("") "}", "train_batch_size: elasticity sets it", 1);
    refuse("{\"elasticity\": {\"enabled\": true}}", "needs max_train_batch_size|needs micro_batch_sizes", 2);
    refuse("{" ELASTIC(", \"version\": 0.15") "}", "version: 0.15, wants 0.1 or 0.2", 1);
    refuse("{" ELASTIC(", \"num_gpus_per_node\": 32") "}",
           "wants integers up to max_train_batch_size / num_gpus_per_node, 2", 1);
    refuse("{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 64, \"micro_batch_sizes\": [2.5]}}",
           "2.5, wants integers", 1);
    refuse("{" ELASTIC(", \"model_parallel_size\": 2") "}", "tensor parallelism is not supported yet", 1);
}
END_TEST

int main(void) {
    const TTest *const tests[] = { batches_are_those_of_deepspeed, elasticity_sets_the_batch,
                                   elasticity_is_refused_where_it_fits_nothing };
    return run_cases("elasticity", tests, sizeof tests / sizeof tests[0]);
}
