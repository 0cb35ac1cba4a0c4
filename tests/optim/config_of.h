/* A configuration from a text, with the optimizers and learning-rate rules of src/optim and no data format. */
#ifndef ZT_TESTS_OPTIM_CONFIG_OF_H
#define ZT_TESTS_OPTIM_CONFIG_OF_H

#include "config/table.h"
#include "optim/optim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* `format` and the rest make the members of the JSON object, as printf does. Destroy it with zt_config_destroy(). */
__attribute__((format(printf, 1, 2))) static inline struct zt_config *config_of(const char *format, ...) {
    static const struct zt_key_owner *const none[] = { NULL };
    static const struct zt_key_catalog catalog = { .owners = { [ZT_KEY_OPTIMIZER] = zt_optimizer_types,
                                                               [ZT_KEY_SCHEDULER] = zt_lr_rule_types,
                                                               [ZT_KEY_FORMAT] = none } };
    char path[] = "zt-config-XXXXXX"; /* in the current folder */
    struct zt_err err = { 0 };
    va_list ap;
    int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    ck_assert_ptr_nonnull(file);
    va_start(ap, format);
    fprintf(file, "{\"train_batch_size\": 1, ");
    vfprintf(file, format, ap);
    fprintf(file, "}");
    va_end(ap);
    fclose(file);
    struct zt_config *config = zt_config_read(&(struct zt_texts){ (const char *[]){ path }, 1 }, NULL, &catalog, &err);
    unlink(path);
    ck_assert_msg(config != NULL, "%s", err.text[0]);
    return config;
}

#endif
