/* Memory of a run over its steps: memory.jsonl, and the lines of memory_breakdown. */
#ifndef ZT_REPORT_MEMORY_H
#define ZT_REPORT_MEMORY_H

#include "base/log.h"
#include "report/append_file.h"

struct zt_device;
struct zt_rank_plan;

/* memory.jsonl has rows {"step": 1, "memory": BYTES}: the memory of rank 0's process after a step. On a device
 * with its own memory {"step": 1, "memory": BYTES, "device": BYTES} adds the rank's blocks there. A row is written if
 * the memory has changed by more than 1 %. It is read once per second, and less often while it does not change, because
 * reading takes time from the process. */
struct zt_memory_file {
    struct zt_append_file file;
    double read, wait; /* time of the latest reading, from zt_now(); seconds to the next one */
    int64_t latest, device_bytes;
};

/* Opens the file in `folder`. resumed: rows after this step are removed; -1: the file is new. */
bool zt_memory_file_open(struct zt_memory_file *to, const char *folder, const struct zt_rank_plan *plan,
                         int64_t resumed, struct zt_err *err);
bool zt_memory_file_step(struct zt_memory_file *file, int64_t step, struct zt_err *err);
bool zt_memory_file_close(struct zt_memory_file *file, struct zt_err *err);

/* Prints DeepSpeed's memory lines. MA is the memory of the rank's blocks now, Max_MA the most since the previous lines;
 * CA and Max_CA are the memory of the process now and at most so far. On a device with its own memory ztrain keeps no
 * freed memory, and CA and Max_CA are MA and Max_MA.
 *
 *     TAG
 *     MA 0.01 GB         Max_MA 0.01 GB         CA 0.05 GB         Max_CA 0 GB
 *     CPU Virtual Memory:  used = 3.10 GB, percent = 20.1% */
void zt_memory_say(const char *tag, struct zt_device *device, const struct zt_log *log);

#endif
