/* Text of files as a terminal may show it. Names in models, data and configs hold any bytes; what a terminal obeys or
 * reorders, and what is not UTF-8, is escaped: bytes as \xNN, characters as \uNNNN. The escaped characters are C0, DEL,
 * C1 (U+0080 to U+009F), the marks of bidirectional text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069)
 * and the line and paragraph separators (U+2028, U+2029). A backslash stays, so that text may be escaped twice. */
#ifndef ZT_BASE_SHOW_H
#define ZT_BASE_SHOW_H

#include <stddef.h>
#include <stdio.h>

enum { ZT_SHOWN_MOST = 4 }; /* bytes that one byte of a text may take */

/* `text` escaped into to[room], cut between characters where it does not fit; returns `to`. They must not overlap. */
char *zt_show(char *to, size_t room, const char *text);
/* Prints `text` escaped; returns the number of characters. */
int zt_show_print(FILE *to, const char *text);
/* Moves to the beginning of a line of the terminal behind `to` where something stands on the one at hand: a progress
 * bar, or what another process left. Harmless where `to` is no terminal. */
void zt_show_line_begin(FILE *to);

#endif
