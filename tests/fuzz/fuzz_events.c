// Hostile bytes as a TensorBoard event file that a resumed run shortens: what stays is a beginning of it, and stays.
#include "base/file.h"
#include "fuzz.h"
#include "report/event_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char name[] = "events.out.tfevents.1.host.1.0.ztrain";
    size_t before = size;
    fuzz_enter();
    fuzz_put(name, data, size);
    for (int64_t last = 100; last >= 0; last -= 50) {
        struct zt_err err = { 0 };
        struct zt_file_map map;
        fuzz_promise(zt_event_files_cut(".", "ztrain", last, &err) && zt_file_map(&map, name, ZT_EXIT_DATA, &err));
        fuzz_promise(map.size <= before && memcmp(map.data, data, map.size) == 0);
        before = map.size;
        fuzz_promise(zt_file_close(&map, true, &err));
    }
    return 0;
}
