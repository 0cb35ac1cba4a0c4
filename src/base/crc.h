/* CRC-32C (Castagnoli; RFC 3720, appendix B.4): the checksum of files that several ranks write in pieces. */
#ifndef ZT_BASE_CRC_H
#define ZT_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Extends `crc`, the checksum of preceding bytes (0: none), by `bytes` bytes at `data`. The result is the same on every
 * machine. */
uint32_t zt_crc32c(uint32_t crc, const void *data, size_t bytes);

/* Checksums are linear: for A of any length followed by B of `bytes` bytes,
 *
 *     crc(A B) = zt_crc32c_shift(crc(A), bytes) ^ crc(B)
 *
 * Each writer of a part of a block shifts the checksum of its part by the number of bytes behind it. The xor over all
 * writers is the checksum of the block, in any order. */
uint32_t zt_crc32c_shift(uint32_t crc, uint64_t bytes);

#endif
