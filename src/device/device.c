#include "device/device.h"

static void *counted(struct zt_device *device, void *memory, size_t bytes) {
    if (memory)
        device->allocated += bytes;
    if (device->allocated > device->peak)
        device->peak = device->allocated;
    return memory;
}

void *zt_device_allocate(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    return counted(device, device->api->allocate(device, bytes, what, err), bytes);
}

void zt_device_free(struct zt_device *device, void *memory, size_t bytes) {
    if (!memory)
        return;
    device->allocated -= bytes;
    device->api->free(device, memory, bytes);
}

void *zt_device_allocate_host(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    return counted(device, device->api->allocate_host(device, bytes, what, err), device->module ? 0 : bytes);
}

void zt_device_free_host(struct zt_device *device, void *memory, size_t bytes) {
    if (!memory)
        return;
    device->allocated -= device->module ? 0 : bytes;
    device->api->free_host(device, memory, bytes);
}

size_t zt_device_peak(struct zt_device *device) {
    const size_t peak = device->peak;
    device->peak = device->allocated;
    return peak;
}
