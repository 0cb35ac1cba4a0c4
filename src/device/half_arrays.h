/* Arrays of gradients that ranks exchange or accumulate in 16 bits (base/half.h), in the memory of a device. */
#ifndef ZT_DEVICE_HALF_ARRAYS_H
#define ZT_DEVICE_HALF_ARRAYS_H

#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Conversion of an array: the type, and factors in fp32, 1 where there is none. */
struct zt_half_cast {
    bool fp16;    /* float16, otherwise bfloat16 */
    float exact;  /* narrow: applied before the first rounding */
    float factor; /* applied to the 16-bit numbers; the product is rounded to 16 bits again */
};

/* In the memory of `device`, queued on its stream; the arrays must not overlap. */
/* to[i] = round(round(from[i] * exact) * factor) */
bool zt_half_narrow(struct zt_device *device, uint16_t *to, const float *from, int64_t count,
                    const struct zt_half_cast *cast, struct zt_err *err);
/* to[i] = round(from[i] * factor); `exact` is not used. */
bool zt_half_widen(struct zt_device *device, float *to, const uint16_t *from, int64_t count,
                   const struct zt_half_cast *cast, struct zt_err *err);
/* to[i] = round(to[i] + round(from[i])), fp32 numbers that 16 bits hold. `from` NULL: to[i] = round(to[i]). */
bool zt_half_accumulate(struct zt_device *device, float *to, const float *from, int64_t count, bool fp16,
                        struct zt_err *err);

#endif
