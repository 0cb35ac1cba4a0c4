/* A scratch folder with files, which the test removes. */
#ifndef ZT_TESTS_DATA_FOLDER_H
#define ZT_TESTS_DATA_FOLDER_H

#include "fixture.h"

#include <ftw.h>
#include <sys/stat.h>

static inline const char *scratch_folder(char to[64]) {
    strcpy(to, "folder-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(to));
    return to;
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *walk) {
    (void)st, (void)kind, (void)walk;
    return remove(path);
}

static inline void remove_folder(const char *path) {
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes FOLDER/NAME and returns its path. */
static inline const char *put(char to[256], const char *folder, const char *name, const void *bytes, size_t size) {
    snprintf(to, 256, "%s/%s", folder, name);
    write_bytes(to, bytes, size);
    return to;
}

static inline struct zt_source *open_path(const char *format, const char *path, void *params,
                                          const struct zt_want *wants, int count, struct zt_err *err) {
    struct zt_config config = { .data = { .format = format, .path = path, .params = params } };
    *err = (struct zt_err){ 0 };
    return zt_source_open(&config, false, wants, count, err);
}

static inline int64_t read_label(const struct zt_source *source, int column, int64_t index) {
    struct zt_err err = { 0 };
    int64_t label = -1;
    ck_assert_msg(zt_source_read(source, column, (struct zt_sample){ index, 0 }, &label, &err), "%s", err.text[0]);
    return label;
}

#endif
