/* Escapes text for terminals. Names in models, data and configs may hold any bytes. Control sequences, characters that
 * reorder text, and invalid UTF-8 are escaped: bytes as \xNN, characters as \uNNNN. The escaped characters are C0, DEL,
 * C1 (U+0080 to U+009F), the marks of bidirectional text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069)
 * and the line and paragraph separators (U+2028, U+2029). Backslashes are not escaped, so that escaping twice changes
 * nothing. */
#ifndef ZT_BASE_SHOW_H
#define ZT_BASE_SHOW_H

#include <stddef.h>
#include <stdio.h>

enum { ZT_SHOWN_MOST = 4 }; /* largest number of bytes for one byte of text */

/* Escapes `text` into to[room] and returns `to`. Text that does not fit is truncated between characters. `text` and
 * `to` must not overlap. */
char *zt_show(char *to, size_t room, const char *text);
/* Prints `text` escaped; returns the number of characters. */
int zt_show_print(FILE *to, const char *text);
/* Moves to the beginning of a new line on the terminal `to` if the current line holds text, such as a progress bar.
 * Does nothing if `to` is not a terminal. */
void zt_show_line_begin(FILE *to);

#endif
