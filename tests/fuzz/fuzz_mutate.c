// Mutation of a model for libFuzzer: one field of one message changes, at any depth, and the enclosing lengths follow.
// After changes of arbitrary bytes the wire scan refuses nearly every file.
#include "fuzz.h"

#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { DEPTH = 12, MOST = 1 << 16, VARINT = 10, GROWTH = 64 };
enum { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 5 };

struct field {
    size_t at, content, end; /* key and length are between `at` and `content` */
    unsigned wire;
};

static unsigned draw(unsigned *state, unsigned below) {
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % below;
}

static bool get_varint(const uint8_t *data, size_t size, size_t *at, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; *at < size && shift < 70; shift += 7) {
        uint8_t byte = data[(*at)++];
        *value |= shift < 64 ? (uint64_t)(byte & 127) << shift : 0;
        if (byte < 128)
            return true;
    }
    return false;
}

static size_t put_varint(uint8_t *to, uint64_t value) {
    size_t n = 0;
    for (; value > 127; value >>= 7)
        to[n++] = (uint8_t)(value | 128);
    to[n++] = (uint8_t)value;
    return n;
}

static bool get_field(const uint8_t *data, size_t size, size_t at, struct field *f) {
    uint64_t key, length;
    *f = (struct field){ .at = at };
    if (!get_varint(data, size, &at, &key) || !key)
        return false;
    f->wire = key & 7;
    f->content = at;
    if (f->wire == WIRE_VARINT) {
        if (!get_varint(data, size, &at, &length))
            return false;
        f->end = at;
        return true;
    }
    length = f->wire == WIRE_FIXED64 ? 8 : f->wire == WIRE_FIXED32 ? 4 : UINT64_MAX;
    if (f->wire == WIRE_BYTES && !get_varint(data, size, &at, &length))
        return false;
    f->content = at;
    f->end = at + length;
    return length <= size - at;
}

/* Whether this is a message with fields; the one over byte `place` into *f. */
static bool find_field(const uint8_t *data, size_t size, size_t place, struct field *f) {
    struct field next;
    for (size_t at = 0; at < size; at = next.end) {
        if (!get_field(data, size, at, &next))
            return false;
        if (next.at <= place && place < next.end)
            *f = next;
    }
    return size > 0;
}

static uint64_t number(unsigned *seed) {
    static const uint64_t numbers[] = { 0,
                                        1,
                                        2,
                                        3,
                                        5,
                                        7,
                                        8,
                                        16,
                                        127,
                                        255,
                                        1 << 15,
                                        1 << 20,
                                        INT32_MAX,
                                        INT64_MAX,
                                        (uint64_t)-1,
                                        (uint64_t)-2,
                                        (uint64_t)-3,
                                        (uint64_t)INT64_MIN };
    return numbers[draw(seed, sizeof numbers / sizeof *numbers)];
}

static size_t message(uint8_t *data, size_t size, size_t most, unsigned *seed, int depth);

/* The field's content changed, in `to`; its length. */
static size_t content(uint8_t *to, const uint8_t *data, const struct field *f, unsigned *seed, int depth) {
    const size_t size = f->end - f->content;
    struct field none;
    memcpy(to, data + f->content, size);
    if (f->wire == WIRE_VARINT)
        return put_varint(to, number(seed));
    if (f->wire != WIRE_BYTES || size == 0)
        return f->wire == WIRE_BYTES ? LLVMFuzzerMutate(to, 0, GROWTH) : (to[draw(seed, (unsigned)size)]++, size);
    if (depth < DEPTH && find_field(to, size, 0, &none) && draw(seed, 16))
        return message(to, size, size + GROWTH, seed, depth + 1);
    return LLVMFuzzerMutate(to, size, size + GROWTH);
}

/* data[at, end) becomes these bytes. */
static size_t replace(uint8_t *data, size_t size, size_t most, size_t at, size_t end, const uint8_t *by, size_t bytes) {
    if (size - (end - at) + bytes > most)
        return size;
    memmove(data + at + bytes, data + end, size - end);
    memcpy(data + at, by, bytes);
    return size - (end - at) + bytes;
}

static size_t message(uint8_t *data, size_t size, size_t most, unsigned *seed, int depth) {
    struct field f, other;
    const unsigned what = draw(seed, 32);
    if (size > MOST || !find_field(data, size, 0, &f))
        return LLVMFuzzerMutate(data, size, most);
    find_field(data, size, draw(seed, (unsigned)size), &f); /* of large ones rather than of small ones */
    find_field(data, size, draw(seed, (unsigned)size), &other);
    static uint8_t rooms[DEPTH + 2][MOST + 2 * VARINT + (DEPTH + 2) * GROWTH];
    uint8_t *room = rooms[depth];
    if (what == 0) /* it goes */
        return replace(data, size, most, f.at, f.end, room, 0);
    if (what == 1) { /* another one comes in front of it */
        memcpy(room, data + other.at, other.end - other.at);
        return replace(data, size, most, f.at, f.at, room, other.end - other.at);
    }
    if (what == 2 && f.wire == WIRE_BYTES && other.wire == WIRE_BYTES) { /* it has the other's content */
        f.content = other.content;
        f.end = other.end;
    }
    struct field place = f;
    get_field(data, size, f.at, &place);
    uint64_t key;
    size_t at = f.at, n;
    get_varint(data, size, &at, &key);
    const size_t bytes = content(room + 2 * VARINT, data, &f, seed, depth);
    n = put_varint(room, key);
    if (f.wire == WIRE_BYTES)
        n += put_varint(room + n, bytes);
    memmove(room + n, room + 2 * VARINT, bytes);
    return replace(data, size, most, place.at, place.end, room, n + bytes);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    const size_t first = fuzz_choice_bytes < size ? fuzz_choice_bytes : 0; /* in front of the model */
    if (first && draw(&seed, 8) == 0)
        data[0] = (uint8_t)draw(&seed, 256);
    if (draw(&seed, 16) == 0)
        return LLVMFuzzerMutate(data, size, most);
    return first + message(data + first, size - first, most - first, &seed, 0);
}
