#include "session/inputs.h"

#include "base/mapped.h"

#include <stdlib.h>
#include <string.h>

/* Whether the file `input` is `place`, an absolute path without links, or lies below it. */
static bool is_at(const char *input, const void *place) {
    char *path = realpath(input, NULL);
    const size_t length = strlen(place);
    const bool at = path && strncmp(path, place, length) == 0 && (path[length] == 0 || path[length] == '/');
    free(path);
    return at;
}

static bool is_named(const struct zt_options *o, const struct zt_config *c, const char *place) {
    const char *const named[] = {
        o->model, o->inputs, o->load, o->hostfile, c ? c->data.path : NULL, c ? c->data.eval_path : NULL
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i] && is_at(named[i], place))
            return true;
    for (int i = 0; i < o->configs.count; i++)
        if (is_at(o->configs.at[i], place))
            return true;
    return false;
}

bool zt_inputs_spare(const struct zt_options *o, const struct zt_config *c, const char *path, struct zt_err *err) {
    char *place = realpath(path, NULL);
    const bool read = place && (is_named(o, c, place) || zt_mapped_any(is_at, place));
    free(place);
    if (!read)
        return true;
    zt_fail(err, ZT_EXIT_DATA, "%s: cannot be written: the command reads it", path);
    return zt_hint(err, "choose another place for the output, or copy this file to another place first");
}
