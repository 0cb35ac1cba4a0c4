#include "base/crc.h"

#include <string.h>

/* x^32 + x^28 + x^27 + x^26 + x^25 + x^23 + x^22 + x^20 + x^19 + x^18 + x^14 + x^13 + x^11 + x^10 + x^9 + x^8 + x^6 + 1
 * with the highest power in the lowest bit. */
static const uint32_t polynomial = 0x82f63b78;

/* Processes half a byte at a time, for machines without a CRC instruction. */
static uint32_t plain(uint32_t crc, const unsigned char *at, size_t bytes) {
    uint32_t table[16];
    for (uint32_t i = 0; i < 16; i++) {
        table[i] = i;
        for (int k = 0; k < 4; k++)
            table[i] = table[i] & 1 ? table[i] >> 1 ^ polynomial : table[i] >> 1;
    }
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

#if defined __x86_64__
__attribute__((target("sse4.2"))) static uint32_t fast(uint32_t crc, const unsigned char *at, size_t bytes) {
    uint64_t wide = crc, word;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; bytes; bytes--, at++)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}

static int has_fast(void) {
    return __builtin_cpu_supports("sse4.2");
}
#else
static uint32_t fast(uint32_t crc, const unsigned char *at, size_t bytes) {
    return plain(crc, at, bytes);
}

static int has_fast(void) {
    return 0;
}
#endif

uint32_t zt_crc32c(uint32_t crc, const void *data, size_t bytes) {
    return ~(has_fast() ? fast : plain)(~crc, data, bytes);
}

/* The product of two polynomials modulo the CRC's; x^0 is the highest bit. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? b >> 1 ^ polynomial : b >> 1;
    }
    return product;
}

uint32_t zt_crc32c_shift(uint32_t crc, uint64_t bytes) {
    uint32_t power = UINT32_C(1) << 23; /* x^8, squared as the bits of `bytes` go by */
    for (; bytes; bytes >>= 1) {
        if (bytes & 1)
            crc = multiply(crc, power);
        power = multiply(power, power);
    }
    return crc;
}
