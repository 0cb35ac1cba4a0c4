#include "device/cuda_code.h"

#include "device/cuda.h"

#include <cuda_runtime_api.h>

bool zt_cuda_capability(const struct zt_device *device, int *to, struct zt_err *err) {
    int number = 0, major = 0, minor = 0;
    cudaError_t code = cudaGetDevice(&number);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number);
    *to = 10 * major + minor;
    return zt_cuda_good(device, code, err, "asking for the compute capability");
}

bool zt_cuda_load(const struct zt_device *device, const void *code, const char *kernel, struct zt_cuda_code *to,
                  struct zt_err *err) {
    cudaLibrary_t library = NULL;
    cudaKernel_t found = NULL;
    if (!zt_cuda_good(device, cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0), err,
                      "loading a kernel"))
        return false;
    *to = (struct zt_cuda_code){ .library = library };
    if (zt_cuda_good(device, cudaLibraryGetKernel(&found, library, kernel), err, "finding a kernel")) {
        to->kernel = found;
        return true;
    }
    zt_cuda_unload(to);
    return false;
}

void zt_cuda_unload(struct zt_cuda_code *code) {
    if (code->library)
        cudaLibraryUnload(code->library);
    *code = (struct zt_cuda_code){ 0 };
}

int zt_cuda_launch(const struct zt_device *device, const struct zt_cuda_code *code, unsigned blocks, unsigned threads,
                   void **arguments) {
    const struct dim3 grid = { blocks, 1, 1 }, block = { threads, 1, 1 };
    return cudaLaunchKernel(code->kernel, grid, block, arguments, 0, zt_cuda_stream(device));
}
