#include "report/creation.h"

#include "base/clock.h"
#include "parallel/schedule/collectives.h"
#include "report/memory.h"

static void say_memory(const struct zt_creation_lines *lines, enum zt_rank_point point) {
    static const struct {
        const char *tag;
        enum { ANY, SHARDED_STATES, SHARDED_PARAMETERS } of; /* the optimizer that DeepSpeed prints the tag for */
    } tags[] = {
        [ZT_RANK_BEGINS] = { "Stage 3 initialize beginning", SHARDED_PARAMETERS },
        [ZT_RANK_HAS_PARAMETERS] = { "After creating fp32 partitions", SHARDED_PARAMETERS },
        [ZT_RANK_LACKS_STATES] = { "Before initializing optimizer states", ANY },
        [ZT_RANK_HAS_STATES] = { "After initializing optimizer states", ANY },
        [ZT_RANK_READY] = { "After initializing ZeRO optimizer", SHARDED_STATES },
    };
    const struct zt_sharding *asked = zt_sharding_of(lines->config->zero.stage);
    const bool printed[] = { [ANY] = zt_sharding_splits_update(asked) || lines->config->memory_breakdown,
                             [SHARDED_STATES] = zt_sharding_splits_update(asked),
                             [SHARDED_PARAMETERS] = zt_sharding_gathers_for_use(asked) };
    if (printed[tags[point].of])
        zt_memory_say(tags[point].tag, lines->device, lines->log);
}

void zt_creation_at(void *with, enum zt_rank_point point) {
    struct zt_creation_lines *lines = with;
    const bool gathers = zt_sharding_gathers_for_use(zt_sharding_of(lines->config->zero.stage));
    if (point == ZT_RANK_HAS_STATES && lines->config->wall_clock_breakdown && gathers)
        zt_say(lines->log, ZT_LOG_INFO, "time (ms) | init_optimizer_state: %.2f", 1e3 * (zt_now() - lines->began));
    say_memory(lines, point);
    if (point == ZT_RANK_LACKS_STATES)
        lines->began = zt_now();
}
