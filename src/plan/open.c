#include "plan/open.h"

#include "base/mapped.h"
#include "data/sampler.h"
#include "plan/auto.h"

static bool open_there(struct zt_session *s, unsigned data, struct zt_err *err) {
    const struct zt_job *job = s->job;
    if (data & ZT_DATA_TRAIN && !(s->source = zt_source_open(s->config, false, job->wants, job->want_count, err)))
        return false;
    if (data & ZT_DATA_EVAL)
        s->eval_source = zt_source_open(s->config, true, job->wants, job->want_count, err);
    return !err->count;
}

/* Opens the data. Problems of the configuration name the origin of their key. */
static bool open_located(struct zt_session *s, unsigned data, struct zt_err *err) {
    return open_there(s, data, err) || (err->code == ZT_EXIT_CONFIG && zt_session_locate(s, err, 0));
}

static bool open_data(struct zt_session *s, unsigned data, struct zt_err *err) {
    struct zt_err missing = { 0 };
    if (!(data & ZT_DATA_IF_THERE))
        return open_located(s, data, err);
    if (open_there(s, data, &missing))
        return true;
    if (missing.code == ZT_EXIT_RUN) { /* the data exist, but memory is missing */
        *err = missing;
        return false;
    }
    zt_source_close(s->source);
    zt_source_close(s->eval_source);
    s->source = s->eval_source = NULL;
    zt_say(&s->options->log, ZT_LOG_INFO, "planned without data, from the shapes of the model: %s", missing.text[0]);
    return true;
}

/* With --strict, warnings about the model are errors. */
static bool check_findings(const struct zt_session *s, struct zt_err *err) {
    const int before = err->count;
    for (int i = 0; s->options->strict && i < s->job->finding_count; i++)
        if (s->job->findings[i].warning)
            zt_fail(err, ZT_EXIT_MODEL, "%s: %s", s->options->model, s->job->findings[i].text);
    return err->count == before;
}

/* Reports a config entry that model or data do not have: a warning, or with --strict an error. */
static bool doubt(const struct zt_session *s, const char *text, struct zt_err *err) {
    struct zt_err found = { 0 };
    zt_fail(s->options->strict ? err : &found, ZT_EXIT_CONFIG, "%s", text);
    if (s->options->strict)
        return zt_config_locate(s->config, s->options->config, err, err->count - 1);
    zt_config_locate(s->config, s->options->config, &found, 0);
    if (s->launched.rank == 0)
        zt_say(&s->options->log, ZT_LOG_WARNING, "%s", found.text[0]);
    return true;
}

static bool check_globs(const struct zt_session *s, struct zt_err *err) {
    bool ok = true;
    for (int i = 0; i < s->job->unmatched.count; i++)
        ok &= doubt(s, s->job->unmatched.at[i], err);
    return ok;
}

/* If smaller steps are dropped, no step remains; the sampler reports that. */
static bool check_batch(const struct zt_session *s, struct zt_err *err) {
    const struct zt_config *c = s->config;
    char text[ZT_ERR_TEXT];
    if (!s->source || c->data.drop_last || c->data.carries || c->train_batch <= s->source->samples)
        return true;
    snprintf(text, sizeof text,
             "train_batch_size %lld exceeds the %lld samples of the data: every step uses all samples once",
             (long long)c->train_batch, (long long)s->source->samples);
    return doubt(s, text, err);
}

static bool open_all(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights,
                     unsigned data, struct zt_err *err) {
    if (!zt_session_open(s, options, weights, !(data & ZT_DATA_TRAIN), err))
        return false;
    int before = err->count;
    if (!(data & ZT_DATA_TRAIN)) { /* what is evaluated is the file */
        s->config->qat.weights = s->config->qat.activations = ZT_QAT_NONE;
        s->config->lora.match.count = 0;
    }
    s->job = zt_job_create(s->config, s->model, err);
    if (!s->job)
        return zt_session_locate(s, err, before);
    return check_findings(s, err) && check_globs(s, err) && open_data(s, data, err) && check_batch(s, err) &&
           (!s->config->plan_auto || !(data & ZT_DATA_TRAIN) || zt_auto_choose(s, err));
}

bool zt_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights, unsigned data,
             struct zt_err *err) {
    bool ok = open_all(s, options, weights, data, err);
    if (!ok) /* the reason may be a file that changed while it was read */
        zt_mapped_all_intact(err);
    return ok;
}

bool zt_open_length(struct zt_session *s, struct zt_epochs *epochs, int64_t *steps, struct zt_err *err) {
    struct zt_config *c = s->config;
    struct zt_sampler sampler;
    const struct zt_sampling sampling = zt_sampling_of(c, s->source);
    if (!zt_sampler_init(&sampler, &sampling, err))
        return false;
    *epochs = sampler.epochs;
    *steps = c->steps > 0 ? c->steps : zt_epochs_steps(epochs, c->epochs);
    zt_sampler_finish(&sampler);
    if (c->scheduler.total_num_steps == 0) { /* "auto" in the config */
        c->scheduler.total_num_steps = *steps;
        c->scheduler.counts_run = true;
    }
    return true;
}

void zt_open_finish(struct zt_session *s) {
    zt_source_close(s->source);
    zt_source_close(s->eval_source);
    zt_job_destroy(s->job);
    zt_session_finish(s);
}
