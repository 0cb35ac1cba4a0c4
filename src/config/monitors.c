#include "config/monitors.h"

#include "config/keys.h"
#include "config/value.h"

#include <string.h>

static const char *const sections[] = { "tensorboard", "csv_monitor", "flops_profiler" };
enum { SECTIONS = sizeof sections / sizeof *sections };

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
    for (int i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.job_name", sections[i]);
        const struct zt_json_node *node = zt_keys_node(r, key);
        if (node && node->text && node->text[0] && !is_below(node->text))
            zt_key_fail(r, node, "\"%s\" is not a folder below output_path", node->text);
    }
}

/* Lists the settings of `section` as without effect. */
static void list_off(struct zt_reading *r, const char *section) {
    size_t n = strlen(section);
    for (int i = 0; i < r->table->count; i++) {
        const struct zt_key_row *row = r->table->row[i];
        char value[96];
        if (!r->node[i] || strncmp(row->key, section, n) != 0 || row->key[n] != '.' ||
            strcmp(row->key + n, ".enabled") == 0 || zt_value_is(r->node[i], row->def))
            continue;
        zt_json_node_show(r->node[i], value, sizeof value);
        zt_texts_add(r->arena, &r->config->without_effect, "%s = %s (%s is off)", row->key, value, section);
    }
}

void zt_config_derive_monitors(struct zt_reading *r) {
    const struct zt_json_node *print = zt_json_node_find(r->root, "steps_per_print");
    if (print && print->kind == ZT_JSON_NODE_NULL)
        r->config->steps_per_print = 0;
    if (r->config->histogram_steps > 0 && !r->config->tensorboard.enabled)
        zt_texts_add(r->arena, &r->config->notes,
                     "ztrain.monitor.histogram_steps has no effect: it needs tensorboard.enabled");
    for (int i = 0; i < SECTIONS; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.enabled", sections[i]);
        if (!zt_keys_truth(r, key))
            list_off(r, sections[i]);
    }
}
