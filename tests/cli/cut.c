/* Preloaded into ztrain: a file loses its end just after it was mapped, since the program closes its descriptor then.
 *
 *     ZT_CUT="BYTES NTH FILE"      at the NTH close of a descriptor of FILE (an absolute path) that file keeps BYTES
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int close(int fd) {
    static int calls;
    const char *wanted = getenv("ZT_CUT");
    char link[64], path[PATH_MAX];
    int at = 0, nth = 0;
    long long bytes;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (wanted && length > 0 && sscanf(wanted, "%lld %d %n", &bytes, &nth, &at) == 2) {
        path[length] = 0;
        if (strcmp(path, wanted + at) == 0 && ++calls == nth && truncate(path, bytes) != 0)
            abort();
    }
    return ((int (*)(int))(uintptr_t)dlsym(RTLD_NEXT, "close"))(fd);
}
