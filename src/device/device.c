#include "device/device.h"

void *zt_device_allocate(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    void *memory = device->api->allocate(device, bytes, what, err);
    if (!memory)
        return NULL;
    device->allocated += bytes;
    if (device->allocated > device->peak)
        device->peak = device->allocated;
    return memory;
}

void zt_device_free(struct zt_device *device, void *memory, size_t bytes) {
    if (memory)
        device->allocated -= bytes;
    device->api->free(device, memory, bytes);
}

size_t zt_device_peak(struct zt_device *device) {
    const size_t peak = device->peak;
    device->peak = device->allocated;
    return peak;
}
