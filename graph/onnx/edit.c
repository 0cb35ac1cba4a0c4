#include "graph/onnx/edit.h"
#include "graph/onnx/varint.h"

void zt_onnx_edit_replace(struct zt_onnx_edits *edits, int message, size_t at, size_t end, const void *bytes,
                          size_t count) {
    zt_vec_push(&edits->list,
                (struct zt_onnx_edit){ at, end - at, bytes ? bytes : "", count, message, edits->list.count, { 0 } });
}

void zt_onnx_edit_remove(struct zt_onnx_edits *edits, int message, size_t at, size_t end) {
    zt_onnx_edit_replace(edits, message, at, end, NULL, 0);
}

void zt_onnx_edit_drop(struct zt_onnx_edits *edits, int message) {
    const struct zt_onnx_message *m = &edits->scan->messages.at[message];
    zt_onnx_edit_remove(edits, m->parent, m->tag_at, m->end);
}

static int by_place(const void *a, const void *b) {
    const struct zt_onnx_edit *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (!x->remove != !y->remove) /* an insertion precedes a removal at the same position */
        return x->remove ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

/* By how much each message grows. Children stand behind their parents, so one pass from the back sees every child's
 * growth, that of its length field included, before the parent's is passed on. Where `lengths` is given, the new length
 * fields become edits in it. */
static int64_t *growths(const struct zt_onnx_edits *edits, struct zt_onnx_edits *lengths) {
    const struct zt_onnx_scan *scan = edits->scan;
    int64_t *growth = zt_calloc((size_t)scan->messages.count, sizeof *growth);
    for (int i = 0; i < edits->list.count; i++)
        growth[edits->list.at[i].message] += (int64_t)edits->list.at[i].count - (int64_t)edits->list.at[i].remove;
    for (int i = scan->messages.count - 1; i > 0; i--) {
        const struct zt_onnx_message *m = &scan->messages.at[i];
        if (growth[i] == 0)
            continue;
        struct zt_onnx_edit edit = { .at = m->length_at, .remove = m->at - m->length_at, .message = m->parent };
        edit.count = (size_t)zt_wire_put_varint(edit.own, (uint64_t)((int64_t)(m->end - m->at) + growth[i]));
        growth[m->parent] += growth[i] + (int64_t)edit.count - (int64_t)edit.remove;
        if (lengths)
            zt_vec_push(&lengths->list, edit);
    }
    return growth;
}

uint64_t zt_onnx_edit_size(const struct zt_onnx_edits *edits) {
    int64_t *growth = growths(edits, NULL);
    uint64_t size = (uint64_t)((int64_t)edits->scan->size + growth[0]);
    free(growth);
    return size;
}

void zt_onnx_edit_write(struct zt_onnx_edits *edits, FILE *to) {
    const struct zt_onnx_scan *scan = edits->scan;
    struct zt_onnx_edits lengths = { .scan = scan };
    free(growths(edits, &lengths));
    for (int i = 0; i < lengths.list.count; i++)
        zt_vec_push(&edits->list, lengths.list.at[i]);
    zt_vec_finish(&lengths.list);
    if (edits->list.count)
        qsort(edits->list.at, (size_t)edits->list.count, sizeof *edits->list.at, by_place);
    size_t done = 0;
    for (int i = 0; i < edits->list.count; i++) {
        const struct zt_onnx_edit *e = &edits->list.at[i];
        fwrite(scan->file + done, 1, e->at - done, to);
        fwrite(e->bytes ? e->bytes : e->own, 1, e->count, to);
        done = e->at + e->remove;
    }
    fwrite(scan->file + done, 1, scan->size - done, to);
}

void zt_onnx_edit_finish(struct zt_onnx_edits *edits) {
    zt_vec_finish(&edits->list);
}
