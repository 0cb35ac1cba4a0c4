/* Files: memory mapping for reading, and atomic writing. */
#ifndef ZT_BASE_FILE_H
#define ZT_BASE_FILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* A regular file, mapped read-only. `data` is valid until zt_file_unmap(); an empty file has size 0 and a non-NULL
 * `data`. Other programs may truncate or rewrite the file meanwhile: the data read are only valid if zt_file_close(),
 * zt_mapped_intact() or zt_mapped_all_intact() (mapped.h) confirms it afterwards. */
struct zt_file_map {
    const unsigned char *data;
    size_t size;
    struct zt_mapped *mapped;
};

/* Maps the file `path`. Errors name the path and have the exit code `code`. */
bool zt_file_map(struct zt_file_map *map, const char *path, enum zt_exit code, struct zt_err *err);

/* Maps the file `name` below the folder of a model. `name` is hostile text: it must be relative and without "..".
 * Symbolic links are refused, for the file and for folders below `folder`, and only regular files are opened. */
bool zt_file_map_below(struct zt_file_map *map, const char *folder, const char *name, enum zt_exit code,
                       struct zt_err *err);
void zt_file_unmap(struct zt_file_map *map);
/* Unmaps a file. `ok` is the outcome of reading it, which is returned. If the file has changed meanwhile, returns
 * false, and that is the only problem in `err`. */
bool zt_file_close(struct zt_file_map *map, bool ok, struct zt_err *err);

/* A file under construction. It is created as PATH.tmp-PID-NUMBER, renamed to PATH by commit (after fsync), or removed
 * by abort. If PATH is a symbolic or hard link, the link is replaced; the linked file does not change. */
struct zt_file_out {
    FILE *stream; /* for stdio; commit reports write errors */
    char *path, *temporary;
};
/* Creates the temporary file of `path`. A folder, device or fifo at `path`, or one that a link there leads to, is an
 * error. Errors have the code ZT_EXIT_DATA. */
bool zt_file_out_open(struct zt_file_out *out, const char *path, struct zt_err *err);
/* Opens the file `name` in `folder` (zt_path_join). */
bool zt_file_out_open_in(struct zt_file_out *out, const char *folder, const char *name, struct zt_err *err);
/* Opens the temporary file again after a library has replaced it, so that commit flushes the new one to disk. */
bool zt_file_out_reopen(struct zt_file_out *out, struct zt_err *err);
/* Commits the file and frees `out`. On failure no file is left behind. It also fails if a mapped file has changed,
 * because the contents may come from it. */
bool zt_file_out_commit(struct zt_file_out *out, struct zt_err *err);
void zt_file_out_abort(struct zt_file_out *out); /* frees `out`; accepts a zeroed struct */

/* Writes `bytes` bytes to `path` atomically. */
bool zt_file_write(const char *path, const void *data, size_t bytes, struct zt_err *err);

/* Creates the folder `path` and its parents. */
bool zt_file_make_folder(const char *path, struct zt_err *err);
bool zt_file_exists(const char *path);
bool zt_file_is_folder(const char *path);
/* Returns the number of hard links of the regular file `path`; 0 if there is no such file. */
int zt_file_links(const char *path);

/* Returns the path of `name` relative to `base_folder` ("" or NULL: the current folder). An absolute `name` is returned
 * as it is. The caller frees with free(). */
char *zt_path_join(const char *base_folder, const char *name);
/* Returns the folder part of a path, "." if there is none. The caller frees with free(). */
char *zt_path_folder(const char *path);
/* Returns the last component of a path, a pointer into `path`. */
const char *zt_path_name(const char *path);

#endif
