#include "plan/job/fusion.h"

#include "ops/table.h"

#include <string.h>

/* Former names of patterns, which ztrain.fuse accepts without a notice. */
static const struct {
    const char *former, *name;
} renamed[] = {
    { "chain", "fused_elementwise" },
    { "half", "half_propagation" },
};
enum { RENAMED = sizeof renamed / sizeof renamed[0] };

static bool matches_one(const char *glob) {
    for (int p = 0; zt_patterns[p]; p++)
        if (zt_glob(glob, zt_patterns[p]->name))
            return true;
    for (int r = 0; r < RENAMED; r++)
        if (zt_glob(glob, renamed[r].former))
            return true;
    return false;
}

/* The globs of ztrain.fuse, then the present name of every pattern whose former name a glob matches. */
static void list_allowed(const struct zt_texts *fuse, struct zt_arena *arena, struct zt_fusion *to) {
    const char **names = ZT_NEW_N(arena, const char *, fuse->count + RENAMED);
    for (int i = 0; i < fuse->count; i++)
        names[i] = fuse->at[i];
    int count = fuse->count;
    for (int r = 0; r < RENAMED; r++)
        if (zt_glob_any(fuse->at, fuse->count, renamed[r].former))
            names[count++] = renamed[r].name;
    *to = (struct zt_fusion){ zt_patterns, names, count };
}

/* A pattern that is tried again has two rows. */
static bool is_first_of_name(int p) {
    for (int before = 0; before < p; before++)
        if (strcmp(zt_patterns[before]->name, zt_patterns[p]->name) == 0)
            return false;
    return true;
}

bool zt_fusion_read(const struct zt_config *config, struct zt_arena *arena, struct zt_fusion *to, struct zt_err *err) {
    list_allowed(&config->fuse, arena, to);
    for (int i = 0; i < config->fuse.count; i++) {
        if (matches_one(config->fuse.at[i]))
            continue;
        struct zt_text names = { 0 };
        for (int p = 0; zt_patterns[p]; p++)
            if (is_first_of_name(p))
                zt_text_add(&names, "%s%s", p ? ", " : "", zt_patterns[p]->name);
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.fuse[%d]: no pattern is called \"%s\" (there are: %s)", i,
                config->fuse.at[i], names.at);
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
