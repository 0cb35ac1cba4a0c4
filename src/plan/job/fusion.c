#include "plan/job/fusion.h"

#include "ops/table.h"

#include <string.h>

static bool fits_one(const char *glob) {
    for (int p = 0; zt_patterns[p]; p++)
        if (zt_glob(glob, zt_patterns[p]->name))
            return true;
    return false;
}

/* Rows of several back ends may have one name. */
static bool is_first_of_name(int p) {
    for (int before = 0; before < p; before++)
        if (strcmp(zt_patterns[before]->name, zt_patterns[p]->name) == 0)
            return false;
    return true;
}

bool zt_fusion_read(const struct zt_config *config, struct zt_fusion *to, struct zt_err *err) {
    *to = (struct zt_fusion){ zt_patterns, config->fuse.at, config->fuse.count };
    for (int i = 0; i < config->fuse.count; i++) {
        if (fits_one(config->fuse.at[i]))
            continue;
        struct zt_text names = { 0 };
        for (int p = 0; zt_patterns[p]; p++)
            if (is_first_of_name(p))
                zt_text_add(&names, "%s%s", p ? ", " : "", zt_patterns[p]->name);
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.fuse: no pattern is called \"%s\" (there are: %s)", config->fuse.at[i],
                names.at);
        zt_text_finish(&names);
    }
    return !err->count;
}

int *zt_fusion_counts(struct zt_arena *arena) {
    int count = 0;
    while (zt_patterns[count])
        count++;
    return ZT_NEW_N(arena, int, count + 1);
}

void zt_fusion_list(const int *counts, struct zt_text *to) {
    for (int p = 0, listed = 0; zt_patterns[p]; p++)
        if (counts[p])
            zt_text_add(to, "%s%s %d", listed++ ? ", " : "", zt_patterns[p]->name, counts[p]);
}
