/* A folder of a test's own for what is kept on disk (base/disk_cache.h). */
#ifndef ZT_TESTS_GPU_CACHE_FOLDER_H
#define ZT_TESTS_GPU_CACHE_FOLDER_H

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int cache_cut_one(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)place;
    return kind == FTW_F ? truncate(path, about->st_size / 2) : 0;
}
static inline int cache_remove_one(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind, (void)place;
    return remove(path);
}

static char cache_folder[32];

static inline bool cache_begin(void) {
    strcpy(cache_folder, "/tmp/ztrain-kept-XXXXXX");
    return mkdtemp(cache_folder) && setenv("XDG_CACHE_HOME", cache_folder, 1) == 0;
}
/* Half of every file is left. */
static inline bool cache_cut(void) {
    return nftw(cache_folder, cache_cut_one, 4, FTW_PHYS) == 0;
}
/* Nothing is kept from here on. */
static inline void cache_end(void) {
    setenv("XDG_CACHE_HOME", "none", 1);
    nftw(cache_folder, cache_remove_one, 4, FTW_DEPTH | FTW_PHYS);
}

#endif
