/* A tiny service: GET anything answers the sum of a series as JSON. `service PORT`; a thread for each connection. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Terms of the series that is summed for each request. */
#define TERMS 1000

static unsigned long series(unsigned long terms) {
    volatile unsigned long sum = 0;
    for (unsigned long i = 1; i <= terms; i++) sum += i;
    return sum / terms;
}

/* Answers each head until the client is gone; requests here have no bodies. */
static void *serve(void *argument) {
    int client = (int)(long)argument, one = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char unread[8192 + 1];
    size_t length = 0;
    for (ssize_t more; (more = read(client, unread + length, 8192 - length)) > 0;) {
        unread[length += (size_t)more] = 0;
        for (char *end; (end = strstr(unread, "\r\n\r\n")) != NULL;) {
            length -= (size_t)(end + 4 - unread);
            memmove(unread, end + 4, length + 1);
            char body[64], answer[256];
            int size = snprintf(body, sizeof body, "{\"mean\":%s}\n", series(TERMS) > 0 ? "true" : "false");
            size = snprintf(answer, sizeof answer,
                            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size, body);
            if (write(client, answer, (size_t)size) != size) goto gone;
        }
    }
gone:
    close(client);
    return NULL;
}

int main(int count, char **words) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((unsigned short)(count > 1 ? atoi(words[1]) : 8080));
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) {
        perror("service");
        return 1;
    }
    for (;;) {
        int client = accept(listener, NULL, NULL);
        pthread_t thread;
        if (client < 0 || pthread_create(&thread, NULL, serve, (void *)(long)client)) continue;
        pthread_detach(thread);
    }
}
