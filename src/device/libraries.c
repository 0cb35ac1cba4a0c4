#include "device/libraries.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* Folders of CUDA installations that the loader may not search. */
static const char *const folders[] = { "", "/usr/local/cuda/lib64/" };

static void *open_library(const char *file) {
    char path[128];
    void *handle = NULL;
    for (size_t i = 0; !handle && i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", folders[i], file);
        handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE); /* NODELETE: unloading would leak their memory */
    }
    return handle;
}

/* ---- version functions of the libraries ---- */

/* int f(int *version), 0: well */
static bool ask_int(void *handle, const char *function, int *version) {
    int (*f)(int *);
    *(void **)&f = dlsym(handle, function);
    return f && f(version) == 0;
}

/* size_t f(void) */
static bool ask_size(void *handle, const char *function, int *version) {
    size_t (*f)(void);
    *(void **)&f = dlsym(handle, function);
    *version = f ? (int)f() : 0;
    return f != NULL;
}

static bool ask_driver(void *handle, int *version) {
    return ask_int(handle, "cuDriverGetVersion", version);
}
static bool ask_runtime(void *handle, int *version) {
    return ask_int(handle, "cudaRuntimeGetVersion", version);
}
static bool ask_cublas(void *handle, int *version) {
    return ask_size(handle, "cublasLtGetVersion", version);
}
static bool ask_cudnn(void *handle, int *version) {
    return ask_size(handle, "cudnnGetVersion", version);
}
static bool ask_nccl(void *handle, int *version) {
    return ask_int(handle, "ncclGetVersion", version);
}
static bool ask_nvrtc(void *handle, int *version) {
    int (*f)(int *, int *), major = 0, minor = 0;
    *(void **)&f = dlsym(handle, "nvrtcVersion");
    bool ok = f && f(&major, &minor) == 0;
    *version = major * 1000 + minor * 10;
    return ok;
}

#define INSTALL_CUDA "install the CUDA 13 libraries, or put their folder into LD_LIBRARY_PATH"

const struct zt_library zt_libraries[] = {
    { "driver", "libcuda.so.1", 13000, 1000, 10, ask_driver, "install an NVIDIA driver for CUDA 13 (580 or newer)" },
    { "runtime", "libcudart.so.13", 13000, 1000, 10, ask_runtime, INSTALL_CUDA },
    { "cuBLASLt", "libcublasLt.so.13", 130000, 10000, 100, ask_cublas, INSTALL_CUDA },
    { "NVRTC", "libnvrtc.so.13", 13000, 1000, 10, ask_nvrtc, INSTALL_CUDA },
    { "cuDNN", "libcudnn.so.9", 90000, 10000, 100, ask_cudnn, "install cuDNN 9 for CUDA 13: the CUDA module needs it" },
    { "NCCL", "libnccl.so.2", 21800, 10000, 100, ask_nccl,
      "install NCCL 2 for CUDA 13; without it data of several GPUs travel through the host" },
    { 0 },
};

static void decimal(const struct zt_library *l, int version, char *to, size_t room) {
    int rest = version % l->major;
    snprintf(to, room, "%d.%d.%d", version / l->major, rest / l->minor, rest % l->minor);
}

/* Returns the path of the file that the loader opened. */
static const char *path_of(void *handle, const char *file) {
    struct link_map *map = NULL;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name && *map->l_name ? map->l_name : file;
}

static bool judge(const struct zt_library *l, bool answers, int version, const char *path, char *says, size_t room) {
    char text[48], wants[48];
    decimal(l, version, text, sizeof text);
    decimal(l, l->oldest, wants, sizeof wants);
    if (!answers)
        snprintf(says, room, "%s reports no version", path);
    else if (version < l->oldest)
        snprintf(says, room, "%s is too old, wants %s: %s", text, wants, path);
    else
        snprintf(says, room, "%s, %s", text, path);
    return answers && version >= l->oldest;
}

bool zt_library_find(const struct zt_library *l, char *says, size_t room) {
    void *handle = open_library(l->file);
    int version = 0;
    if (!handle) {
        snprintf(says, room, "%s was not found", l->file);
        return false;
    }
    bool answers = l->ask(handle, &version), good = judge(l, answers, version, path_of(handle, l->file), says, room);
    dlclose(handle);
    return good;
}

/* ---- GPUs, by the driver's own functions ---- */

enum { MAJOR = 75, MINOR = 76, MOST = 16 }; /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR */

struct driver {
    int (*init)(unsigned);
    int (*count)(int *);
    int (*name)(char *, int, int);
    int (*memory)(size_t *, int);
    int (*attribute)(int *, int, int);
};

static bool find_functions(void *handle, struct driver *d) {
    *(void **)&d->init = dlsym(handle, "cuInit");
    *(void **)&d->count = dlsym(handle, "cuDeviceGetCount");
    *(void **)&d->name = dlsym(handle, "cuDeviceGetName");
    *(void **)&d->memory = dlsym(handle, "cuDeviceTotalMem_v2");
    *(void **)&d->attribute = dlsym(handle, "cuDeviceGetAttribute");
    return d->init && d->count && d->name && d->memory && d->attribute;
}

static void add_gpu(const struct driver *d, int number, char *says, size_t room) {
    char name[128] = "unknown";
    size_t bytes = 0, used = strlen(says);
    int major = 0, minor = 0;
    d->name(name, sizeof name, number);
    d->memory(&bytes, number);
    d->attribute(&major, MAJOR, number);
    d->attribute(&minor, MINOR, number);
    snprintf(says + used, room - used, "%s%d: %s, %.1f GB, compute capability %d.%d", number ? "; " : "", number, name,
             (double)bytes * 1e-9, major, minor);
}

bool zt_gpus_find(char *says, size_t room) {
    void *handle = open_library("libcuda.so.1");
    struct driver d = { 0 };
    int count = 0;
    says[0] = 0;
    if (!handle || !find_functions(handle, &d) || d.init(0) != 0 || d.count(&count) != 0 || count == 0)
        snprintf(says, room, "%s", handle ? "the driver reports none" : "no driver is installed");
    for (int i = 0; i < count && i < MOST; i++)
        add_gpu(&d, i, says, room);
    return count > 0;
}
