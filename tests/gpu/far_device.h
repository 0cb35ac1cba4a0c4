/* A device for machines without a GPU: its memory is the host's, but nobody may touch it outside the device's own
 * functions and kernels, or the program dies. Its kernels are the reference kernels of the ops the CUDA module has;
 * they insist on inputs and outputs in device memory. So a rank runs on it exactly if it would never mix up the two
 * memories on a real one. */
#ifndef ZT_TESTS_GPU_FAR_DEVICE_H
#define ZT_TESTS_GPU_FAR_DEVICE_H

#include "device/device.h"

/* Creates the device; free it through its api, as any device. */
struct zt_device *far_device_create(void);

#endif
