#include "parallel/comm/mac.h"

#include "base/arena.h"
#include "base/err.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void hmac(unsigned char to[ZT_MAC], const void *key, size_t key_bytes, const void *data, size_t bytes) {
    unsigned int length = ZT_MAC;
    if (HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, to, &length) && length == ZT_MAC)
        return;
    fprintf(stderr, ZT_ERR_MARK "libcrypto cannot compute HMAC-SHA256\n");
    exit(ZT_EXIT_RUN); /* it fails for lack of memory alone */
}

void zt_mac(unsigned char to[ZT_MAC], const unsigned char key[ZT_MAC], const char *label,
            const struct zt_mac_part *parts, int count) {
    size_t bytes = strlen(label) + 1, at = bytes;
    for (int i = 0; i < count; i++)
        bytes += parts[i].bytes;
    char *all = zt_malloc(bytes);
    memcpy(all, label, at);
    for (int i = 0; i < count; at += parts[i++].bytes)
        memcpy(all + at, parts[i].data, parts[i].bytes);
    hmac(to, key, ZT_MAC, all, bytes);
    free(all);
}

void zt_mac_key(unsigned char to[ZT_MAC], const void *text, size_t bytes) {
    static const char label[] = "ztrain secret";
    hmac(to, label, sizeof label, text, bytes);
}

bool zt_mac_equal(const unsigned char *a, const unsigned char *b, size_t bytes) {
    return CRYPTO_memcmp(a, b, bytes) == 0;
}

void zt_mac_forget(void *memory, size_t bytes) {
    OPENSSL_cleanse(memory, bytes);
}

bool zt_random(void *to, size_t bytes) {
    return getrandom(to, bytes, 0) == (ssize_t)bytes; /* up to 256 bytes come whole */
}

const char *zt_mac_library(void) {
    return OpenSSL_version(OPENSSL_VERSION);
}
