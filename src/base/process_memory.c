#include "base/process_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static FILE *open_of(int pid, const char *file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    return fopen(path, "r");
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
    char line[256];
    long long peak = 0;
    FILE *file = open_of(pid, "status");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld", &peak) == 1)
            break;
    if (file)
        fclose(file);
    return peak * 1024;
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
