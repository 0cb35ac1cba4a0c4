#include "cli/autotune.h"

#include "base/file.h"
#include "base/rng.h"
#include "cli/bench.h"
#include "parallel/launch/environment.h"
#include "plan/auto.h"
#include "plan/open.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIRMATIONS = 3, MOST_STEPS = 200, VARIANTS = 8 };
static const double TRIAL_SECONDS = 0.3; /* of the steps that count, at least */

struct search {
    const struct zt_options *options;
    struct zt_tuning_config how;
    char *results, *experiments, *temporary;
    struct zt_bench bench;
    int best, trials, without_gain; /* best: the row; 0: the untuned config */
};

/* A layout with one combination of the values of the axes (struct zt_tuning_axis). */
struct layout {
    struct zt_auto_candidate k; /* micro_batch 0: the combination is not possible */
    int combination, data;      /* data: data-parallel ranks */
    int order;                  /* of the list */
};
struct layouts {
    ZT_VEC(struct layout) list;
    int64_t untuned_batch;
    uint64_t seed;
};

/* ---- what is tried ---- */

static void set_key(struct zt_bench_mode *mode, const char *text) {
    int i = 0;
    while (mode->set[i][0])
        i++;
    snprintf(mode->set[i], ZT_BENCH_WORD, "%s", text);
}

static struct zt_bench_row *add_row(struct zt_bench *b, const struct zt_bench_mode *mode, int64_t batch) {
    b->modes[b->mode_count] = *mode;
    b->rows[b->row_count] = (struct zt_bench_row){ .mode = &b->modes[b->mode_count++],
                                                   .ranks = b->options->over.ranks > 0 ? b->options->over.ranks : 1,
                                                   .batch = batch };
    return &b->rows[b->row_count++];
}

/* ---- axes ---- */

static int combinations(const struct zt_tuning_config *t) {
    int count = 1;
    for (int i = 0; i < t->axis_count; i++)
        count *= t->axes[i].values.count;
    return count;
}

/* The last axis changes fastest. Combination 0 is the config as it is. */
static const char *value_of(const struct zt_tuning_config *t, int axis, int combination) {
    for (int i = t->axis_count - 1; i > axis; i--)
        combination /= t->axes[i].values.count;
    return t->axes[axis].values.at[combination % t->axes[axis].values.count];
}

static void set_axes(const struct zt_tuning_config *t, struct zt_bench_mode *mode, int combination) {
    char text[ZT_BENCH_WORD];
    for (int i = 0; i < t->axis_count; i++) {
        snprintf(text, sizeof text, "%s=%s", t->axes[i].key, value_of(t, i, combination));
        set_key(mode, text);
    }
}

/* Whether the name of a layout has the value already. */
static bool is_named(const char *key) {
    return strcmp(key, "train_micro_batch_size_per_gpu") == 0 || strcmp(key, "gradient_accumulation_steps") == 0 ||
           strcmp(key, "zero_optimization.stage") == 0;
}

/* Appends the values as DeepSpeed's autotuner does: reduce_bucket_size 5e8 is rbs5.0e+08, overlap_comm true is ocT. */
static void name_axes(const struct zt_tuning_config *t, struct zt_text *to, int combination, bool all) {
    for (int i = 0; i < t->axis_count; i++) {
        const char *key = t->axes[i].key, *value = value_of(t, i, combination), *dot = strrchr(key, '.');
        if (is_named(key) && !all)
            continue;
        zt_text_add(to, "_");
        for (const char *c = dot ? dot + 1 : key; *c; c += strcspn(c, "_"), c += *c == '_')
            zt_text_add(to, "%c", *c);
        if (strtod(value, NULL) > 9000)
            zt_text_add(to, "%.1e", strtod(value, NULL));
        else if (value[0] == 't' || value[0] == 'f')
            zt_text_add(to, "%c", value[0] - 'a' + 'A');
        else
            zt_text_add(to, "%.*s", (int)strcspn(value + (value[0] == '"'), "\""), value + (value[0] == '"'));
    }
}

/* ---- layouts ---- */

/* The names are those of DeepSpeed's autotuner: z<stage>_gas<accumulation>_tmbspg<micro-batch>. */
static void name_layout(const struct search *q, const struct layout *l, struct zt_bench_mode *mode) {
    const struct zt_auto_candidate *k = &l->k;
    struct zt_text name = { 0 };
    if (k->micro_batch)
        zt_text_add(&name, "z%d_gas%lld_tmbspg%lld", k->zero, (long long)k->accumulation, (long long)k->micro_batch);
    else
        zt_text_add(&name, "config");
    name_axes(&q->how, &name, l->combination, !k->micro_batch);
    snprintf(mode->name, sizeof mode->name, "%.*s", ZT_BENCH_WORD - 1, name.at);
    zt_text_finish(&name);
}

static void add_layout(struct search *q, const struct layout *l) {
    const struct zt_auto_candidate *k = &l->k;
    struct zt_bench_mode mode = { 0 };
    char text[ZT_BENCH_WORD];
    name_layout(q, l, &mode);
    set_axes(&q->how, &mode, l->combination);
    set_key(&mode, "ztrain.plan=fixed");
    snprintf(text, sizeof text, "pipeline.stages=%d", k->stages);
    set_key(&mode, text);
    snprintf(text, sizeof text, "train_micro_batch_size_per_gpu=%lld", (long long)k->micro_batch);
    set_key(&mode, text);
    snprintf(text, sizeof text, "gradient_accumulation_steps=%lld", (long long)k->accumulation);
    set_key(&mode, text);
    snprintf(text, sizeof text, "zero_optimization.stage=%d", k->zero);
    set_key(&mode, text);
    struct zt_bench_row *row = add_row(&q->bench, &mode, k->micro_batch * k->accumulation * l->data);
    snprintf(row->reason, sizeof row->reason, "%s", k->why);
    row->planned_seconds = k->seconds;
}

static bool is_untuned(const struct zt_auto_candidate *k, const struct zt_config *c) {
    return k->micro_batch == c->micro_batch && k->accumulation == c->accumulation && k->zero == c->zero.stage;
}

/* A random order, by the seed of the run. */
static void shuffle(struct layouts *l) {
    struct zt_rng rng = zt_rng_start(zt_rng_key(l->seed, 0, 0x74756e65, 0), 0);
    for (int i = l->list.count - 1; i > 0; i--) {
        int k = (int)zt_rng_below(&rng, (uint64_t)i + 1);
        struct layout swapped = l->list.at[i];
        l->list.at[i] = l->list.at[k];
        l->list.at[k] = swapped;
    }
}

/* Those that fit, most samples a second first. */
static int better_first(const void *a, const void *b) {
    const struct layout *x = a, *y = b;
    if (x->k.fits != y->k.fits)
        return x->k.fits ? -1 : 1;
    const double first = x->k.seconds / (double)(x->k.micro_batch * x->k.accumulation * x->data);
    const double second = y->k.seconds / (double)(y->k.micro_batch * y->k.accumulation * y->data);
    return first < second ? -1 : first > second ? 1 : x->order - y->order;
}

/* Lists the layouts of a session's config. That of the config as it is has a row of its own. */
static bool list_session(struct zt_session *s, int combination, struct layouts *to, struct zt_err *err) {
    struct zt_auto_list list = { 0 };
    const bool ok = zt_session_alone(s, err) && zt_auto_candidates(s, &list, err);
    if (ok && combination == 0) {
        to->untuned_batch = s->config->train_batch;
        to->seed = (uint64_t)s->config->seed;
    }
    for (int i = 0; i < list.count; i++)
        if (combination > 0 || !is_untuned(&list.at[i], s->config))
            zt_vec_push(&to->list,
                        ((struct layout){ list.at[i], combination, s->config->data_parallel, to->list.count }));
    zt_vec_finish(&list);
    return ok;
}

static bool list_combination(struct search *q, int combination, struct layouts *to, struct zt_err *err) {
    struct zt_session s;
    struct zt_options options = *q->options;
    struct zt_bench_mode axes = { 0 };
    struct zt_err own = { 0 };
    const char **set = zt_calloc((size_t)(options.over.set_count + ZT_BENCH_SETS), sizeof *set);
    for (int i = 0; i < options.over.set_count; i++)
        set[i] = options.over.set[i];
    set_axes(&q->how, &axes, combination);
    for (int i = 0; axes.set[i][0]; i++)
        set[options.over.set_count++] = axes.set[i];
    options.over.set = set;
    const bool ok = zt_open(&s, &options, ZT_WEIGHTS_ABSENT_OK, ZT_DATA_TRAIN | ZT_DATA_EVAL, &own) &&
                    list_session(&s, combination, to, &own);
    if (!ok && combination == 0)
        *err = own;
    if (!ok && combination > 0) {
        struct layout refused = { .combination = combination, .order = to->list.count };
        snprintf(refused.k.why, sizeof refused.k.why, "%.*s", (int)sizeof refused.k.why - 1, own.text[0]);
        zt_vec_push(&to->list, refused);
    }
    zt_open_finish(&s);
    free(set);
    return ok || combination > 0;
}

/* The untuned config is row 0. */
static bool list_rows(struct search *q, struct zt_err *err) {
    struct layouts layouts = { 0 };
    struct zt_bench *b = &q->bench;
    struct zt_bench_mode untuned = { .name = "untuned" };
    bool ok = true;
    for (int i = 0; ok && i < combinations(&q->how); i++)
        ok = list_combination(q, i, &layouts, err);
    const size_t most = (size_t)layouts.list.count + 1 + VARIANTS;
    b->modes = zt_calloc(most, sizeof *b->modes);
    b->rows = zt_calloc(most, sizeof *b->rows);
    if (ok && layouts.list.count)
        qsort(layouts.list.at, (size_t)layouts.list.count, sizeof *layouts.list.at, better_first);
    if (ok && q->how.tuner == ZT_TUNING_RANDOM)
        shuffle(&layouts);
    set_axes(&q->how, &untuned, 0);
    if (ok)
        add_row(b, &untuned, layouts.untuned_batch);
    for (int i = 0; ok && i < layouts.list.count; i++)
        add_layout(q, &layouts.list.at[i]);
    zt_vec_finish(&layouts.list);
    return ok;
}

/* ---- trials ---- */

/* Higher is better. FLOP/s of one model are its samples a second. */
static double metric_of(const struct search *q, const struct zt_bench_row *row) {
    if (row->reason[0] || !row->count)
        return 0;
    return q->how.metric == ZT_TUNING_LATENCY ? 1 / row->median : row->rate;
}

static void say_nothing(const struct zt_bench_progress *p, int64_t steps) {
    (void)p, (void)steps;
}

/* The steps of the next trial of a row: those of the config, and more where they take a few microseconds. Before the
 * row has run, its time is that of the untuned config by the ratio of their plans. */
static void choose_steps(struct search *q, const struct zt_bench_row *row) {
    const struct zt_bench_row *untuned = &q->bench.rows[0];
    double seconds = row->median;
    if (!(seconds > 0))
        seconds = untuned->median * row->planned_seconds / untuned->planned_seconds;
    double wanted = seconds > 0 ? TRIAL_SECONDS / seconds : 0;
    double steps = fmin(fmax(wanted, (double)(q->how.last_step - q->how.first_step)), MOST_STEPS);
    q->bench.steps = q->how.first_step + (int64_t)fmax(steps, 1);
}

static bool run_row(struct search *q, int i, struct zt_err *err) {
    struct zt_bench_row *row = &q->bench.rows[i];
    struct zt_bench_progress progress = { .say = say_nothing, .bench = &q->bench, .row = row };
    if (row->reason[0])
        return true;
    choose_steps(q, row);
    if (!zt_bench_run(&q->bench, row, q->temporary, &progress, err))
        return false;
    zt_bench_finish(row, 1);
    return true;
}

static void say_row(const struct search *q, const struct zt_bench_row *row) {
    const struct zt_log *log = &q->options->log;
    if (row->reason[0])
        zt_say(log, ZT_LOG_INFO, "autotuning: %s is not possible: %s", row->mode->name, row->reason);
    else
        zt_say(log, ZT_LOG_INFO, "autotuning: %s: %.1f samples/s, %.3f ms per step", row->mode->name, row->rate,
               1e3 * row->median);
}

static bool try_row(struct search *q, int i, struct zt_err *err) {
    struct zt_bench_row *row = &q->bench.rows[i];
    if (!run_row(q, i, err))
        return false;
    say_row(q, row);
    q->trials++;
    q->without_gain++;
    if (metric_of(q, row) > metric_of(q, &q->bench.rows[q->best])) {
        q->best = i;
        q->without_gain = 0;
    }
    return true;
}

static bool is_over(const struct search *q) {
    return q->trials >= q->how.trials || (q->how.early_stopping && q->without_gain >= q->how.early_stopping);
}

static bool is_axis(const struct search *q, const char *assignment) {
    const size_t n = strcspn(assignment, "=");
    for (int i = 0; i < q->how.axis_count; i++)
        if (strncmp(q->how.axes[i].key, assignment, n) == 0 && !q->how.axes[i].key[n])
            return true;
    return false;
}

/* fast: false. Communication of the best layout, in what the axes leave open. */
static bool try_variants(struct search *q, struct zt_err *err) {
    static const char *const variants[VARIANTS / 2][2] = {
        { "overlap", "zero_optimization.overlap_comm=true" },
        { "no-overlap", "zero_optimization.overlap_comm=false" },
        { "bucket1e6", "zero_optimization.reduce_bucket_size=1000000" },
        { "bucket1e7", "zero_optimization.reduce_bucket_size=10000000" },
    };
    const struct zt_bench_row base = q->bench.rows[q->best];
    bool ok = true;
    if (q->best == 0 || q->options->over.ranks <= 1)
        return true;
    for (int i = 0; ok && i < VARIANTS / 2; i++) {
        struct zt_bench_mode mode = *base.mode;
        if (is_axis(q, variants[i][1]))
            continue;
        snprintf(mode.name, sizeof mode.name, "%.60s_%s", base.mode->name, variants[i][0]);
        set_key(&mode, variants[i][1]);
        add_row(&q->bench, &mode, base.batch);
        ok = try_row(q, q->bench.row_count - 1, err);
    }
    return ok;
}

/* Measures the best and the untuned config in turn; the untuned one stays unless the other is faster. */
static bool confirm(struct search *q, struct zt_err *err) {
    struct zt_bench_row *rows = q->bench.rows;
    if (q->best)
        rows[0].count = rows[q->best].count = 0;
    for (int k = 0; q->best && k < CONFIRMATIONS; k++)
        if (!run_row(q, 0, err) || !run_row(q, q->best, err))
            return false;
    double untuned = metric_of(q, &rows[0]), best = metric_of(q, &rows[q->best]);
    if (best <= untuned)
        q->best = 0;
    if (q->best == 0)
        zt_say(&q->options->log, ZT_LOG_INFO, "autotuning: no layout is faster than the config as it is");
    else
        zt_say(&q->options->log, ZT_LOG_INFO, "autotuning: %s is chosen: %.2f times the %s of the config as it is",
               rows[q->best].mode->name, untuned > 0 ? best / untuned : INFINITY,
               q->how.metric == ZT_TUNING_LATENCY ? "steps a second" : "samples a second");
    return true;
}

static bool search(struct search *q, struct zt_err *err) {
    if (!list_rows(q, err))
        return false;
    zt_bench_predict(&q->bench, &q->bench.rows[0]);
    if (!run_row(q, 0, err))
        return false;
    q->bench.rows[0].count = 0; /* the first trial says how many steps the others take */
    if (!try_row(q, 0, err))
        return false;
    q->trials = q->without_gain = 0;
    for (int i = 1, rows = q->bench.row_count; i < rows && !is_over(q); i++)
        if (!try_row(q, i, err))
            return false;
    return (q->how.fast || try_variants(q, err)) && confirm(q, err);
}

/* ---- results ---- */

static bool write_config(const struct search *q, const struct zt_bench_row *row, const char *folder, const char *name,
                         struct zt_err *err) {
    struct zt_options options;
    char batch[ZT_BENCH_WORD];
    const char **set = zt_calloc((size_t)(q->options->over.set_count + ZT_BENCH_EXTRA_SETS), sizeof *set);
    zt_bench_overlay(&q->bench, row, &options, set, batch);
    options.over.set_count -= 2; /* the checkpoints of the config */
    options.over.steps = q->options->over.steps;
    struct zt_config *config = zt_session_config(&options.configs, &options.over, err);
    bool ok = config && zt_config_write_in(config, folder, name, err);
    zt_config_destroy(config);
    free(set);
    return ok;
}

static bool write_experiment(const struct search *q, const struct zt_bench_row *row, struct zt_err *err) {
    struct zt_file_out out;
    char name[ZT_BENCH_WORD + 8];
    char *folder = zt_path_join(q->results, row->mode->name);
    bool ok = zt_file_make_folder(folder, err) && write_config(q, row, folder, "ds_config.json", err) &&
              zt_file_out_open_in(&out, folder, "metrics.json", err);
    if (ok) {
        fprintf(out.stream, "{\"throughput\": %.10g, \"latency\": %.10g}\n", row->rate, row->median);
        ok = zt_file_out_commit(&out, err);
    }
    snprintf(name, sizeof name, "%s.json", row->mode->name);
    ok = ok && write_config(q, row, q->experiments, name, err);
    free(folder);
    return ok;
}

static bool write_summary(const struct search *q, struct zt_err *err) {
    struct zt_file_out out;
    if (!zt_file_out_open_in(&out, q->results, "summary.txt", err))
        return false;
    const char *untried = q->trials >= q->how.trials ? "not tried: autotuning.tuner_num_trials is reached"
                                                     : "not tried: autotuning.tuner_early_stopping is reached";
    fprintf(out.stream, "%-40s | samples/s    | ms per step  | result\n", "experiment");
    for (int i = 0; i < q->bench.row_count; i++) {
        const struct zt_bench_row *row = &q->bench.rows[i];
        const char *result = row->reason[0] ? row->reason : i == q->best ? "chosen" : row->count ? "" : untried;
        fprintf(out.stream, "%-40s | %12.1f | %12.3f | %s\n", row->mode->name, row->count ? row->rate : 0,
                row->count ? 1e3 * row->median : 0, result);
    }
    return zt_file_out_commit(&out, err);
}

static bool write_results(const struct search *q, struct zt_err *err) {
    bool ok =
        write_summary(q, err) && write_config(q, &q->bench.rows[q->best], q->results, "ds_config_optimal.json", err);
    for (int i = 0; ok && i < q->bench.row_count; i++)
        if (q->bench.rows[i].count)
            ok = write_experiment(q, &q->bench.rows[i], err);
    return ok;
}

/* A folder that holds earlier results is refused unless autotuning.overwrite. */
static bool open_folder(const struct search *q, const char *given, const char *folder, const char *name, char **path,
                        struct zt_err *err) {
    *path = given && given[0] ? zt_strdup(given) : zt_path_join(folder, name);
    char *summary = zt_path_join(*path, "summary.txt");
    bool taken = zt_file_exists(summary) && !q->how.overwrite && !q->options->overwrite;
    free(summary);
    if (!taken)
        return zt_file_make_folder(*path, err);
    zt_fail(err, ZT_EXIT_DATA, "%s: the folder already holds the results of autotuning", *path);
    return zt_hint(err, "set autotuning.overwrite to true, or choose another autotuning.results_dir");
}

static bool open_folders(struct search *q, const char *folder, struct zt_err *err) {
    if (!zt_file_make_folder(folder, err) ||
        !open_folder(q, q->how.results, folder, "autotuning_results", &q->results, err) ||
        !open_folder(q, q->how.experiments, folder, "autotuning_exps", &q->experiments, err))
        return false;
    q->temporary = zt_path_join(q->results, "trial.tmp-XXXXXX");
    return mkdtemp(q->temporary) ||
           zt_fail(err, ZT_EXIT_DATA, "%s: cannot create the folder: %s", q->temporary, strerror(errno));
}

/* ---- the run that follows ---- */

/* Adds the choice to the options, and to argv for the ranks that are started with it. */
static void take_choice(const struct search *q, struct zt_tuned *to) {
    const struct zt_bench_row *row = &q->bench.rows[q->best];
    int count = q->options->over.set_count, added = 0, words = 0;
    to->texts = zt_calloc(ZT_BENCH_SETS + 1, sizeof *to->texts);
    for (; added < ZT_BENCH_SETS && row->mode->set[added][0]; added++)
        memcpy(to->texts[added], row->mode->set[added], sizeof *to->texts);
    if (q->best)
        snprintf(to->texts[added++], sizeof *to->texts, "train_batch_size=%lld", (long long)row->batch);
    while (q->options->argv[words])
        words++;
    to->set = zt_calloc((size_t)(count + added) + 1, sizeof *to->set);
    to->argv = zt_calloc((size_t)(words + 2 * added) + 1, sizeof *to->argv);
    for (int i = 0; i < words; i++)
        to->argv[i] = q->options->argv[i];
    for (int i = 0; i < count + added; i++)
        to->set[i] = i < count ? q->options->over.set[i] : to->texts[i - count];
    for (int i = 0; i < added; i++) {
        to->argv[words + 2 * i] = (char *)"--set";
        to->argv[words + 2 * i + 1] = to->texts[i];
    }
    to->options.over.set = to->set;
    to->options.over.set_count = count + added;
    to->options.argv = to->argv;
}

static void finish_search(struct search *q) {
    if (q->temporary)
        zt_bench_remove(q->temporary);
    for (int i = 0; i < q->bench.row_count; i++)
        free(q->bench.rows[i].seconds);
    free(q->bench.rows);
    free(q->bench.modes);
    free(q->results);
    free(q->experiments);
    free(q->temporary);
}

bool zt_autotune_wanted(const struct zt_options *options, bool *wanted, struct zt_err *err) {
    struct zt_config_overrides over = options->over;
    struct zt_launched launched;
    *wanted = false;
    if (options->supervisor)
        return true;
    if (!zt_launched_find(&launched, err))
        return false;
    over.ranks = launched.size > 1 ? launched.size : over.ranks;
    struct zt_config *config = zt_session_config(&options->configs, &over, err);
    if (!config)
        return false;
    *wanted = config->tuning.enabled;
    zt_config_destroy(config);
    if (!*wanted || (launched.size == 1 && !options->hostfile))
        return true;
    zt_fail(err, ZT_EXIT_CONFIG,
            "autotuning.enabled: trials start their own ranks on this host, but %s starts the ranks",
            options->hostfile ? "--hostfile" : launched.launcher);
    return zt_hint(err, "use --ranks N, then train with autotuning_results/ds_config_optimal.json");
}

bool zt_autotune(const struct zt_options *options, const char *folder, struct zt_tuned *to, struct zt_err *err) {
    struct search q = { .options = options, .bench = { .options = options, .repeats = 1 } };
    *to = (struct zt_tuned){ .options = *options };
    struct zt_config *config = zt_session_config(&options->configs, &options->over, err);
    bool ok = config != NULL;
    if (ok) {
        q.how = config->tuning;
        q.bench.warmup = (int)q.how.first_step;
        ok = open_folders(&q, folder, err) && search(&q, err) && write_results(&q, err);
    }
    if (ok)
        take_choice(&q, to);
    finish_search(&q);
    zt_config_destroy(config);
    return ok;
}

void zt_tuned_finish(struct zt_tuned *tuned) {
    free((void *)tuned->set);
    free(tuned->argv);
    free(tuned->texts);
}
