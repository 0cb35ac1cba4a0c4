/* The grammar of CSV files (RFC 4180): rows of fields, of which a field in quotes may contain delimiters, line ends and
 * doubled quotes. Text is never copied as a whole: a cursor walks over the mapped file. */
#ifndef ZT_DATA_CSV_TEXT_H
#define ZT_DATA_CSV_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zt_csv_cursor {
    const char *at, *end; /* the next byte, the end of the file */
    char delimiter;
};

/* A field as it stands in the file, without its quotes and the blanks around it. */
struct zt_csv_field {
    const char *at;
    size_t length;
    bool quoted; /* doubled quotes stand for one */
    bool last;   /* of its row */
};

/* Moves over empty lines; false at the end of the file. */
bool zt_csv_row(struct zt_csv_cursor *cursor);
/* The next field of the row. False where the quotes do not close, or text follows them. */
bool zt_csv_field(struct zt_csv_cursor *cursor, struct zt_csv_field *field);
/* The field as text of at most `room` bytes with its closing 0; longer ones are cut. Returns `to`. */
char *zt_csv_text(const struct zt_csv_field *field, char *to, size_t room);

/* The field as a number: decimal, with an exponent, or nan and inf. False where it is none. */
bool zt_csv_double(const struct zt_csv_field *field, double *number);
/* The field as an integer; 3.0 is one. False where it is none or does not fit 64 bits. */
bool zt_csv_int(const struct zt_csv_field *field, int64_t *number);

#endif
