/* Locations in memory of the contents of a checkpoint's files: whole files, or slices of them. */
#ifndef ZT_CHECKPOINT_SOURCES_H
#define ZT_CHECKPOINT_SOURCES_H

#include "base/vec.h"
#include "checkpoint/format.h"

struct zt_extent {
    int64_t at, end; /* in the file */
    const unsigned char *from;
};

struct zt_sources {
    ZT_VEC(struct zt_extent) list[ZT_STORED_FILES][2]; /* by file; originals and copies (parts.h) */
};

/* Adds bytes at..end-1 of a file (enum of format.h), which lie at `from` in memory of the caller, who keeps it until
 * zt_sources_finish(). copy: another rank writes the original (parts.h). */
void zt_sources_add(struct zt_sources *s, int file, bool copy, const struct zt_extent *extent);
/* Must be called after the last extent is added. */
void zt_sources_sort(struct zt_sources *s);
/* Returns the contents of a file from `at` on, of an original if there is one, and cuts *bytes to what is there; NULL:
 * nothing is. */
const unsigned char *zt_sources_at(const struct zt_sources *s, int file, int64_t at, int64_t *bytes);
void zt_sources_finish(struct zt_sources *s);

#endif
