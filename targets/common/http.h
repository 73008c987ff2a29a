/* The little HTTP/1.1 that the C servers of this folder share: where a head
 * ends, what it asks for, and answers that are ready to be copied. They take no
 * request bodies, so a request that announces one is answered with 400. */
#ifndef HTTP_H
#define HTTP_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    INPUT_BYTES = 8192,   /* the longest head that is taken; what nginx takes too */
    OUTPUT_BYTES = 16384, /* about 120 answers: more than any pipeline we drive */
    ANSWER_BYTES = 256,   /* the longest answer below is 155 bytes */
};

enum route { PLAINTEXT, NOT_FOUND, BAD_REQUEST, ROUTES };

struct request {
    const char *bytes;
    size_t length; /* bytes of the head, blank line included */
    enum route route;
    bool head;  /* HEAD: the same head, no body */
    bool close; /* the client wants the connection closed */
};

struct answer {
    char bytes[ANSWER_BYTES];
    size_t length, head_length;
};

/* One answer per route, with and without "Connection: close". */
struct answers {
    struct answer of[ROUTES][2];
    time_t made_at;
};

static inline bool starts_with(const char *p, const char *end, const char *prefix)
{
    size_t n = strlen(prefix);
    return (size_t)(end - p) >= n && memcmp(p, prefix, n) == 0;
}

static inline void read_request_line(const char *p, const char *end, struct request *r)
{
    r->head = starts_with(p, end, "HEAD ");
    bool get = starts_with(p, end, "GET ");
    const char *path = p + (r->head ? 5 : 4);
    if (!get && !r->head)
        r->route = BAD_REQUEST;
    else
        r->route = starts_with(path, end, "/plaintext ") ? PLAINTEXT : NOT_FOUND;
    end -= end > p && end[-1] == '\r';
    bool http11 = end - p >= 8 && memcmp(end - 8, "HTTP/1.1", 8) == 0;
    r->close = !http11 || r->route == BAD_REQUEST;
}

/* Only the three headers that change where a message ends are looked at. */
static inline void read_header(const char *p, const char *end, struct request *r)
{
    size_t n = end - p;
    if (n > 11 && strncasecmp(p, "connection:", 11) == 0) {
        r->close |= memmem(p, n, "close", 5) != NULL;
    } else if ((n > 15 && strncasecmp(p, "content-length:", 15) == 0 && atol(p + 15) != 0) ||
               (n > 18 && strncasecmp(p, "transfer-encoding:", 18) == 0)) {
        r->route = BAD_REQUEST;
        r->close = true;
    }
}

/* True when p..p+n holds a whole head, which is then described in r. */
static inline bool read_request(const char *p, size_t n, struct request *r)
{
    const char *end = p + n, *newline = memchr(p, '\n', n);
    if (!newline)
        return false;
    read_request_line(p, newline, r);
    for (const char *line = newline + 1; (newline = memchr(line, '\n', end - line)); line = newline + 1) {
        if (newline - line <= (*line == '\r')) {
            r->length = newline + 1 - p;
            return true;
        }
        char first = *line | 0x20; /* in lower case: only these can matter */
        if (first == 'c' || first == 't')
            read_header(line, newline, r);
    }
    return false;
}

/* Makes them anew when the second of the date has changed. */
static inline void make_answers(struct answers *a, time_t now)
{
    if (now == a->made_at)
        return;
    static const struct { const char *status, *body; } text[ROUTES] = {
        [PLAINTEXT] = {"200 OK", "Hello, World!"},
        [NOT_FOUND] = {"404 Not Found", "Not Found"},
        [BAD_REQUEST] = {"400 Bad Request", "Bad Request"},
    };
    char date[32];
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    for (int i = 0; i < 2 * ROUTES; i++) {
        struct answer *to = &a->of[i / 2][i % 2];
        size_t body = strlen(text[i / 2].body);
        to->head_length = snprintf(to->bytes, ANSWER_BYTES,
            "HTTP/1.1 %s\r\nServer: whyslow\r\nDate: %s\r\nContent-Type: text/plain\r\n"
            "Content-Length: %zu\r\n%s\r\n", text[i / 2].status, date, body,
            i % 2 ? "Connection: close\r\n" : "");
        memcpy(to->bytes + to->head_length, text[i / 2].body, body);
        to->length = to->head_length + body;
    }
    a->made_at = now;
}

/* A listening socket, or the end of the program with the reason. */
static inline int listen_on(const char *host, int port, int backlog, int flags)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | flags, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1 || bind(fd, (void *)&at, sizeof at) || listen(fd, backlog)) {
        perror(host);
        exit(1);
    }
    return fd;
}

static inline void set_nodelay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

#endif
