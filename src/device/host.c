#include "device/device.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static void *host_allocate(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    (void)device;
    return zt_block_create(bytes, what, err);
}

static void host_free(struct zt_device *device, void *memory, size_t bytes) {
    (void)device;
    zt_block_destroy(memory, bytes);
}

static bool host_copy(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err) {
    (void)device, (void)err;
    if (bytes)
        memcpy(to, from, bytes);
    return true;
}

static bool host_zero(struct zt_device *device, void *memory, size_t bytes, struct zt_err *err) {
    (void)device, (void)err;
    if (bytes)
        memset(memory, 0, bytes);
    return true;
}

static bool host_synchronize(struct zt_device *device, struct zt_err *err) {
    (void)device, (void)err;
    return true;
}

/* The host executes everything immediately, so any address serves as an event. */
static struct zt_event *host_event_create(struct zt_device *device, struct zt_err *err) {
    (void)err;
    return (struct zt_event *)device;
}

static bool host_event(struct zt_device *device, struct zt_event *event, struct zt_err *err) {
    (void)device, (void)event, (void)err;
    return true;
}

static void host_event_destroy(struct zt_device *device, struct zt_event *event) {
    (void)device, (void)event;
}

static void host_destroy(struct zt_device *device) {
    free(device);
}

static const struct zt_device_api host = {
    .name = "cpu",
    .backend = ZT_CPU,
    .allocate = host_allocate,
    .free = host_free,
    .allocate_host = host_allocate,
    .free_host = host_free,
    .to_device = host_copy,
    .to_host = host_copy,
    .copy = host_copy,
    .zero = host_zero,
    .event_create = host_event_create,
    .record = host_event,
    .wait = host_event,
    .event_destroy = host_event_destroy,
    .synchronize = host_synchronize,
    .destroy = host_destroy,
};

struct zt_device *zt_device_host_create(int threads) {
    struct zt_device *device = zt_malloc(sizeof *device);
    *device = (struct zt_device){ .api = &host, .threads = threads };
    return device;
}
