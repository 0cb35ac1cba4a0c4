/* Preloaded into ranks: at a chosen call of a function of the C library, one rank is killed, stopped, runs out of
 * memory or sees the call fail. So every phase of a run can be hit without a line for it in the program.
 *
 *     ZT_FAULT="RANK FUNCTION NTH ACTION FILE [TEXT]"      FILE gets the time at which it happened
 *
 * Calls count from 1; "NTH+" is that call and all behind it. RANK: of one rank, calls of its main thread; or "any"
 * process named ztrain, calls from its own code in all its threads, and the first process that writes FILE is hit: what
 * Open MPI does where its own calls fail is its affair. Only those calls count whose path or name ends with TEXT where
 * one is given.
 *
 * FUNCTION: connect (the first one is to the parent), open, open_memstream (1: the model is read, 2: ranks compare
 * configs), posix_memalign after that (planning), clock_gettime after that (steps), pthread_create (loaders), rename
 * (files that get their final name), write (also what ends up in it: flushing a stream), fsync, close, mmap, malloc
 * (and its like, from the program's own code), exit (behind main). ACTION: kill, stop, memory, fail, full (fails as a
 * full disk does), wait (the call does not come back), count (at the end of the process, FILE gets the number of calls,
 * nothing else happens). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long calls;
static atomic_int streams; /* of open_memstream */

static void note_time(const char *path) {
    struct timespec now;
    char text[64];
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    int n = snprintf(text, sizeof text, "%lld.%09ld\n", (long long)now.tv_sec, now.tv_nsec);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (syscall(SYS_write, fd, text, (size_t)n) < 0)
        abort();
    syscall(SYS_close, fd);
}

/* No more address space than there is now. */
static void leave_no_memory(void) {
    char line[256];
    long long kilobytes = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0), n;
    char text[8192];
    n = (int)read(fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
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

static struct {
    char function[32], action[16], path[512], text[256];
    long nth;
    bool on, any, onwards;
    uintptr_t program, program_end; /* where the program's own code lies */
} fault;

static int find_program(struct dl_phdr_info *info, size_t size, void *none) {
    (void)size, (void)none;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            fault.program = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            fault.program_end = fault.program + info->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the first one is the program */
}

/* Before main. */
__attribute__((constructor)) static void read_fault(void) {
    const char *wanted = getenv("ZT_FAULT"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char wanted_rank[16], nth[32];
    if (!wanted || sscanf(wanted, "%15s %31s %31s %15s %511s %255s", wanted_rank, fault.function, nth, fault.action,
                          fault.path, fault.text) < 5)
        return;
    fault.any = strcmp(wanted_rank, "any") == 0 && strcmp(program_invocation_short_name, "ztrain") == 0;
    fault.nth = atol(nth);
    fault.onwards = strchr(nth, '+') != NULL;
    dl_iterate_phdr(find_program, NULL);
    fault.on = fault.any || (rank && strcmp(rank, wanted_rank) == 0);
}

/* Whether this process is the one that is hit. */
static bool first_hit(void) {
    static atomic_int mine; /* 1: yes, -1: no */
    if (fault.any && atomic_load(&mine) == 0) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, fault.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        atomic_store(&mine, fd >= 0 ? 1 : -1);
        syscall(SYS_close, fd);
    }
    return !fault.any || atomic_load(&mine) > 0;
}

static bool by_program(uintptr_t caller) {
    return caller >= fault.program && caller < fault.program_end;
}

static bool counts(uintptr_t caller) {
    return fault.any ? by_program(caller) : syscall(SYS_gettid) == getpid();
}

/* Whether the call shall fail. */
static int hit_from(const char *function, const char *name, const void *caller) {
    if (!fault.on || strcmp(function, fault.function) != 0 || !counts((uintptr_t)caller) ||
        (fault.text[0] && !ends_with(name, fault.text)))
        return 0;
    long call = atomic_fetch_add(&calls, 1) + 1;
    if (strcmp(fault.action, "count") == 0 || call < fault.nth || (call > fault.nth && !fault.onwards) || !first_hit())
        return 0;
    if (call == fault.nth)
        note_time(fault.path);
    if (strcmp(fault.action, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(fault.action, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(fault.action, "memory") == 0)
        leave_no_memory();
    while (strcmp(fault.action, "wait") == 0)
        pause();
    errno = strcmp(fault.action, "full") == 0 ? ENOSPC : EIO;
    return strcmp(fault.action, "fail") == 0 || strcmp(fault.action, "full") == 0;
}

#define hit(function, name) hit_from(function, name, __builtin_return_address(0)) /* of the interposed function */
#define NEXT(function)      ((__typeof__(&function))(uintptr_t)dlsym(RTLD_NEXT, #function))

/* As open where file offsets have 64 bits. */
int open64(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return hit("open", path) ? -1 : NEXT(open64)(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return hit("open", path) ? -1 : NEXT(openat64)(folder, path, flags, mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return hit("open", path) ? NULL : NEXT(fopen64)(path, mode);
}

ssize_t write(int fd, const void *from, size_t bytes) {
    return hit("write", "") ? -1 : (ssize_t)syscall(SYS_write, fd, from, bytes);
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at) {
    return hit("write", "") ? -1 : NEXT(pwrite64)(fd, from, bytes, at);
}

int fflush(FILE *stream) {
    return stream && hit("write", "") ? EOF : NEXT(fflush)(stream);
}

int fsync(int fd) {
    return hit("fsync", "") ? -1 : NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    return hit("fsync", "") ? -1 : NEXT(fdatasync)(fd);
}

/* Closes the file also when the call fails, as Linux does. */
int close(int fd) {
    int done = (int)syscall(SYS_close, fd);
    return hit("close", "") ? -1 : done;
}

int fclose(FILE *stream) {
    int done = NEXT(fclose)(stream);
    return hit("close", "") ? EOF : done;
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t from) {
    return hit("mmap", "") ? MAP_FAILED : NEXT(mmap64)(at, bytes, protection, flags, fd, from);
}

/* dlsym allocates, so the C library's functions are called by their other names. */
static int no_memory(const void *caller) {
    if ((!fault.any && !by_program((uintptr_t)caller)) || !hit_from("malloc", "", caller))
        return 0;
    errno = ENOMEM;
    return 1;
}

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

void *malloc(size_t bytes) {
    return no_memory(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return no_memory(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    return no_memory(__builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}

static bool agreed(void) {
    return atomic_load(&streams) >= 2;
}

FILE *open_memstream(char **at, size_t *size) {
    bool fails = hit("open_memstream", "");
    atomic_fetch_add(&streams, 1);
    return fails ? NULL : NEXT(open_memstream)(at, size);
}

int posix_memalign(void **at, size_t alignment, size_t size) {
    const bool own = by_program((uintptr_t)__builtin_return_address(0)); /* oneDNN does not look at what it is given */
    if ((own && agreed() && hit("posix_memalign", "")) || no_memory(__builtin_return_address(0)))
        return ENOMEM;
    return NEXT(posix_memalign)(at, alignment, size);
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    if (agreed())
        hit("clock_gettime", "");
    return (int)syscall(SYS_clock_gettime, clock, to);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *arg) {
    return hit("pthread_create", "") ? EAGAIN : NEXT(pthread_create)(thread, attributes, body, arg);
}

int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t size) {
    if (hit("connect", ""))
        return -1;
    return NEXT(connect)(fd, to, size);
}

int rename(const char *from, const char *to) {
    if (hit("rename", to))
        return -1;
    return NEXT(rename)(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    if (hit("rename", to))
        return -1;
    return NEXT(renameat)(from_folder, from, to_folder, to);
}

__attribute__((destructor)) static void leave(void) {
    hit("exit", "");
    if (fault.on && strcmp(fault.action, "count") == 0) {
        char text[32];
        int fd = (int)syscall(SYS_openat, AT_FDCWD, fault.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls));
        if (syscall(SYS_write, fd, text, (size_t)n) < 0)
            abort();
    }
}
