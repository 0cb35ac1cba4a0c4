// Hostile bytes as a config: what is accepted is written as config.resolved.json, which reads as itself.
#include "base/arena.h"
#include "config/config.h"
#include "fuzz.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

static const struct zt_config_overrides none = { .epochs = -1, .steps = -1, .seed = -1 };

static struct zt_config *read_one(const char *path, struct zt_err *err) {
    return zt_session_config(&(struct zt_texts){ &path, 1 }, &none, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    size_t bytes, bytes_again;
    struct zt_config *config = read_one(fuzz_file(data, size), &err);
    fuzz_promise(config ? err.count == 0 : err.count > 0);
    if (!config) {
        zt_err_finish(&err);
        return 0;
    }
    char *text = zt_config_text(config, &bytes, &err);
    struct zt_config *again = read_one(fuzz_file((const uint8_t *)text, bytes), &err);
    fuzz_promise(again);
    char *text_again = zt_config_text(again, &bytes_again, &err);
    fuzz_promise(bytes == bytes_again && memcmp(text, text_again, bytes) == 0);
    zt_config_destroy(again);
    zt_config_destroy(config);
    free(text_again);
    free(text);
    return 0;
}
