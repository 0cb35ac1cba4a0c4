#include "parallel/launch/cores.h"

#include <stdio.h>

bool zt_cores_share(const cpu_set_t *whole, int index, int ranks, int threads, cpu_set_t *share) {
    int each = CPU_COUNT(whole) / ranks;
    CPU_ZERO(share);
    if (each < 1 || each < threads)
        return false;
    for (int core = 0, seen = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, whole))
            continue;
        if (seen / each == index)
            CPU_SET(core, share);
        seen++;
    }
    return true;
}

void zt_cores_print(const cpu_set_t *cores, char *to, size_t room) {
    size_t length = 0;
    to[0] = 0;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        int last = first;
        if (!CPU_ISSET(first, cores))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cores))
            last++;
        int n = last > first ? snprintf(to + length, room - length, "%s%d-%d", length ? "," : "", first, last)
                             : snprintf(to + length, room - length, "%s%d", length ? "," : "", first);
        if (n < 0 || (size_t)n >= room - length) {
            to[length] = 0;
            return;
        }
        length += (size_t)n;
        first = last;
    }
}
