/* ztrain plan: prints the plan of all ranks and runs nothing. External data may be absent. */
#include "cli/commands.h"

#include "plan/host_need.h"
#include "plan/open.h"
#include "plan/print.h"
#include "plan/profile.h"
#include "plan/trace.h"
#include "report/start_table.h"
#include "session/inputs.h"

#include "base/mapped.h"
#include "base/text.h"
#include "device/threads.h"

/* Opens the GPU of this machine if the plan is for a GPU and no cluster is named; otherwise the host, as a stand-in for
 * a device elsewhere. */
static struct zt_device *open_device(struct zt_session *s, bool *elsewhere) {
    struct zt_err why = { 0 };
    *elsewhere = zt_session_elsewhere(s);
    struct zt_device *device = *elsewhere && !s->config->cluster[0] ? zt_session_device(s, 0, &why) : NULL;
    if (why.count)
        zt_say(&s->options->log, ZT_LOG_INFO, "planned without a GPU: %s", why.text[0]);
    *elsewhere &= !device;
    return device ? device : zt_device_host_create(zt_session_threads(s));
}

static bool write(const struct zt_plan *plan, const struct zt_options *options, struct zt_err *err) {
    if (options->json)
        zt_plan_print_json(plan, stdout);
    else
        zt_plan_print(plan, stdout);
    return (!options->trace || zt_plan_trace(plan, options->trace, err)) &&
           (!options->nodes || zt_profile_write(&(struct zt_profile){ .plan = plan }, options->nodes, err));
}

/* Ranks that are planned here may run on several hosts: only a rank that alone exceeds this host's memory is an error.
 */
static bool check_memory(const struct zt_session *s, const struct zt_plan *plan, struct zt_err *err) {
    const struct zt_host_memory memory = zt_host_memory(&zt_memory_files);
    struct zt_host_need sum = { 0 };
    char text[2][32];
    bool ok = true;
    for (int st = 0; st < plan->grid.stages; st++)
        for (int r = 0; r < plan->grid.data; r++) {
            const struct zt_host_need need = zt_rank_plan_need(plan->stage[st], r);
            zt_host_need_add(&sum, &need);
            ok = ok && zt_host_need_fits(&need, &memory, "a rank", err);
        }
    zt_say(&s->options->log, ZT_LOG_INFO, "host memory: %s for all ranks of the plan; this host has %s (%s)",
           zt_format_bytes(text[0], (double)zt_host_need_total(&sum)), zt_format_bytes(text[1], (double)memory.bytes),
           memory.source);
    return ok || zt_config_locate(s->config, s->options->config, err, 0);
}

static bool make(struct zt_session *s, struct zt_err *err) {
    struct zt_machine machine;
    bool elsewhere;
    struct zt_device *device = open_device(s, &elsewhere);
    struct zt_plan_options o = { .source = s->source,
                                 .eval_source = s->eval_source,
                                 .device = device,
                                 .threads = device->threads,
                                 .machine = &machine,
                                 .elsewhere = elsewhere };
    bool known = zt_session_machine(s, elsewhere ? NULL : device, &machine, err);
    if (known)
        zt_report_findings(s);
    struct zt_plan *plan = known ? zt_plan_create(s->job, &o, err) : NULL;
    bool ok = plan || (known && zt_session_locate(s, err, 0));
    ok = ok && write(plan, s->options, err) && (elsewhere || check_memory(s, plan, err));
    ok = zt_mapped_all_intact(err) && ok;
    zt_plan_destroy(plan);
    device->api->destroy(device);
    return ok;
}

/* The files that are written are not those that are read. */
static bool spares(const struct zt_session *s, struct zt_err *err) {
    const struct zt_options *o = s->options;
    return (!o->trace || zt_inputs_spare(o, s->config, o->trace, err)) &&
           (!o->nodes || zt_inputs_spare(o, s->config, o->nodes, err));
}

bool zt_cli_plan(const struct zt_options *options, struct zt_err *err) {
    struct zt_session s;
    zt_parallel_enter();
    bool ok = zt_open(&s, options, ZT_WEIGHTS_ABSENT_OK, ZT_DATA_TRAIN | ZT_DATA_EVAL | ZT_DATA_IF_THERE, err) &&
              zt_session_alone(&s, err) && spares(&s, err) && make(&s, err);
    zt_open_finish(&s);
    return ok;
}
