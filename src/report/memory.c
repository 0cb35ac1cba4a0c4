#include "report/memory.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "device/device.h"
#include "plan/rank_bytes.h"
#include "plan/rank_plan.h"
#include "report/metrics_file.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const double LONGEST_WAIT = 32; /* seconds between readings */

static int64_t block_bytes(const struct zt_rank_plan *plan) {
    struct zt_rank_bytes bytes = zt_rank_plan_bytes(plan, plan->grid.data_rank);
    return zt_rank_bytes_total(&bytes);
}

/* ---- memory.jsonl ---- */

bool zt_memory_file_open(struct zt_memory_file *m, const char *folder, const struct zt_rank_plan *plan, int64_t resumed,
                         struct zt_err *err) {
    char *path = zt_path_join(folder, "memory.jsonl");
    *m = (struct zt_memory_file){ .device_bytes = plan->device_memory ? block_bytes(plan) : 0 };
    if (resumed < 0)
        unlink(path);
    bool ok = (resumed < 0 || zt_metrics_truncate(path, resumed, err)) &&
              zt_append_file_open(&m->file, path, resumed < 0, err);
    free(path);
    return ok;
}

bool zt_memory_file_step(struct zt_memory_file *m, int64_t step, struct zt_err *err) {
    const double now = zt_now();
    if (now - m->read < m->wait)
        return true;
    const int64_t bytes = zt_process_memory_of(getpid()).now;
    m->read = now;
    if (!bytes || llabs(bytes - m->latest) <= m->latest / 100) {
        m->wait = m->wait > 0 ? fmin(2 * m->wait, LONGEST_WAIT) : 1;
        return true;
    }
    m->wait = 1;
    m->latest = bytes;
    zt_text_add(&m->file.pending, "{\"step\": %lld, \"memory\": %lld", (long long)step, (long long)bytes);
    if (m->device_bytes)
        zt_text_add(&m->file.pending, ", \"device\": %lld", (long long)m->device_bytes);
    zt_text_add(&m->file.pending, "}\n");
    return zt_append_file_flush(&m->file, false, err);
}

bool zt_memory_file_close(struct zt_memory_file *m, struct zt_err *err) {
    return zt_append_file_close(&m->file, err);
}

/* ---- lines ---- */

/* Sets the bytes of the host's memory and of its available part; 0: unknown. */
static void host_memory(double *total, double *available) {
    char line[256];
    long long kilobytes;
    FILE *file = fopen("/proc/meminfo", "r");
    *total = *available = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %lld", &kilobytes) == 1)
            *total = 1024.0 * (double)kilobytes;
        if (sscanf(line, "MemAvailable: %lld", &kilobytes) == 1)
            *available = 1024.0 * (double)kilobytes;
    }
    if (file)
        fclose(file);
}

void zt_memory_say(const char *tag, struct zt_device *device, const struct zt_log *log) {
    static const double GB = 1024.0 * 1024 * 1024;
    const double blocks = (double)device->allocated, most = (double)zt_device_peak(device);
    struct zt_process_memory process = zt_process_memory_of(getpid());
    double total, available;
    host_memory(&total, &available);
    const double now = device->module ? blocks : (double)process.now;
    const double peak = device->module ? most : (double)process.peak;
    zt_say(log, ZT_LOG_INFO, "%s", tag);
    zt_say(log, ZT_LOG_INFO, "MA %.2f GB         Max_MA %.2f GB         CA %.2f GB         Max_CA %.0f GB", blocks / GB,
           most / GB, now / GB, nearbyint(peak / GB));
    zt_say(log, ZT_LOG_INFO, "CPU Virtual Memory:  used = %.2f GB, percent = %.1f%%", (total - available) / GB,
           total > 0 ? 100 * (total - available) / total : 0);
}
