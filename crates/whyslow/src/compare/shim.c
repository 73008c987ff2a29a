/* Loaded before the C library of a server under test, to take one cause of slowness away. WHYSLOW_SHIM says which:
 *   nodelay  every accepted connection has TCP_NODELAY, whatever the server sets
 *   nosync   no call waits for the disk; writes to files opened with O_SYNC still do
 *   nosleep  no sleep takes time
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int nodelay, nosync, nosleep;

__attribute__((constructor)) static void begin(void)
{
    const char *which = getenv("WHYSLOW_SHIM");
    nodelay = which && !strcmp(which, "nodelay");
    nosync = which && !strcmp(which, "nosync");
    nosleep = which && !strcmp(which, "nosleep");
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int accepted(int fd)
{
    int one = 1;
    /* A unix socket refuses it, and has no need of it. */
    if (nodelay && fd >= 0)
        NEXT(setsockopt)(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int accept(int fd, struct sockaddr *addr, socklen_t *len) { return accepted(NEXT(accept)(fd, addr, len)); }

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    return accepted(NEXT(accept4)(fd, addr, len, flags));
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    if (nodelay && level == IPPROTO_TCP && (name == TCP_NODELAY || name == TCP_CORK))
        return 0;
    return NEXT(setsockopt)(fd, level, name, value, len);
}

int fsync(int fd) { return nosync ? 0 : NEXT(fsync)(fd); }

int fdatasync(int fd) { return nosync ? 0 : NEXT(fdatasync)(fd); }

int syncfs(int fd) { return nosync ? 0 : NEXT(syncfs)(fd); }

void sync(void)
{
    if (!nosync)
        NEXT(sync)();
}

int sync_file_range(int fd, off64_t from, off64_t bytes, unsigned flags)
{
    return nosync ? 0 : NEXT(sync_file_range)(fd, from, bytes, flags);
}

int msync(void *from, size_t bytes, int flags) { return nosync ? 0 : NEXT(msync)(from, bytes, flags); }

int nanosleep(const struct timespec *time, struct timespec *left)
{
    return nosleep ? 0 : NEXT(nanosleep)(time, left);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    return nosleep ? 0 : NEXT(clock_nanosleep)(clock, flags, time, left);
}

int usleep(useconds_t time) { return nosleep ? 0 : NEXT(usleep)(time); }
