#include "shared.h"

#include "base/arena.h"
#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

char *zt_test_shared(const char *name) {
    const char *folder = getenv("ZT_SHARED");
    char *reference = zt_path_join(folder ? folder : "../shared", "reference");
    char *path = zt_path_join(reference, name);
    bool there = zt_file_exists(path);
    if (!there)
        printf("SKIP %s: no %s (set ZT_SHARED)\n", name, reference);
    free(reference);
    if (there)
        return path;
    free(path);
    return NULL;
}

bool zt_test_each_case(void (*run)(const char *folder)) {
    char *cases = zt_test_shared("cases");
    DIR *dir = cases ? opendir(cases) : NULL;
    bool any = false;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        char *folder = zt_path_join(cases, entry->d_name);
        run(folder);
        any = true;
        free(folder);
    }
    if (dir)
        closedir(dir);
    free(cases);
    return any;
}
