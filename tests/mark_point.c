/* Check notes the place of every assertion that holds in a file, one write each, to tell where a test that crashed had
 * been. Assertions in loops made more than half of some tests' time. Linked with --wrap=_mark_point: a place that this
 * thread noted as one of the last is not written again. */
#include <stddef.h>

enum { LAST = 16 };

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line) {
    static _Thread_local struct {
        const char *file;
        int line;
    } last[LAST];
    const size_t i = (size_t)line % LAST;
    if (last[i].file == file && last[i].line == line)
        return;
    last[i].file = file;
    last[i].line = line;
    __real__mark_point(file, line);
}
