/* Message authentication codes (HMAC-SHA256 of libcrypto) and random bytes from the kernel. */
#ifndef ZT_PARALLEL_COMM_MAC_H
#define ZT_PARALLEL_COMM_MAC_H

#include <stdbool.h>
#include <stddef.h>

enum { ZT_MAC = 32 }; /* bytes of a MAC and of a key */

struct zt_mac_part {
    const void *data;
    size_t bytes;
};

/* HMAC-SHA256 under `key` of `label` with its terminating 0, then of the parts. Each label is used for one purpose
 * only. The process exits if memory is exhausted, as with zt_malloc(). */
void zt_mac(unsigned char to[ZT_MAC], const unsigned char key[ZT_MAC], const char *label,
            const struct zt_mac_part *parts, int count);
/* Derives a key from a text of any length. */
void zt_mac_key(unsigned char to[ZT_MAC], const void *text, size_t bytes);
/* Compares in constant time. */
bool zt_mac_equal(const unsigned char *a, const unsigned char *b, size_t bytes);
/* Overwrites memory that held a secret. */
void zt_mac_forget(void *memory, size_t bytes);
/* Fills `to` with random bytes. False with errno: the system has no random numbers. */
bool zt_random(void *to, size_t bytes);

/* The library and its version. */
const char *zt_mac_library(void);

#endif
