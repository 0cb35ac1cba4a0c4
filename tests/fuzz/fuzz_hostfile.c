// Hostile bytes as a hostfile; behind a first zero byte --include, behind a second --exclude.
#include "fuzz.h"
#include "parallel/launch/hostfile.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_hosts hosts;
    struct zt_arena *arena = zt_arena_create();
    char *text = zt_arena_alloc(arena, size + 3); /* three texts, each with its end */
    memcpy(text, data, size);
    memset(text + size, 0, 3);
    const size_t bytes = strlen(text);
    const char *include = text + bytes + (bytes < size), *exclude = include + strlen(include) + 1;
    if (exclude > text + size)
        exclude = "";
    bool ok = zt_hostfile_parse(arena, &(struct zt_hostfile_text){ text, bytes, "hosts" }, include[0] ? include : NULL,
                                !include[0] && exclude[0] ? exclude : NULL, &hosts, &err);
    fuzz_promise(ok || err.count > 0);
    int ranks = 0;
    for (int i = 0; ok && i < hosts.count; i++) {
        fuzz_promise(hosts.at[i].ranks > 0 && hosts.at[i].ranks <= hosts.at[i].slots);
        ranks += hosts.at[i].ranks;
    }
    if (ok) {
        fuzz_promise(ranks == hosts.ranks && strlen(zt_hosts_list(arena, &hosts)) > 0);
    }
    zt_arena_destroy(arena);
    return 0;
}
