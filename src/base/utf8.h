/* Decoding of UTF-8 (RFC 3629: no surrogates, no overlong forms). */
#ifndef ZT_BASE_UTF8_H
#define ZT_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the first character of the `left` > 0 bytes at `at`. Returns its length in bytes, 0 if the bytes are not
 * valid UTF-8. */
int zt_utf8_read(const unsigned char *at, size_t left, uint32_t *character);

#endif
