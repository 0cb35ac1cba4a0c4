#include "plan/job/training_graph.h"

#include <stdarg.h>
#include <string.h>

void zt_job_note(struct zt_training_graph *training_graph, const char *fmt, ...) {
    struct zt_arena *arena = training_graph->graph->arena;
    const char **notes = ZT_NEW_N(arena, const char *, training_graph->note_count + 1);
    char text[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (training_graph->note_count)
        memcpy(notes, training_graph->notes, (size_t)training_graph->note_count * sizeof *notes);
    notes[training_graph->note_count++] = zt_arena_strdup(arena, text);
    training_graph->notes = notes;
}

int zt_job_add_input(struct zt_graph *g, const char *name, enum zt_dtype dtype, const struct zt_shape *shape) {
    int id = zt_graph_add_value(g, name, dtype, shape);
    g->values[id]->origin = ZT_FROM_INPUT;
    return id;
}
