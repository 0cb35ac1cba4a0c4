/* GPUs that need not be here, as cuDNN is told of them: sizes, limits and clocks as the CUDA runtime gives them, in
 * cuDNN's JSON. */
#ifndef ZT_TESTS_GPU_GPUS_H
#define ZT_TESTS_GPU_GPUS_H

#include <stdbool.h>
#include <stddef.h>

#define GPU(SMS, SHARED, ID, CLOCK, MEMORY_CLOCK, CACHE, NAME, VERSION, CAPACITY)                                      \
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536, "      \
    "\"multiProcessorCount\": " SMS                                                                                    \
    ", \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "                                                         \
    "\"maxSharedMemoryPerBlockOptin\": " SHARED                                                                        \
    ", \"reservedSharedMemoryPerBlock\": 1024, "                                                                       \
    "\"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, "    \
    "\"pciDeviceId\": " ID ", \"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"smClockRateKHz\": " CLOCK                \
    ", "                                                                                                               \
    "\"memClockRateKHz\": " MEMORY_CLOCK ", \"l2CacheSize\": " CACHE ", \"deviceName\": \"" NAME                       \
    "\", "                                                                                                             \
    "\"deviceVer\": " VERSION ", \"driverVer\": 13000, \"totalGlobalMem\": " CAPACITY ", \"cudaDeviceId\": 0}"
enum { ZT_GPUS = 3 };
static const char *const zt_gpus[ZT_GPUS] = {
    GPU("132", "232448", "9013", "1980000", "3201000", "62914560", "NVIDIA H200", "900", "150754820096"),
    GPU("132", "232448", "9008", "1980000", "2619000", "52428800", "NVIDIA H100 80GB HBM3", "900", "84929347584"),
    GPU("108", "166912", "8370", "1410000", "1593000", "41943040", "NVIDIA A100", "800", "85095612416"),
};
#undef GPU

/* Whether cuDNN finalizes a plan of a test, for which it compiles kernels: every seventh, so that types, orders of
 * tensors and GPUs alternate, or all with the argument "all". All are described to cuDNN. */
static bool zt_every_plan;
static inline bool zt_is_planned(size_t number) {
    return zt_every_plan || number % 7 == 0;
}

#endif
