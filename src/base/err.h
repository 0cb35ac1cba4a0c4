/* Errors that carry their context.
 *
 * Whatever can fail returns bool and takes a struct zt_err last. The words are written where the fact is known,
 * "WHERE: what is wrong"; the callers above put the file in front with zt_err_within(). Several problems of one
 * file are several lines. Text is escaped as base/show.h says. Only main prints (zt_err_print) and exits. */
#ifndef ZT_BASE_ERR_H
#define ZT_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum zt_exit { /* contract.md, "Failure" */
               ZT_EXIT_OK = 0,
               ZT_EXIT_RUN = 1,    /* non-finite loss, out of memory, device error */
               ZT_EXIT_CONFIG = 2, /* command line or config */
               ZT_EXIT_MODEL = 3,
               ZT_EXIT_DATA = 4, /* data, checkpoint or output files */
               ZT_EXIT_RANK = 5, /* another rank failed or was lost */
};

enum { ZT_ERR_LINES = 10, ZT_ERR_TEXT = 480 };

/* Zero-initialise ({0}) before use. No ownership: all text is held inside. */
struct zt_err {
    enum zt_exit code; /* that of the first problem */
    int count;         /* problems reported; only the first ZT_ERR_LINES keep their text */
    char text[ZT_ERR_LINES][ZT_ERR_TEXT];
    char hint[ZT_ERR_LINES][ZT_ERR_TEXT]; /* "" where none is known */
    char place[160];                      /* rank and coordinates, printed after "ztrain: error:"; "" on one rank */
};

/* Appends a problem and returns false, so that `return zt_fail(...)` reads well. err may not be NULL. */
bool zt_fail(struct zt_err *err, enum zt_exit code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Sets the hint of the problem reported last. Returns false as well. */
bool zt_hint(struct zt_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " in front of every problem from index `first` on (0: all). Returns false. */
bool zt_err_within(struct zt_err *err, int first, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* What a line with an error begins with, whoever prints it. */
#define ZT_ERR_MARK "ztrain: error: "
/* ZT_ERR_MARK "TEXT" and "hint: TEXT" lines, at most ten problems, then a count. On a terminal they begin a line of
 * their own, whatever stood there. */
void zt_err_print(const struct zt_err *err, FILE *to);

#endif
