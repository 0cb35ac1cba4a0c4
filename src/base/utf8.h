/* Characters of text in UTF-8 (RFC 3629: no surrogates, no overlong forms). */
#ifndef ZT_BASE_UTF8_H
#define ZT_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The character that begins the `left` bytes at `at`, of which there is one: its number of bytes, 0 where they are not
 * UTF-8. */
int zt_utf8_read(const unsigned char *at, size_t left, uint32_t *character);

#endif
