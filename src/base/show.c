#include "base/show.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LONGEST = 8 }; /* bytes of one character as shown, with the end of the text */

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

/* Escapes the next character of *text into `to`; returns its bytes. */
static int show_one(const unsigned char **text, char to[LONGEST]) {
    uint32_t c = 0;
    int n = zt_utf8_read(*text, LONGEST, &c), bytes = n ? n : 1;
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

/* Prints columns - 1 blanks. If the cursor was not in the first column, they wrap to the next line; otherwise the
 * carriage return moves the cursor back to the first column. */
void zt_show_line_begin(FILE *to) {
    struct winsize size = { 0 };
    if (!isatty(fileno(to)))
        return;
    int columns = ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    fprintf(to, "%*s\r\033[K", columns - 1, "");
}
