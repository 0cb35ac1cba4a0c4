/* Preloaded into ranks: at a chosen call of a function of the C library, one rank is killed, stopped, runs out of
 * memory or sees the call fail. So every phase of a run can be hit without a line for it in the program.
 *
 *     ZT_FAULT="RANK FUNCTION NTH ACTION FILE [TEXT]"      FILE gets the time at which it happened
 *
 * Calls count from 1, of the main thread alone, and only those whose path or name ends with TEXT where one is given.
 * FUNCTION: connect (the first one is to the parent), open, open_memstream (ranks that compare configs), posix_memalign
 * after that (planning), clock_gettime (steps), pthread_create (loaders), rename (files that get their final name),
 * exit (behind main). ACTION: kill, stop, memory, fail. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int calls, agreed; /* agreed: open_memstream has been called */

static void note_time(const char *path) {
    struct timespec now;
    char text[64];
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    int n = snprintf(text, sizeof text, "%lld.%09ld\n", (long long)now.tv_sec, now.tv_nsec);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (write(fd, text, (size_t)n) < 0)
        abort();
    close(fd);
}

/* No more address space than there is now. */
static void leave_no_memory(void) {
    char line[256];
    long long kilobytes = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0), n;
    char text[8192];
    n = (int)read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, "VmSize:");
    if (at && sscanf(at, "%255s %lld", line, &kilobytes) == 2) {
        struct rlimit limit = { (rlim_t)kilobytes << 10, (rlim_t)kilobytes << 10 };
        setrlimit(RLIMIT_AS, &limit);
    }
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Whether the call shall fail. */
static int hit(const char *function, const char *name) {
    const char *fault = getenv("ZT_FAULT"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char wanted_rank[16], wanted[32], action[16], path[512], text[256] = "";
    int nth;
    if (!fault || !rank || syscall(SYS_gettid) != getpid() ||
        sscanf(fault, "%15s %31s %d %15s %511s %255s", wanted_rank, wanted, &nth, action, path, text) < 5)
        return 0;
    if (strcmp(rank, wanted_rank) != 0 || strcmp(function, wanted) != 0 || (text[0] && !ends_with(name, text)) ||
        atomic_fetch_add(&calls, 1) + 1 != nth)
        return 0;
    note_time(path);
    if (strcmp(action, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(action, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(action, "memory") == 0)
        leave_no_memory();
    return strcmp(action, "fail") == 0;
}

#define NEXT(function) ((__typeof__(&function))(uintptr_t)dlsym(RTLD_NEXT, #function))

/* As open where file offsets have 64 bits. */
int open64(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (hit("open", path)) {
        errno = EIO;
        return -1;
    }
    return NEXT(open64)(path, flags, mode);
}

FILE *open_memstream(char **at, size_t *size) {
    bool fails = hit("open_memstream", "");
    atomic_store(&agreed, 1);
    return fails ? NULL : NEXT(open_memstream)(at, size);
}

int posix_memalign(void **at, size_t alignment, size_t size) {
    if (atomic_load(&agreed) && hit("posix_memalign", ""))
        return ENOMEM;
    return NEXT(posix_memalign)(at, alignment, size);
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    hit("clock_gettime", "");
    return (int)syscall(SYS_clock_gettime, clock, to);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *arg) {
    return hit("pthread_create", "") ? EAGAIN : NEXT(pthread_create)(thread, attributes, body, arg);
}

int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t size) {
    if (hit("connect", "")) {
        errno = EIO;
        return -1;
    }
    return NEXT(connect)(fd, to, size);
}

int rename(const char *from, const char *to) {
    if (hit("rename", to)) {
        errno = EIO;
        return -1;
    }
    return NEXT(rename)(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    if (hit("rename", to)) {
        errno = EIO;
        return -1;
    }
    return NEXT(renameat)(from_folder, from, to_folder, to);
}

__attribute__((destructor)) static void leave(void) {
    hit("exit", "");
}
