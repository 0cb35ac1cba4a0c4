/* Files that take the place of memory for one run: a folder for each rank below the nvme_path of the configuration.
 *
 *     NVME_PATH/ztrain-RUN/rank0/optimizer.swp
 *
 * The folder of a rank is locked and emptied when it is opened, which removes what a killed run has left, and removed
 * when it is closed. Symbolic links below NVME_PATH are not followed. All errors have the code ZT_EXIT_DATA. */
#ifndef ZT_PARALLEL_OFFLOAD_SWAP_FILE_H
#define ZT_PARALLEL_OFFLOAD_SWAP_FILE_H

#include "base/err.h"

#include <stdint.h>

/* The folder of a rank. */
struct zt_swap_place {
    const char *path; /* nvme_path, which must exist and be writable */
    const char *run;  /* names the run: letters, digits, '-', '_', '.' */
    int rank;
};

struct zt_swap_folder;
/* Opens the folder of the place. NULL with an error, also where another process uses it. */
struct zt_swap_folder *zt_swap_folder_open(const struct zt_swap_place *place, struct zt_err *err);
/* Removes the folder with its files, and the folder of the run after its last rank. Accepts NULL. */
void zt_swap_folder_close(struct zt_swap_folder *folder);
const char *zt_swap_folder_path(const struct zt_swap_folder *folder);

struct zt_swap_file {
    char *path;
    int file;    /* -1: none */
    bool direct; /* transfers bypass the page cache and must be aligned (ZT_AIO_ALIGN) */
};
/* Creates a file of `bytes` zeros. The space is reserved, so that writing cannot fill the disk later; an error says how
 * much is needed and free. Close with zt_swap_file_finish(). */
bool zt_swap_file_init(struct zt_swap_file *file, struct zt_swap_folder *folder, const char *name, int64_t bytes,
                       struct zt_err *err);
/* Closes the file; the folder removes it. Accepts a file that was never created, with `file` -1 or all zero. */
void zt_swap_file_finish(struct zt_swap_file *file);

#endif
