/* A folder of its own for every test, which is removed at its end: make_folder and remove_folder are a checked fixture.
 */
#ifndef ZT_TESTS_BASE_SCRATCH_H
#define ZT_TESTS_BASE_SCRATCH_H

#include "tests/suite.h"

#include "base/arena.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *folder;

static void make_folder(void) {
    const char *temporary = getenv("TMPDIR");
    folder = zt_path_join(temporary ? temporary : P_tmpdir, "ztrain-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
    char *command = zt_malloc(strlen(folder) + 16);
    sprintf(command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
    free(command);
    free(folder);
}

#endif
