#include "report/creation.h"

#include "base/clock.h"
#include "report/memory.h"

static void say_memory(const struct zt_creation_lines *lines, enum zt_rank_point point) {
    static const struct {
        const char *tag;
        int first_stage; /* the tag is of this ZeRO stage and those above */
    } tags[] = {
        [ZT_RANK_BEGINS] = { "Stage 3 initialize beginning", 3 },
        [ZT_RANK_HAS_PARAMETERS] = { "After creating fp32 partitions", 3 },
        [ZT_RANK_LACKS_STATES] = { "Before initializing optimizer states", 0 },
        [ZT_RANK_HAS_STATES] = { "After initializing optimizer states", 0 },
        [ZT_RANK_READY] = { "After initializing ZeRO optimizer", 1 },
    };
    const int stage = lines->config->zero.stage;
    if ((stage > 0 || lines->config->memory_breakdown) && stage >= tags[point].first_stage)
        zt_memory_say(tags[point].tag, lines->device, lines->log);
}

void zt_creation_at(void *with, enum zt_rank_point point) {
    struct zt_creation_lines *lines = with;
    if (point == ZT_RANK_HAS_STATES && lines->config->wall_clock_breakdown && lines->config->zero.stage == 3)
        zt_say(lines->log, ZT_LOG_INFO, "time (ms) | init_optimizer_state: %.2f", 1e3 * (zt_now() - lines->began));
    say_memory(lines, point);
    if (point == ZT_RANK_LACKS_STATES)
        lines->began = zt_now();
}
