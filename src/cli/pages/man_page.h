/* The manual page ztrain(1), in the macros of man(7), from the tables of commands and options. */
#ifndef ZT_CLI_PAGES_MAN_PAGE_H
#define ZT_CLI_PAGES_MAN_PAGE_H

#include "session/options.h"

/* `commands` ends with a NULL name. The date is that of SOURCE_DATE_EPOCH, which builds of packages set, else today. */
void zt_man_page_print(const struct zt_command_row *commands, FILE *to);

#endif
