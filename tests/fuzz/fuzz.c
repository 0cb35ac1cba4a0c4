#include "fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void fuzz_promise(bool holds) {
    if (!holds)
        abort();
}

const char *fuzz_file(const uint8_t *data, size_t size) {
    static char path[64];
    static int fd = -1;
    if (fd >= 0)
        close(fd);
    fd = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_promise(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *walk) {
    (void)st, (void)kind, (void)walk;
    return remove(path);
}

void fuzz_remove(const char *name) {
    nftw(name, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void fuzz_make(const char *name) {
    fuzz_remove(name);
    fuzz_promise(mkdir(name, 0700) == 0);
}

static char folder[256];

static void remove_folder(void) {
    fuzz_remove(folder);
}

const char *fuzz_folder(void) {
    const char *below = getenv("TMPDIR");
    if (folder[0])
        return folder;
    snprintf(folder, sizeof folder, "%s/ztrain-fuzz-XXXXXX", below ? below : P_tmpdir);
    fuzz_promise(mkdtemp(folder) && atexit(remove_folder) == 0);
    return folder;
}

void fuzz_enter(void) {
    fuzz_promise(chdir(fuzz_folder()) == 0);
}

void fuzz_put(const char *name, const void *data, size_t size) {
    FILE *to = fopen(name, "wb");
    fuzz_promise(to && fwrite(data, 1, size, to) == size && fclose(to) == 0);
}
