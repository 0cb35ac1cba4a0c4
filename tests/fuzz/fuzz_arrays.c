// Hostile bytes as a .npy header and as a npz file: what is read is written and read again.
#include "base/err.h"
#include "data/npy.h"
#include "data/npz.h"
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

static void parse_header(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_npy npy;
    size_t header = zt_npy_header_bytes(data, size < ZT_NPY_PREFIX ? size : ZT_NPY_PREFIX, ZT_EXIT_DATA, &err);
    fuzz_promise(header > 0 || err.count > 0);
    if (header == 0 || header > size || !zt_npy_parse(data, header, &npy, ZT_EXIT_DATA, &err))
        return;
    char again[ZT_NPY_HEADER];
    struct zt_npy same;
    size_t written = zt_npy_header(npy.dtype, &npy.shape, again);
    fuzz_promise(zt_npy_parse((unsigned char *)again, written, &same, ZT_EXIT_DATA, &err));
    fuzz_promise(same.dtype == npy.dtype && same.bytes == npy.bytes && zt_shape_equal(&same.shape, &npy.shape));
}

static void read_archive(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_npz npz = { 0 }, again = { 0 };
    char path[300];
    bool ok = zt_npz_read(fuzz_file(data, size), &npz, ZT_EXIT_DATA, &err);
    fuzz_promise(ok || err.count > 0);
    snprintf(path, sizeof path, "%s/again.npz", fuzz_folder());
    if (ok && zt_npz_write(path, npz.at, npz.count, &err)) {
        fuzz_promise(zt_npz_read(path, &again, ZT_EXIT_DATA, &err) && again.count == npz.count);
        for (int i = 0; i < npz.count; i++)
            fuzz_promise(again.at[i].bytes == npz.at[i].bytes &&
                         (!npz.at[i].bytes || memcmp(again.at[i].data, npz.at[i].data, npz.at[i].bytes) == 0));
    }
    zt_npz_finish(&again);
    zt_npz_finish(&npz);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse_header(data, size);
    read_archive(data, size);
    return 0;
}
