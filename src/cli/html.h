/* Pages of ztrain bench and ztrain report: self-contained, well-formed XML too, readable on a phone and in dark mode.
 */
#ifndef ZT_CLI_HTML_H
#define ZT_CLI_HTML_H

#include "base/text.h"

#include <stdio.h>

/* Escapes text for HTML: & < > " ' become entities, control characters except newline and tab become question marks,
 * and bytes that are not UTF-8 are shown as \xNN. */
void zt_html_escape(struct zt_text *to, const char *text);
/* Writes escaped text. */
void zt_html_write(const char *text, FILE *to);
/* Writes the beginning of a page up to <body>; `title` is escaped. `style`: further rules of the page. */
void zt_html_begin(const char *title, const char *style, FILE *to);
void zt_html_end(FILE *to);

#endif
