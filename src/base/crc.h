/* CRC-32C (Castagnoli; RFC 3720, appendix B.4): the checksum of files that several ranks write piece by piece. */
#ifndef ZT_BASE_CRC_H
#define ZT_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what `crc` is the checksum of, followed by `bytes` bytes; 0 is that of nothing. The same on every
 * machine. */
uint32_t zt_crc32c(uint32_t crc, const void *data, size_t bytes);

/* Checksums are linear: with A of any length in front of B of `bytes` bytes,
 *
 *     crc(A B) = zt_crc32c_shift(crc(A), bytes) ^ crc(B)
 *
 * so that each writer of a part of a block shifts the checksum of its part by the bytes behind it, and the xor over all
 * writers is the checksum of the block, in whatever order and wherever they wrote. */
uint32_t zt_crc32c_shift(uint32_t crc, uint64_t bytes);

#endif
