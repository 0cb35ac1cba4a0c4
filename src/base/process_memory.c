#include "base/process_memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_of(int pid, const char *file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    return fopen(path, "r");
}

/* Bytes of the first line "KEY: N kB"; 0: there is none. `file` may be NULL and is closed. */
static int64_t bytes_of(FILE *file, const char *key) {
    char line[256];
    int64_t bytes = 0;
    while (file && !bytes && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
            bytes = strtoll(line + strlen(key) + 1, NULL, 10) * 1024;
    if (file)
        fclose(file);
    return bytes;
}

/* Bytes of shared memory of other ranks, which are mapped read-only. */
static int64_t peers_bytes(int pid) {
    char line[512], access[8];
    long long kilobytes, total = 0;
    bool peers = false;
    FILE *file = open_of(pid, "smaps");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*x-%*x %7s", access) == 1)
            peers = strcmp(access, "r--s") == 0 && strstr(line, ZT_SHARED_NAME) != NULL;
        else if (peers && sscanf(line, "Rss: %lld", &kilobytes) == 1)
            total += kilobytes;
    }
    if (file)
        fclose(file);
    return total * 1024;
}

int64_t zt_process_memory_high(int pid) {
    return bytes_of(open_of(pid, "status"), "VmHWM");
}

struct zt_process_memory zt_process_memory_of(int pid) {
    char line[256];
    long long now = 0, peak = 0, shared = 0;
    FILE *file = open_of(pid, "status");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld", &peak) != 1 && sscanf(line, "VmRSS: %lld", &now) != 1 &&
            sscanf(line, "RssShmem: %lld", &shared) == 1)
            break; /* all three values were found */
    if (!file)
        return (struct zt_process_memory){ 0 };
    fclose(file);
    int64_t peers = shared ? peers_bytes(pid) : 0; /* reading it takes time from the process */
    return (struct zt_process_memory){ now * 1024 - peers, peak * 1024 - peers };
}

/* ---- of the host ---- */

const struct zt_memory_files zt_memory_files = { "/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup" };

static void lower(struct zt_host_memory *m, int64_t bytes, const char *source) {
    if (bytes <= 0 || (m->bytes && bytes >= m->bytes))
        return;
    m->bytes = bytes;
    snprintf(m->source, sizeof m->source, "%.500s", source);
}

/* "max", version 2's word for no limit, is no number. */
static void read_limit(struct zt_host_memory *m, const char *path) {
    long long bytes;
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fscanf(file, "%lld", &bytes) == 1)
        lower(m, bytes, path);
    fclose(file);
}

/* Reads the limit `name` of the group `group` ("/a/b") below `mount`, and of the groups around it. In a container the
 * path may be that of the host, of which only the root is mounted. */
static void read_groups(struct zt_host_memory *m, const char *mount, const char *group, const char *name) {
    char path[1024], at[512];
    snprintf(at, sizeof at, "%s", group);
    for (;;) {
        if (snprintf(path, sizeof path, "%s%s/%s", mount, at, name) < (int)sizeof m->source)
            read_limit(m, path);
        char *slash = strrchr(at, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

static bool has_memory(char *controllers) {
    char *rest = NULL;
    for (char *one = strtok_r(controllers, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
        if (strcmp(one, "memory") == 0)
            return true;
    return false;
}

/* A line of /proc/self/cgroup: "0::/group" of version 2, "4:memory:/group" of version 1. */
static void read_line(struct zt_host_memory *m, char *line, const char *mounts) {
    char mount[512];
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return;
    *controllers++ = 0;
    *group++ = 0;
    if (!controllers[0]) {
        read_groups(m, mounts, group, "memory.max");
        snprintf(mount, sizeof mount, "%s/unified", mounts);
        read_groups(m, mount, group, "memory.max");
    } else if (has_memory(controllers)) {
        snprintf(mount, sizeof mount, "%s/memory", mounts);
        read_groups(m, mount, group, "memory.limit_in_bytes");
    }
}

struct zt_host_memory zt_host_memory(const struct zt_memory_files *files) {
    struct zt_host_memory m = { 0 };
    char line[512];
    lower(&m, bytes_of(fopen(files->meminfo, "re"), "MemTotal"), "the machine");
    FILE *file = fopen(files->cgroup, "re");
    while (file && fgets(line, sizeof line, file))
        read_line(&m, line, files->mounts);
    if (file)
        fclose(file);
    return m;
}

static int64_t host_bytes;

static void read_host_bytes(void) {
    host_bytes = zt_host_memory(&zt_memory_files).bytes;
}

int64_t zt_host_memory_bytes(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_host_bytes);
    return host_bytes;
}
