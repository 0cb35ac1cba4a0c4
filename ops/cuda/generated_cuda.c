#include "ops/cuda/generated_cuda.h"

#include "base/arena.h"
#include "device/cuda.h"
#include "ops/cuda/compile_cuda.h"

#include <stdlib.h>
#include <string.h>

struct kernels {
    struct kernel {
        char *source;
        struct zt_cuda_code code;
        struct kernel *older;
    } * newest;
};

static void *create_kernels(void) {
    return zt_calloc(1, sizeof(struct kernels));
}

static void destroy_kernels(void *handle) {
    struct kernels *all = handle;
    for (struct kernel *k = all->newest, *older; k; k = older) {
        older = k->older;
        zt_cuda_unload(&k->code);
        free(k->source);
        free(k);
    }
    free(all);
}

static struct kernel *find(const struct kernels *all, const char *source) {
    struct kernel *k = all->newest;
    while (k && strcmp(k->source, source) != 0)
        k = k->older;
    return k;
}

const struct zt_cuda_code *zt_generated_cuda(struct zt_device *device, const char *source, const char *entry,
                                             struct zt_err *err) {
    struct kernels *all = zt_cuda_library(device, create_kernels, destroy_kernels);
    if (!all) {
        zt_fail(err, ZT_EXIT_RUN, "there is no room for generated kernels on the device");
        return NULL;
    }
    struct kernel *k = find(all, source);
    if (k)
        return &k->code;
    struct zt_text code = { 0 };
    struct zt_cuda_code loaded;
    int capability;
    bool ok = zt_cuda_capability(device, &capability, err) && zt_compile_find(source, capability, &code, err) &&
              zt_cuda_load(device, code.at, entry, &loaded, err);
    zt_text_finish(&code);
    if (!ok)
        return NULL;
    k = zt_malloc(sizeof *k);
    *k = (struct kernel){ zt_strdup(source), loaded, all->newest };
    all->newest = k;
    return &k->code;
}
