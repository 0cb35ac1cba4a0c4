/* Files: mapping for reading, and writing that is seen whole or not at all. */
#ifndef ZT_BASE_FILE_H
#define ZT_BASE_FILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* A regular file mapped read-only. `data` is valid until zt_file_unmap(); an empty file has size 0 and data != NULL.
 * Other programs may cut or rewrite the file meanwhile: what was read counts when zt_file_close(), zt_mapped_intact()
 * or zt_mapped_all_intact() (mapped.h) says so afterwards. */
struct zt_file_map {
    const unsigned char *data;
    size_t size;
    struct zt_mapped *mapped;
};

/* Errors name the path and get `code`. */
bool zt_file_map(struct zt_file_map *map, const char *path, enum zt_exit code, struct zt_err *err);

/* The same for a file of a model folder named by hostile text: `name` must be relative, without "..", and neither it
 * nor a folder on the way below `folder` may be a link; only a regular file is opened. */
bool zt_file_map_below(struct zt_file_map *map, const char *folder, const char *name, enum zt_exit code,
                       struct zt_err *err);
void zt_file_unmap(struct zt_file_map *map);
/* Unmaps a file that was read with the outcome `ok`, and returns that. False with one problem where the file has
 * changed meanwhile, whatever `err` said of it. */
bool zt_file_close(struct zt_file_map *map, bool ok, struct zt_err *err);

/* A file under construction: made as PATH.tmp-PID-NUMBER, which nothing else is, renamed to PATH by commit (after
 * fsync), removed by abort. PATH may be a link, a hard one too: the name changes hands, nothing is written through it.
 */
struct zt_file_out {
    FILE *stream; /* write with stdio; errors are found by commit */
    char *path, *temporary;
};

bool zt_file_out_open(struct zt_file_out *out, const char *path, struct zt_err *err);
/* The file `name` of `folder` (zt_path_join). */
bool zt_file_out_open_in(struct zt_file_out *out, const char *folder, const char *name, struct zt_err *err);
/* After a library has put a file of its own in place of the temporary one: commit brings that one to the disk. */
bool zt_file_out_reopen(struct zt_file_out *out, struct zt_err *err);
/* Frees; false: nothing is left behind. So also where a mapped file has changed, from which the contents may come. */
bool zt_file_out_commit(struct zt_file_out *out, struct zt_err *err);
void zt_file_out_abort(struct zt_file_out *out); /* frees; harmless on a zeroed struct */

/* Writes `bytes` bytes atomically under `path`. */
bool zt_file_write(const char *path, const void *data, size_t bytes, struct zt_err *err);

/* mkdir -p */
bool zt_file_make_folder(const char *path, struct zt_err *err);
bool zt_file_exists(const char *path);
/* Names (hard links) that the regular file `path` has; 0: there is none. */
int zt_file_links(const char *path);

/* Path of `name` as seen from `base_folder` ("" or NULL: current folder; an absolute `name` stays). Free with free().
 */
char *zt_path_join(const char *base_folder, const char *name);
/* The folder part of a path, "." where there is none. Free with free(). */
char *zt_path_folder(const char *path);
/* The last part of a path, inside it. */
const char *zt_path_name(const char *path);

#endif
