#include "report/event_file.h"

#include "base/arena.h"
#include "base/crc.h"
#include "base/file.h"
#include "report/append_file.h"
#include "event.pb-c.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME_START "events.out.tfevents."
enum { HEAD = 12, TAIL = 4, DT_STRING = 7, FIELD_STEP = 2 };

struct zt_event_file {
    struct zt_append_file out;
};

/* ---- records ---- */

static uint32_t masked_crc(const void *data, size_t bytes) {
    uint32_t crc = zt_crc32c(0, data, bytes);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void put(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

static void add_record(struct zt_event_file *f, const void *data, size_t bytes) {
    unsigned char head[HEAD], tail[TAIL];
    put(head, bytes, 8);
    put(head + 8, masked_crc(head, 8), 4);
    put(tail, masked_crc(data, bytes), 4);
    zt_text_add_bytes(&f->out.pending, head, HEAD);
    zt_text_add_bytes(&f->out.pending, data, bytes);
    zt_text_add_bytes(&f->out.pending, tail, TAIL);
}

/* Returns the bytes of the valid record at the beginning of `at`; 0: there is none. */
static size_t record_bytes(const unsigned char *at, size_t left) {
    if (left < HEAD + TAIL || get(at + 8, 4) != masked_crc(at, 8))
        return 0;
    uint64_t bytes = get(at, 8);
    if (bytes > left - HEAD - TAIL || get(at + HEAD + bytes, 4) != masked_crc(at + HEAD, bytes))
        return 0;
    return HEAD + (size_t)bytes + TAIL;
}

/* ---- events ---- */

static void add_event(struct zt_event_file *f, Tb__Event *event, int64_t step) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    event->has_wall_time = event->has_step = true;
    event->wall_time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    event->step = step;
    size_t bytes = tb__event__get_packed_size(event);
    uint8_t *data = zt_malloc(bytes + 1);
    tb__event__pack(event, data);
    add_record(f, data, bytes);
    free(data);
}

static void add_value(struct zt_event_file *f, Tb__Value *value, const char *tag, int64_t step) {
    Tb__Summary summary = TB__SUMMARY__INIT;
    Tb__Event event = TB__EVENT__INIT;
    value->tag = (char *)tag;
    summary.n_value = 1;
    summary.value = &value;
    event.summary = &summary;
    add_event(f, &event, step);
}

void zt_event_file_scalar(struct zt_event_file *f, const char *tag, int64_t step, double number) {
    Tb__Value value = TB__VALUE__INIT;
    value.has_simple_value = true;
    value.simple_value = (float)number;
    add_value(f, &value, tag, step);
}

void zt_event_file_text(struct zt_event_file *f, const char *tag, int64_t step, const char *text) {
    Tb__Value value = TB__VALUE__INIT;
    Tb__Tensor tensor = TB__TENSOR__INIT;
    Tb__Shape shape = TB__SHAPE__INIT; /* a scalar */
    Tb__PluginData plugin = TB__PLUGIN_DATA__INIT;
    Tb__Metadata metadata = TB__METADATA__INIT;
    ProtobufCBinaryData bytes = { strlen(text), (uint8_t *)text };
    plugin.plugin_name = (char *)"text";
    metadata.plugin_data = &plugin;
    tensor.has_dtype = true;
    tensor.dtype = DT_STRING;
    tensor.tensor_shape = &shape;
    tensor.n_string_val = 1;
    tensor.string_val = &bytes;
    value.tensor = &tensor;
    value.metadata = &metadata;
    add_value(f, &value, tag, step);
}

void zt_event_file_histogram(struct zt_event_file *f, const char *tag, int64_t step, const struct zt_histogram *h) {
    Tb__Value value = TB__VALUE__INIT;
    Tb__Histogram histogram = TB__HISTOGRAM__INIT;
    histogram.has_min = histogram.has_max = histogram.has_num = histogram.has_sum = histogram.has_sum_squares = true;
    histogram.min = h->min;
    histogram.max = h->max;
    histogram.num = h->count;
    histogram.sum = h->sum;
    histogram.sum_squares = h->squares;
    histogram.n_bucket_limit = histogram.n_bucket = (size_t)h->buckets;
    histogram.bucket_limit = (double *)h->limit;
    histogram.bucket = (double *)h->bucket;
    value.histo = &histogram;
    add_value(f, &value, tag, step);
}

/* ---- files ---- */

/* Returns the path of a new file; `number` distinguishes files of one second. Free with free(). */
static char *new_path(const char *folder, const char *owner, int number) {
    char host[65] = "host";
    struct zt_text name = { 0 };
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c == '/')
            *c = '-';
    zt_text_add(&name, NAME_START "%lld.%s.%d.%d.%s", (long long)time(NULL), host, (int)getpid(), number, owner);
    char *path = zt_path_join(folder, name.at);
    zt_text_finish(&name);
    return path;
}

struct zt_event_file *zt_event_file_create(const char *folder, const char *owner, struct zt_err *err) {
    Tb__Event first = TB__EVENT__INIT;
    struct zt_event_file *f = zt_calloc(1, sizeof *f);
    char *path = new_path(folder, owner, 0);
    for (int number = 1; number < 100 && zt_file_exists(path); number++) {
        free(path);
        path = new_path(folder, owner, number);
    }
    bool ok = zt_append_file_open(&f->out, path, true, err);
    free(path);
    if (!ok) {
        free(f);
        return NULL;
    }
    first.file_version = (char *)"brain.Event:2";
    add_event(f, &first, 0);
    return f;
}

bool zt_event_file_flush(struct zt_event_file *f, bool sync, struct zt_err *err) {
    return zt_append_file_flush(&f->out, sync, err);
}

bool zt_event_file_finish(struct zt_event_file *f, struct zt_err *err) {
    bool ok = !f || zt_append_file_close(&f->out, err);
    free(f);
    return ok;
}

/* ---- cutting ---- */

/* Reads a varint at *at; false: it does not end before `end`. */
static bool varint(const unsigned char **at, const unsigned char *end, uint64_t *to) {
    *to = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        *to |= (uint64_t)(**at & 0x7f) << shift;
        if (!(*(*at)++ & 0x80))
            return true;
    }
    return false;
}

/* Returns the step of a packed Event; 0: it has none. */
static int64_t step_of(const unsigned char *at, size_t bytes) {
    static const size_t fixed[8] = { [1] = 8, [5] = 4 };
    const unsigned char *end = at + bytes;
    uint64_t key, value;
    while (at < end && varint(&at, end, &key)) {
        const unsigned wire = key & 7;
        value = fixed[wire];
        if ((wire == 0 || wire == 2) && !varint(&at, end, &value))
            return 0;
        if (key >> 3 == FIELD_STEP && wire == 0)
            return (int64_t)value;
        if (wire != 0 && value > (uint64_t)(end - at))
            return 0;
        at += wire == 0 ? 0 : value;
    }
    return 0;
}

static bool cut_file(const char *path, int64_t last, struct zt_err *err) {
    struct zt_file_map map;
    size_t keep = 0, n;
    if (last < 0)
        return unlink(path) == 0 || errno == ENOENT || zt_fail(err, ZT_EXIT_DATA, "%s: %s", path, strerror(errno));
    if (!zt_file_map(&map, path, ZT_EXIT_DATA, err))
        return false;
    while ((n = record_bytes(map.data + keep, map.size - keep)) > 0 &&
           step_of(map.data + keep + HEAD, n - HEAD - TAIL) <= last)
        keep += n;
    bool ok = keep == map.size || zt_file_write(path, map.data, keep, err);
    return zt_file_close(&map, ok, err);
}

static bool is_of(const char *name, const char *owner) {
    size_t start = sizeof NAME_START - 1, n = strlen(name), m = strlen(owner);
    return strncmp(name, NAME_START, start) == 0 && n > start + m && name[n - m - 1] == '.' &&
           strcmp(name + n - m, owner) == 0;
}

bool zt_event_files_cut(const char *folder, const char *owner, int64_t last, struct zt_err *err) {
    DIR *dir = opendir(folder);
    bool ok = dir || errno == ENOENT || zt_fail(err, ZT_EXIT_DATA, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; ok && dir && (entry = readdir(dir));) {
        if (!is_of(entry->d_name, owner))
            continue;
        char *path = zt_path_join(folder, entry->d_name);
        ok = cut_file(path, last, err);
        free(path);
    }
    if (dir)
        closedir(dir);
    return ok;
}
