/* Errors with their context.
 *
 * Every function that can fail returns bool and takes a struct zt_err as its last parameter. The function that knows
 * the fact writes the text "WHERE: what is wrong"; its callers prepend the file name with zt_err_within(). Several
 * problems of one file are several lines. Text is escaped as base/show.h describes; "..." stands for the middle of one
 * that is longer than ZT_ERR_TEXT. Only main prints errors (zt_err_print) and exits. */
#ifndef ZT_BASE_ERR_H
#define ZT_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum zt_exit { /* the exit codes of the program */
               ZT_EXIT_OK = 0,
               ZT_EXIT_RUN = 1,    /* non-finite loss, out of memory, device error */
               ZT_EXIT_CONFIG = 2, /* command line or config */
               ZT_EXIT_MODEL = 3,
               ZT_EXIT_DATA = 4, /* data, checkpoint or output files */
               ZT_EXIT_RANK = 5, /* another rank failed or was lost */
};

enum { ZT_ERR_LINES = 10, ZT_ERR_TEXT = 480 };

/* Zero-initialise ({0}) before use. All text is held inside, except that of `rest`: zt_err_finish() frees it. */
struct zt_err {
    enum zt_exit code; /* of the first problem */
    int count;         /* number of problems; only the first ZT_ERR_LINES keep their text here */
    char text[ZT_ERR_LINES][ZT_ERR_TEXT];
    char hint[ZT_ERR_LINES][ZT_ERR_TEXT]; /* "": no hint */
    bool keeps_all;  /* set by a reader that reports all problems of a file: those after the first ZT_ERR_LINES are
                        kept in `rest` */
    char *rest;      /* a line per problem, and a line "hint: TEXT" per hint; NULL: none */
    char place[160]; /* rank and its coordinates, printed after "ztrain: error:"; "": one rank */
};

/* Appends a problem and returns false, for `return zt_fail(...)`. `err` must not be NULL. */
bool zt_fail(struct zt_err *err, enum zt_exit code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Sets the hint of the latest problem. Returns false. */
bool zt_hint(struct zt_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prepends "prefix: " to every problem from index `first` on (0: all). Returns false. */
bool zt_err_within(struct zt_err *err, int first, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Prepends `prefix` to problem `index`, which is one of the first ZT_ERR_LINES. */
void zt_err_prepend(struct zt_err *err, int index, const char *prefix);

/* The prefix of every line with an error. */
#define ZT_ERR_MARK "ztrain: error: "
/* Prints ZT_ERR_MARK "TEXT" and "hint: TEXT" lines: at most ten problems and those in `rest`, then the count of those
 * without text. Where a progress bar may be on the terminal, zt_show_line_begin() must have been called. */
void zt_err_print(const struct zt_err *err, FILE *to);
/* Frees `rest`. Only errors whose `keeps_all` may be set need it. */
void zt_err_finish(struct zt_err *err);

#endif
