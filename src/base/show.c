#include "base/show.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LONGEST = 8 }; /* bytes of one character as shown, with the end of the text */

/* The character at *at and the number of its bytes; 0 where these are not UTF-8. */
static int read_character(const unsigned char *at, uint32_t *character) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = { { 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };
    for (int n = 1; n <= 4; n++) {
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

static bool is_obeyed(uint32_t c) {
    static const struct {
        uint32_t first, last;
    } ranges[] = { { 0, 0x1f },        { 0x7f, 0x9f },     { 0x61c, 0x61c },
                   { 0x200e, 0x200f }, { 0x2028, 0x202e }, { 0x2066, 0x2069 } };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

/* The next character of *text as shown; returns its bytes in `to`. */
static int show_one(const unsigned char **text, char to[LONGEST]) {
    uint32_t c = 0;
    int n = read_character(*text, &c), bytes = n ? n : 1;
    int length = bytes;
    if (!n || (n == 1 && is_obeyed(c)))
        length = snprintf(to, LONGEST, "\\x%02x", **text);
    else if (is_obeyed(c))
        length = snprintf(to, LONGEST, "\\u%04x", c & 0xffff);
    else
        memcpy(to, *text, (size_t)bytes);
    *text += bytes;
    return length;
}

char *zt_show(char *to, size_t room, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    char one[LONGEST];
    size_t length = 0;
    while (*at) {
        int n = show_one(&at, one);
        if (length + (size_t)n >= room)
            break;
        memcpy(to + length, one, (size_t)n);
        length += (size_t)n;
    }
    to[length] = 0;
    return to;
}

int zt_show_print(FILE *to, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    char one[LONGEST];
    int characters = 0;
    while (*at) {
        int n = show_one(&at, one);
        fwrite(one, 1, (size_t)n, to);
        characters += one[0] == '\\' ? n : 1;
    }
    return characters;
}

/* As many blanks as the line has columns but one move the cursor to the next line unless it stood in the first column:
 * then the carriage return brings it back there. */
void zt_show_line_begin(FILE *to) {
    struct winsize size = { 0 };
    if (!isatty(fileno(to)))
        return;
    int columns = ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    fprintf(to, "%*s\r\033[K", columns - 1, "");
}
