// Hostile bytes as metrics.jsonl and memory.jsonl of a run, which ztrain report draws.
#include "cli/report_runs.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_run run;
    char *text = NULL;
    size_t bytes;
    fuzz_enter();
    fuzz_put("metrics.jsonl", data, size);
    fuzz_put("memory.jsonl", data, size);
    fuzz_promise(zt_run_read(&run, ".", &err) || (err.count == 1 && err.code == ZT_EXIT_DATA));
    FILE *to = open_memstream(&text, &bytes);
    for (enum zt_run_kind kind = 0; kind < ZT_RUN_KINDS; kind++) {
        const struct zt_run_figure figure = { "title", "unit", kind, ZT_RUN_LOSS };
        const struct zt_run_series *s = &run.series[kind];
        zt_run_draw(&run, 1, &figure, to);
        fuzz_promise(s->count <= ZT_RUN_POINTS);
        for (int i = 0; i < s->count; i++)
            fuzz_promise(isfinite(s->at[i].mean) && s->at[i].low <= s->at[i].high);
    }
    fclose(to);
    free(text);
    zt_run_finish(&run);
    return 0;
}
