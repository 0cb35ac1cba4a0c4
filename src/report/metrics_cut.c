/* Truncation of metrics.jsonl for a resumed run. */
#include "report/monitor.h"

#include "base/arena.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

/* Returns the step of a row written by this program; -1: another line. */
static int64_t row_step(const char *row, size_t bytes) {
    static const char start[] = "{\"step\": ";
    size_t n = sizeof start - 1;
    int64_t step = 0;
    if (bytes <= n || memcmp(row, start, n) != 0)
        return -1;
    for (; n < bytes && row[n] >= '0' && row[n] <= '9'; n++)
        if (__builtin_mul_overflow(step, 10, &step) || __builtin_add_overflow(step, row[n] - '0', &step))
            return -1;
    return n < bytes && row[n] == ',' ? step : -1;
}

/* Writes the remaining rows to a new file, so that hard links of the old file (`cp -al` of a run) keep their contents.
 */
bool zt_monitor_truncate(const char *path, int64_t step, struct zt_err *err) {
    struct zt_file_map map;
    size_t keep = 0;
    if (!zt_file_exists(path))
        return true;
    if (!zt_file_map(&map, path, ZT_EXIT_DATA, err))
        return false;
    while (keep < map.size) { /* also removes an incomplete line of a killed program */
        const char *row = (const char *)map.data + keep, *end = memchr(row, '\n', map.size - keep);
        int64_t at = end ? row_step(row, (size_t)(end - row)) : -1;
        if (at < 0 || at > step)
            break;
        keep += (size_t)(end + 1 - row);
    }
    bool ok = (keep == map.size && zt_file_links(path) == 1) || zt_file_write(path, map.data, keep, err);
    return zt_file_close(&map, ok, err);
}
