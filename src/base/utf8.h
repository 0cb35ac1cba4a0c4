/* Decoding of UTF-8 (RFC 3629: no surrogates, no overlong forms). */
#ifndef ZT_BASE_UTF8_H
#define ZT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the first character of the `left` > 0 bytes at `at`. Returns its length in bytes, 0 if the bytes are not
 * valid UTF-8. */
static inline int zt_utf8_read(const unsigned char *at, size_t left, uint32_t *character) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = { { 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };
    for (int n = 1; n <= 4 && (size_t)n <= left; n++) {
        if ((*at & forms[n - 1].mask) != forms[n - 1].lead)
            continue;
        *character = (uint32_t)*at & (unsigned char)~forms[n - 1].mask;
        for (int i = 1; i < n; i++) {
            if ((at[i] & 0xc0) != 0x80)
                return 0;
            *character = *character << 6 | (at[i] & 0x3f);
        }
        bool surrogate = *character >= 0xd800 && *character <= 0xdfff;
        return *character < forms[n - 1].least || *character > 0x10ffff || surrogate ? 0 : n;
    }
    return 0;
}

#endif
