#include "ops/compile_cuda.h"

#include "base/arena.h"
#include "base/crc.h"
#include "base/file.h"
#include "base/map.h"

#include <nvrtc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- compiling ---- */

static bool good(nvrtcResult result, struct zt_err *err) {
    return result == NVRTC_SUCCESS ||
           zt_fail(err, ZT_EXIT_RUN, "compiling a kernel: NVRTC: %s", nvrtcGetErrorString(result));
}

/* The first line of what the compiler says. */
static void say_why(nvrtcProgram program, struct zt_err *err) {
    size_t bytes = 0;
    if (nvrtcGetProgramLogSize(program, &bytes) != NVRTC_SUCCESS || bytes == 0)
        return;
    char *log = zt_malloc(bytes);
    if (nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS)
        zt_hint(err, "%.*s", (int)strcspn(log, "\n"), log);
    free(log);
}

static bool take_code(nvrtcProgram program, bool ptx, struct zt_text *to, struct zt_err *err) {
    size_t bytes = 0;
    if (!good((ptx ? nvrtcGetPTXSize : nvrtcGetCUBINSize)(program, &bytes), err))
        return false;
    char *code = zt_malloc(bytes + 1);
    bool ok = good((ptx ? nvrtcGetPTX : nvrtcGetCUBIN)(program, code), err);
    if (ok)
        zt_text_add_bytes(to, code, bytes);
    free(code);
    return ok;
}

bool zt_compile_choose(const int *archs, int count, int capability, struct zt_compile_target *to) {
    int newest = 0;
    for (int i = 0; i < count; i++)
        if (archs[i] <= capability && archs[i] > newest)
            newest = archs[i];
    *to = (struct zt_compile_target){ .capability = newest, .ptx = newest != capability };
    return newest > 0;
}

/* NVRTC may be older than the GPU. */
static bool find_target(int capability, struct zt_compile_target *to, struct zt_err *err) {
    int count = 0;
    if (!good(nvrtcGetNumSupportedArchs(&count), err))
        return false;
    int *archs = zt_calloc((size_t)count + 1, sizeof *archs);
    bool ok = good(nvrtcGetSupportedArchs(archs), err);
    if (ok && !zt_compile_choose(archs, count, capability, to))
        ok = zt_fail(err, ZT_EXIT_RUN, "compiling a kernel: NVRTC has no target for compute capability %d.%d",
                     capability / 10, capability % 10);
    free(archs);
    return ok;
}

static const char *family(const struct zt_compile_target *target) {
    return target->ptx ? "compute" : "sm";
}

bool zt_compile_source(const char *source, const struct zt_compile_target *target, struct zt_text *to,
                       struct zt_err *err) {
    nvrtcProgram program = NULL;
    char architecture[48];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", family(target), target->capability);
    /* as the other kernels are compiled: a result does not depend on what it is fused with */
    const char *const options[] = { architecture, "--std=c++17", "--fmad=false" };
    if (!good(nvrtcCreateProgram(&program, source, "generated.cu", 0, NULL, NULL), err))
        return false;
    nvrtcResult result = nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    bool ok = good(result, err);
    if (!ok)
        say_why(program, err);
    ok = ok && take_code(program, target->ptx, to, err);
    nvrtcDestroyProgram(&program);
    return ok;
}

/* ---- on disk: the header, the source, the code ---- */

struct header {
    char magic[16];
    uint64_t source_bytes, code_bytes;
    uint32_t crc, reserved; /* of source and code */
};
static const char magic[16] = "ztrain kernel 1";

static bool folder_of(struct zt_text *to) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        zt_text_add(to, "%s/ztrain", cache);
    else if (home && home[0] == '/')
        zt_text_add(to, "%s/.cache/ztrain", home);
    return to->length > 0;
}

bool zt_compile_path(const char *source, const struct zt_compile_target *target, struct zt_text *to) {
    int major = 0, minor = 0;
    if (nvrtcVersion(&major, &minor) != NVRTC_SUCCESS || !folder_of(to))
        return false;
    zt_text_add(to, "/%016llx-%s_%d-nvrtc_%d.%d.kernel",
                (unsigned long long)zt_hash(ZT_HASH_START, source, strlen(source)), family(target), target->capability,
                major, minor);
    return true;
}

static struct header header_of(const char *source, const char *code, size_t code_bytes) {
    struct header h = { .source_bytes = strlen(source), .code_bytes = code_bytes };
    memcpy(h.magic, magic, sizeof magic);
    h.crc = zt_crc32c(zt_crc32c(0, source, h.source_bytes), code, code_bytes);
    return h;
}

bool zt_compile_read(const char *path, const char *source, struct zt_text *code) {
    struct zt_file_map map;
    struct zt_err none = { 0 };
    const size_t before = sizeof(struct header) + strlen(source);
    if (!zt_file_exists(path) || !zt_file_map(&map, path, ZT_EXIT_RUN, &none))
        return false;
    bool whole = map.size > before && memcmp(map.data + sizeof(struct header), source, strlen(source)) == 0;
    if (whole) {
        struct header h = header_of(source, (const char *)map.data + before, map.size - before);
        whole = memcmp(&h, map.data, sizeof h) == 0;
    }
    if (whole)
        zt_text_add_bytes(code, map.data + before, map.size - before);
    zt_file_unmap(&map);
    return whole;
}

bool zt_compile_keep(const char *path, const char *source, const struct zt_text *code, struct zt_err *err) {
    struct header h = header_of(source, code->at, code->length);
    struct zt_text whole = { 0 };
    char *folder = zt_path_folder(path);
    zt_text_add_bytes(&whole, &h, sizeof h);
    zt_text_add_bytes(&whole, source, strlen(source));
    zt_text_add_bytes(&whole, code->at, code->length);
    /* writers of one process, which one file name per process would not keep apart, write under a name of their own */
    char *own = zt_malloc(strlen(path) + 32);
    sprintf(own, "%s-%llx", path, (unsigned long long)(uintptr_t)&h);
    bool ok = zt_file_make_folder(folder, err) && zt_file_write(own, whole.at, whole.length, err) &&
              (rename(own, path) == 0 || zt_fail(err, ZT_EXIT_RUN, "%s: cannot be renamed", own));
    free(own);
    free(folder);
    zt_text_finish(&whole);
    return ok;
}

/* That the code cannot be kept is no error. */
bool zt_compile_find(const char *source, int capability, struct zt_text *to, struct zt_err *err) {
    struct zt_text path = { 0 };
    struct zt_err none = { 0 };
    struct zt_compile_target target;
    if (!find_target(capability, &target, err))
        return false;
    const bool named = zt_compile_path(source, &target, &path);
    bool ok = named && zt_compile_read(path.at, source, to);
    if (!ok) {
        ok = zt_compile_source(source, &target, to, err);
        if (ok && named)
            zt_compile_keep(path.at, source, to, &none);
    }
    zt_text_finish(&path);
    return ok;
}
