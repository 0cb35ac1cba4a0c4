/* ztrain evaluate: evaluates the weights of the model file on the evaluation data, on one rank. */
#include "cli/commands.h"

#include "base/mapped.h"
#include "device/threads.h"
#include "plan/open.h"
#include "report/start_table.h"
#include "run/evaluate.h"
#include "run/finite.h"
#include "run/rank_data.h"

#include <math.h>

/* A result, and the cause if its loss is not finite. */
struct outcome {
    struct zt_eval_result result;
    struct zt_trace trace;
};

static bool run(struct zt_session *s, struct zt_device *device, struct zt_comm *comm, struct outcome *to,
                struct zt_err *err) {
    struct zt_rank_options options = { .eval_source = s->eval_source, .device = device, .threads = device->threads };
    struct zt_rank_plan *plan = zt_rank_plan_create(s->job, &options, err);
    zt_report_findings(s);
    if (!plan)
        return zt_session_locate(s, err, 0);
    zt_report_notes(s, &plan->programs.evaluation);
    struct zt_rank *rank = zt_rank_create(plan, device, comm, comm, NULL, err);
    struct zt_loader *loader = NULL;
    if (rank)
        zt_rank_say_data(rank, &s->options->log);
    bool ok = rank && zt_rank_loader(rank, false, 0, 0, &loader, err) &&
              zt_rank_evaluate(rank, loader, &to->result, err) &&
              (isfinite(to->result.loss) || zt_rank_trace_evaluation(rank, &to->trace, err));
    zt_loader_destroy(loader);
    zt_rank_destroy(rank);
    zt_rank_plan_destroy(plan);
    return ok;
}

/* Prints loss and metrics of the evaluation data as one row. */
static bool evaluate(struct zt_session *s, struct zt_err *err) {
    struct outcome outcome;
    const struct zt_eval_result *result = &outcome.result;
    if (!s->eval_source) {
        zt_fail(err, ZT_EXIT_CONFIG, "%s: ztrain.data.eval_path: there are no evaluation data", s->options->config);
        return zt_hint(err, "set ztrain.data.eval_path, or use --data FORMAT:PATH");
    }
    zt_parallel_enter();
    struct zt_device *device = zt_session_device(s, 0, err);
    if (!device)
        return false;
    if (!zt_parallel_start(device->threads, err)) {
        device->api->destroy(device);
        return false;
    }
    struct zt_comm *comm = zt_comm_self_create();
    bool ok = run(s, device, comm, &outcome, err);
    comm->api->destroy(comm);
    device->api->destroy(device);
    if (!zt_mapped_all_intact(err) || !ok)
        return false;
    if (isfinite(result->loss))
        printf("{\"loss\": %.9g", result->loss);
    else
        printf("{\"loss\": null"); /* JSON has no non-finite numbers */
    if (!isnan(result->accuracy))
        printf(", \"accuracy\": %.9g", result->accuracy);
    printf(", \"samples\": %lld}\n", (long long)s->eval_source->samples);
    return isfinite(result->loss) || zt_finite_fail_evaluation(result->loss, &outcome.trace, err);
}

bool zt_cli_evaluate(const struct zt_options *options, struct zt_err *err) {
    struct zt_session s;
    bool ok =
        zt_open(&s, options, ZT_WEIGHTS_MAPPED, ZT_DATA_EVAL, err) && zt_session_alone(&s, err) && evaluate(&s, err);
    zt_open_finish(&s);
    return ok;
}
