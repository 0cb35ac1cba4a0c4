/* Stands for the NVIDIA driver. The emulated module asks nothing of it but to be there. cuDNN, when it plans for a GPU
 * that is not here, compiles kernels and hands them to the driver: that says there is no device, and of code and of
 * kernels in it that they are loaded, so that a plan gets as far as it would where it is run. */
enum { NO_DEVICE = 100 };

#define NO(name)                                                                                                       \
    int name(void);                                                                                                    \
    int name(void) {                                                                                                   \
        return NO_DEVICE;                                                                                              \
    }
NO(cuCtxGetCurrent)
NO(cuCtxGetDevice)
NO(cuCtxGetLimit)
NO(cuCtxPopCurrent)
NO(cuCtxPushCurrent)
NO(cuDeviceGet)
NO(cuDeviceGetAttribute)
NO(cuDeviceGetCount)
NO(cuDevicePrimaryCtxRelease)
NO(cuDevicePrimaryCtxReset)
NO(cuDevicePrimaryCtxRetain)
NO(cuDriverGetVersion)
NO(cuFuncGetAttribute)
NO(cuFuncSetAttribute)
NO(cuGetErrorName)
NO(cuGetErrorString)
NO(cuInit)
NO(cuKernelGetAttribute)
NO(cuKernelSetAttribute)
NO(cuLaunchCooperativeKernel)
NO(cuLaunchKernel)
NO(cuLaunchKernelEx)
NO(cuLibraryLoadFromFile)
NO(cuLibraryUnload)
NO(cuLinkAddData)
NO(cuLinkAddData_v2)
NO(cuLinkAddFile_v2)
NO(cuLinkComplete)
NO(cuLinkCreate)
NO(cuLinkCreate_v2)
NO(cuLinkDestroy)
NO(cuMemcpyDtoH_v2)
NO(cuModuleGetFunction)
NO(cuModuleGetGlobal_v2)
NO(cuModuleLoadData)
NO(cuModuleLoadDataEx)
NO(cuModuleLoadFatBinary)
NO(cuModuleUnload)
NO(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NO(cuOccupancyMaxPotentialClusterSize)
NO(cuStreamGetCtx)
NO(cuStreamSynchronize)
NO(cuTensorMapEncodeTiled)

static int something;
#define YES(name)                                                                                                      \
    int name(void **to);                                                                                               \
    int name(void **to) {                                                                                              \
        *to = &something;                                                                                              \
        return 0;                                                                                                      \
    }
YES(cuLibraryGetKernel)
YES(cuLibraryLoadData)
