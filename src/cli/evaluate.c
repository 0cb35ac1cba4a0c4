#include "train.h"

bool zt_cli_evaluate(const struct zt_options *options, struct zt_err *err) {
    struct zt_session s;
    bool ok = zt_session_open(&s, options, ZT_WEIGHTS_MAPPED, ZT_DATA_EVAL, err) && zt_session_alone(&s, err) &&
              zt_evaluate(&s, err);
    zt_session_finish(&s);
    return ok;
}
