/* Makes the calls that the shim changes, and prints what came of each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Whether a connection that is accepted has TCP_NODELAY although the program sets it to 0. */
static int nodelay(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), zero = 0, is = -1;
    if (bind(listener, (struct sockaddr *)&addr, len) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&addr, &len) || connect(client, (struct sockaddr *)&addr, len))
        return -1;
    int accepted = accept(listener, NULL, NULL);
    setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &zero, sizeof zero);
    len = sizeof is;
    getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &is, &len);
    return is != 0;
}

/* Whether a sleep of 50 ms takes no time. */
static int nosleep(void)
{
    struct timespec begin, end, nap = {0, 50 * 1000 * 1000};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    nanosleep(&nap, NULL);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    usleep(50 * 1000);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 < 50;
}

/* Whether calls that force writes to a disk succeed where there is nothing to write. */
static int nosync(void)
{
    int none = -1;
    return !fsync(none) && !fdatasync(none) && !syncfs(none) && !sync_file_range(none, 0, 0, 0) &&
           !msync((void *)1, 1, MS_SYNC);
}

int main(void)
{
    printf("nodelay %d, nosync %d, nosleep %d\n", nodelay(), nosync(), nosleep());
    return 0;
}
