#include "parallel/launch/hostfile.h"

#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>

enum { MOST_HOSTS = 4096, MOST_BYTES = 1 << 20 };

struct reader {
    struct zt_arena *arena;
    const char *name;
    int line;
    struct zt_host *at;
    int count;
    struct zt_err *err;
};

/* A host's name goes to mpirun and from there to ssh: nothing in it may be taken for an option or a list. A label has
 * at most 63 bytes (RFC 1035); a longer one makes mpirun crash. */
static bool is_name(const char *at, size_t length) {
    size_t label = 0;
    if (length == 0 || length > 255 || at[0] == '-' || at[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)at[i]) && at[i] != '-' && at[i] != '.' && at[i] != '_')
            return false;
        label = at[i] == '.' ? 0 : label + 1;
        if (label > 63)
            return false;
    }
    return true;
}

/* Decimal digits, 0..most; -1 where they are not. */
static int read_number(const char *at, size_t length, int most) {
    int value = 0;
    if (length == 0 || length > 9)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (at[i] < '0' || at[i] > '9')
            return -1;
        value = value * 10 + (at[i] - '0');
    }
    return value <= most ? value : -1;
}

static struct zt_host *find(struct zt_host *at, int count, const char *name, size_t length) {
    for (int i = 0; i < count; i++)
        if (strlen(at[i].name) == length && memcmp(at[i].name, name, length) == 0)
            return &at[i];
    return NULL;
}

static bool read_line(struct reader *r, const char *at, size_t length) {
    static const char slots_is[] = "slots=";
    const char *comment = memchr(at, '#', length);
    length = comment ? (size_t)(comment - at) : length;
    while (length && isspace((unsigned char)at[length - 1]))
        length--;
    while (length && isspace((unsigned char)*at)) {
        at++;
        length--;
    }
    if (!length)
        return true;
    size_t name = 0;
    while (name < length && !isspace((unsigned char)at[name]))
        name++;
    const char *rest = at + name;
    size_t left = length - name;
    while (left && isspace((unsigned char)*rest)) {
        rest++;
        left--;
    }
    size_t n = strlen(slots_is);
    int slots = left > n && memcmp(rest, slots_is, n) == 0 ? read_number(rest + n, left - n, ZT_HOST_SLOTS) : -1;
    if (!is_name(at, name) || slots < 1)
        return zt_fail(r->err, ZT_EXIT_CONFIG, "%s:%d: \"%.*s\", wants a host and its slots, as: worker-1 slots=4",
                       r->name, r->line, (int)(length < 80 ? length : 80), at);
    if (find(r->at, r->count, at, name))
        return zt_fail(r->err, ZT_EXIT_CONFIG, "%s:%d: host %.*s is listed twice", r->name, r->line, (int)name, at);
    if (r->count == MOST_HOSTS)
        return zt_fail(r->err, ZT_EXIT_CONFIG, "%s:%d: more than %d hosts", r->name, r->line, MOST_HOSTS);
    char *copy = zt_arena_alloc(r->arena, name + 1);
    memcpy(copy, at, name);
    copy[name] = 0;
    r->at[r->count++] = (struct zt_host){ .name = copy, .slots = slots, .taken = ZT_NEW_N(r->arena, bool, slots) };
    return true;
}

/* Sets the slots that "HOST" or "HOST:0,2" names to `to`. */
static bool apply(struct reader *r, const char *option, const char *part, size_t length, bool to) {
    const char *colon = memchr(part, ':', length);
    size_t name = colon ? (size_t)(colon - part) : length;
    struct zt_host *host = find(r->at, r->count, part, name);
    if (!host)
        return zt_fail(r->err, ZT_EXIT_CONFIG, "--%s: host \"%.*s\" is not in %s", option, (int)(name < 80 ? name : 80),
                       part, r->name);
    for (int i = 0; !colon && i < host->slots; i++)
        host->taken[i] = to;
    if (!colon)
        return true;
    const char *at = colon + 1, *end = part + length;
    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t digits = (size_t)((comma ? comma : end) - at);
        int slot = read_number(at, digits, host->slots - 1);
        if (slot < 0)
            return zt_fail(r->err, ZT_EXIT_CONFIG, "--%s: slot \"%.*s\" of %s, which has 0..%d", option,
                           (int)(digits < 40 ? digits : 40), at, host->name, host->slots - 1);
        host->taken[slot] = to;
        if (!comma)
            return true;
        at = comma + 1;
    }
}

static bool filter(struct reader *r, const char *option, const char *text, bool to) {
    for (;;) {
        size_t length = strcspn(text, "@");
        if (!apply(r, option, text, length, to))
            return false;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

static void keep_taken(struct reader *r, struct zt_hosts *hosts) {
    *hosts = (struct zt_hosts){ .at = r->at };
    for (int i = 0; i < r->count; i++) {
        struct zt_host *host = &r->at[i];
        for (int k = 0; k < host->slots; k++)
            host->ranks += host->taken[k];
        hosts->ranks += host->ranks;
        if (host->ranks)
            hosts->at[hosts->count++] = *host;
    }
}

bool zt_hostfile_parse(struct zt_arena *arena, const struct zt_hostfile_text *file, const char *include,
                       const char *exclude, struct zt_hosts *hosts, struct zt_err *err) {
    const char *text = file->at;
    const size_t bytes = file->bytes;
    struct reader r = {
        .arena = arena, .name = file->name, .err = err, .at = ZT_NEW_N(arena, struct zt_host, MOST_HOSTS)
    };
    bool ok = true;
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - text) - at : bytes - at;
        r.line++;
        ok &= read_line(&r, text + at, length);
        at += length + 1;
    }
    if (ok && include && exclude)
        ok = zt_fail(err, ZT_EXIT_CONFIG, "--include and --exclude exclude each other");
    for (int i = 0; i < r.count; i++)
        memset(r.at[i].taken, !include, (size_t)r.at[i].slots);
    if (!ok || (include && !filter(&r, "include", include, true)) ||
        (exclude && !filter(&r, "exclude", exclude, false)))
        return false;
    keep_taken(&r, hosts);
    return hosts->ranks > 0 || zt_fail(err, ZT_EXIT_CONFIG, "%s: no slot is left for a rank", file->name);
}

bool zt_hostfile_read(struct zt_arena *arena, const char *path, const char *include, const char *exclude,
                      struct zt_hosts *hosts, struct zt_err *err) {
    struct zt_file_map map;
    if (!zt_file_map(&map, path, ZT_EXIT_CONFIG, err))
        return false;
    bool ok = map.size <= MOST_BYTES ||
              zt_fail(err, ZT_EXIT_CONFIG, "%s: %zu bytes are too large for a hostfile", path, map.size);
    ok = ok && zt_hostfile_parse(arena, &(struct zt_hostfile_text){ (const char *)map.data, map.size, path }, include,
                                 exclude, hosts, err);
    return zt_file_close(&map, ok, err);
}

const char *zt_hosts_list(struct zt_arena *arena, const struct zt_hosts *hosts) {
    struct zt_text text = { 0 };
    for (int i = 0; i < hosts->count; i++)
        zt_text_add(&text, "%s%s:%d", i ? "," : "", hosts->at[i].name, hosts->at[i].ranks);
    const char *list = zt_arena_strdup(arena, text.at ? text.at : "");
    zt_text_finish(&text);
    return list;
}
