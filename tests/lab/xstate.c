/* Lets User Mode Linux 6.1 run on processors with AMX. It keeps 2696 bytes of the registers of a process that it traces, and
 * the host's kernel takes them back only as a whole, which AMX has made larger. Preloaded into linux.uml, this adds what is
 * missing: the state of AMX as it is at a process's start, for no process in a machine can ask for another one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { XSTATE = 0x202, IN_USE = 512 / 8 }; /* NT_X86_XSTATE; where the components in use are named, as bits */
static const uint64_t AMX = 3ull << 17;
/* Not on the stack, where a machine's kernel has little room. A machine has one CPU, so there is one call at a time. */
static uint64_t whole[8192];

long ptrace(enum __ptrace_request request, ...)
{
    static long (*next)(enum __ptrace_request, ...);
    static size_t size;
    va_list rest;
    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);
    if (!next)
        next = dlsym(RTLD_NEXT, "ptrace");
    if (request != PTRACE_SETREGSET || (uintptr_t)address != XSTATE)
        return next(request, pid, address, data);
    struct iovec *given = data, all = { whole, sizeof whole };
    if (!size) {
        if (next(PTRACE_GETREGSET, pid, address, &all) < 0)
            return -1;
        size = all.iov_len;
    }
    if (given->iov_len >= size)
        return next(request, pid, address, data);
    memset(whole, 0, size);
    memcpy(whole, given->iov_base, given->iov_len);
    whole[IN_USE] &= ~AMX;
    all.iov_len = size;
    return next(request, pid, address, &all);
}
