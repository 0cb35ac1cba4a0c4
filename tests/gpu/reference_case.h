/* A case of tests/reference, whose folder $ZT_REFERENCE names, opened to be trained. */
#ifndef ZT_TESTS_GPU_REFERENCE_CASE_H
#define ZT_TESTS_GPU_REFERENCE_CASE_H

#include "plan/open.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

struct reference_case {
    char model[4096], config[4096];
    struct zt_options options;
    struct zt_session session; /* borrows all of it: zt_open_finish() when done */
};

/* `set`: key.path=value, borrowed as long as the session. */
static inline void open_reference_case(struct reference_case *c, const char *name, int64_t steps,
                                       const char *const *set, int set_count) {
    struct zt_err err = { 0 };
    snprintf(c->model, sizeof c->model, "%s/cases/%s/model.onnx", getenv("ZT_REFERENCE"), name);
    snprintf(c->config, sizeof c->config, "%s/cases/%s/config.json", getenv("ZT_REFERENCE"), name);
    c->options = (struct zt_options){ .model = c->model, .config = c->config };
    c->options.configs = (struct zt_texts){ &c->options.config, 1 };
    c->options.over =
        (struct zt_config_overrides){ .set = set, .set_count = set_count, .epochs = -1, .steps = steps, .seed = -1 };
    c->options.log.level = ZT_LOG_ERROR;
    ck_assert_msg(zt_open(&c->session, &c->options, ZT_WEIGHTS_MAPPED, ZT_DATA_TRAIN, &err), "%s: %s", name,
                  err.text[0]);
}

#endif
