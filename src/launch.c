/* --ranks N: this process becomes the parent of N others. */
#include "train.h"

#include "parallel/supervise.h"

bool zt_launch_wanted(const struct zt_options *options, bool *wanted, struct zt_err *err) {
    struct zt_launched launched;
    *wanted = false;
    if (!zt_launched_find(&launched, err))
        return false;
    if (launched.size > 1 || options->over.ranks <= 1)
        return true;
    struct zt_config *config = zt_config_read(options->config, &options->over, err);
    *wanted = config && !zt_session_threaded(config);
    zt_config_destroy(config);
    return config != NULL;
}

bool zt_launch(const struct zt_options *options, const char *folder, struct zt_err *err) {
    struct zt_supervise job = { .ranks = options->over.ranks, .argv = options->argv, .clean = folder };
    return zt_supervise(&job, err);
}
