#include "config/monitors.h"

#include "config/keys.h"
#include "config/value.h"

#include <string.h>

/* Whether `name` is a relative path without empty parts, "." and "..". */
static bool is_below(const char *name) {
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n <= 2 && strspn(part, ".") >= n))
            return false;
    }
    return true;
}

void zt_config_check_monitors(struct zt_reading *r) {
    static const char *const keys[] = { "tensorboard.job_name", "csv_monitor.job_name" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct zt_json_node *node = zt_keys_node(r, keys[i]);
        if (node && node->text && node->text[0] && !is_below(node->text))
            zt_key_fail(r, node, "\"%s\" is not a folder below output_path", node->text);
    }
}

void zt_config_derive_monitors(struct zt_reading *r) {
    const struct zt_json_node *print = zt_json_node_find(r->root, "steps_per_print");
    if (print && print->kind == ZT_JSON_NODE_NULL)
        r->config->steps_per_print = 0;
    const struct zt_json_node *breakdown = zt_keys_node(r, "wall_clock_breakdown");
    if (breakdown && !breakdown->automatic && !r->config->wall_clock_breakdown && r->config->flops.enabled)
        zt_texts_add(r->arena, &r->config->notes,
                     "wall_clock_breakdown false has no effect: flops_profiler turns it on, as in DeepSpeed");
    r->config->wall_clock_breakdown |= r->config->flops.enabled;
    if (r->config->histogram_steps > 0 && !r->config->tensorboard.enabled)
        zt_texts_add(r->arena, &r->config->notes,
                     "ztrain.monitor.histogram_steps has no effect: it needs tensorboard.enabled");
}
