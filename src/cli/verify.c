/* ztrain verify: checks a checkpoint. */
#include "cli/commands.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

#include <stdlib.h>

bool zt_cli_verify(const struct zt_options *options, struct zt_err *err) {
    char *path = zt_checkpoint_find(options->operands[0], err);
    bool ok = path && zt_checkpoint_verify(path, stdout, err);
    free(path);
    return ok;
}
