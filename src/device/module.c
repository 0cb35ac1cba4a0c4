#include "device/module.h"

#include "base/arena.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "ztrain-cuda.so";

/* ---- opening ---- */

/* Checks for a driver first. Without one the runtime inside the module would report the same after loading hundreds of
 * megabytes. */
static bool driver_is_there(struct zt_err *err) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver) {
        zt_fail(err, ZT_EXIT_RUN, "no CUDA device: no NVIDIA driver is installed (%s)", dlerror());
        return zt_hint(err, "use --device cpu, or run where there is an NVIDIA GPU");
    }
    dlclose(driver);
    return true;
}

static bool matches(const struct zt_module *module, const char *path, struct zt_err *err) {
    if (module->abi == ZT_MODULE_ABI && strcmp(module->version, ZT_VERSION) == 0)
        return true;
    zt_fail(err, ZT_EXIT_RUN, "%s: the CUDA module is version %s (interface %d), this program wants %s (interface %d)",
            path, module->version, module->abi, ZT_VERSION, ZT_MODULE_ABI);
    return zt_hint(err, "install program and module from the same build");
}

static const struct zt_module *load(const char *path, struct zt_err *err) {
    /* NODELETE: the CUDA runtime registers handlers that run at exit. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        zt_fail(err, ZT_EXIT_RUN, "the CUDA module cannot be loaded: %s", dlerror());
        zt_hint(err, "install the CUDA 13 runtime, cuBLAS, cuDNN and NVRTC, or put their folder into LD_LIBRARY_PATH");
        return NULL;
    }
    const struct zt_module *module = dlsym(handle, ZT_MODULE_SYMBOL);
    if (!module)
        zt_fail(err, ZT_EXIT_RUN, "%s: not a CUDA module of ztrain: it has no symbol %s", path, ZT_MODULE_SYMBOL);
    dlclose(handle);
    return module && matches(module, path, err) ? module : NULL;
}

static const struct zt_module *open_module(const char *folder, struct zt_err *err) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file_name);
    if (length < 0 || length >= (int)sizeof path) {
        zt_fail(err, ZT_EXIT_RUN, "%s/%s: the path is too long", folder, file_name);
        return NULL;
    }
    if (access(path, R_OK) != 0) {
        zt_fail(err, ZT_EXIT_RUN, "no CUDA device: the CUDA module %s was not found: %s", path, strerror(errno));
        zt_hint(err, "this build has no CUDA; build with -Dcuda=enabled, or use --device cpu");
        return NULL;
    }
    return driver_is_there(err) ? load(path, err) : NULL;
}

struct zt_device *zt_module_device(const char *folder, int number, int threads, struct zt_err *err) {
    const struct zt_module *module = open_module(folder, err);
    struct zt_device *device = module ? module->create(number, err) : NULL;
    if (device) {
        device->threads = threads;
        device->module = module;
    }
    return device;
}

/* ---- choosing ---- */

/* Finds the folder of the module: that of the executable or of the installation. If neither has the module, returns the
 * folder of the executable. */
static bool find_folder(char to[PATH_MAX], struct zt_err *err) {
    char self[PATH_MAX], path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return zt_fail(err, ZT_EXIT_RUN, "no CUDA device: /proc/self/exe cannot be read: %s", strerror(errno));
    self[length] = 0;
    const char *own = dirname(self);
    static const char *const below[] = { "", "/../lib/ztrain" };
    for (int i = 0; i < 2; i++) {
        int folder = snprintf(to, PATH_MAX, "%s%s", own, below[i]);
        int file = snprintf(path, sizeof path, "%s%s/%s", own, below[i], file_name);
        if (folder < PATH_MAX && file < PATH_MAX && access(path, R_OK) == 0)
            return true;
    }
    snprintf(to, PATH_MAX, "%s", own);
    return true;
}

static bool device_number(int local, int *to, struct zt_err *err) {
    const char *text = getenv("LOCAL_RANK");
    char *end;
    *to = local < 0 ? 0 : local;
    if (local >= 0 || !text || !*text)
        return true;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*end || errno || number < 0 || number > INT_MAX)
        return zt_fail(err, ZT_EXIT_CONFIG, "LOCAL_RANK = \"%s\", wants the number of a CUDA device from 0 on", text);
    *to = (int)number;
    return true;
}

static struct zt_device *open_cuda(int local, int threads, struct zt_err *err) {
    char folder[PATH_MAX];
    int number;
    bool ok = find_folder(folder, err) && device_number(local, &number, err);
    return ok ? zt_module_device(folder, number, threads, err) : NULL;
}

struct zt_device *zt_device_open(const char *name, int local, int threads, struct zt_err *why, struct zt_err *err) {
    struct zt_err unasked = { 0 };
    bool automatic = strcmp(name, "auto") == 0;
    if (strcmp(name, "cpu") == 0)
        return zt_device_host_create(threads);
    if (!automatic && strcmp(name, "cuda") != 0) {
        zt_fail(err, ZT_EXIT_CONFIG, "device \"%s\", allowed auto, cpu, cuda", name);
        return NULL;
    }
    struct zt_device *device = open_cuda(local, threads, !automatic ? err : why ? why : &unasked);
    if (device || !automatic)
        return device;
    return zt_device_host_create(threads);
}
