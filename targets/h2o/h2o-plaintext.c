/* A handler on libh2o's event loop: what h2o costs when it opens no file. One
 * thread; SIGTERM ends it at once by its default action. */
#define _GNU_SOURCE
#include "http.h"

#include <getopt.h>
#include <h2o.h>

enum { CONNECTIONS_WAITING = 4096 }; /* Linux's own default ceiling, net.core.somaxconn */

static h2o_globalconf_t config;
static h2o_context_t context;
static h2o_accept_ctx_t accept_context;

static int answer(h2o_handler_t *self, h2o_req_t *request)
{
    static h2o_generator_t generator = {NULL, NULL};
    h2o_iovec_t body = h2o_iovec_init(H2O_STRLIT("Hello, World!"));
    (void)self;
    request->res.status = 200;
    request->res.reason = "OK";
    request->res.content_length = body.len;
    h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL, H2O_STRLIT("text/plain"));
    h2o_start_response(request, &generator);
    bool head = h2o_memis(request->method.base, request->method.len, H2O_STRLIT("HEAD"));
    h2o_send(request, &body, head ? 0 : 1, H2O_SEND_STATE_FINAL);
    return 0;
}

/* The handler has only its own path; every other is h2o's 404. */
static int answer_exact(h2o_handler_t *self, h2o_req_t *request)
{
    bool found = h2o_memis(request->path_normalized.base, request->path_normalized.len, H2O_STRLIT("/plaintext"));
    return found ? answer(self, request) : -1;
}

static void on_accept(h2o_socket_t *listener, const char *error)
{
    h2o_socket_t *socket = error ? NULL : h2o_evloop_socket_accept(listener);
    if (socket)
        h2o_accept(&accept_context, socket);
}

static int listen_where_told(int argc, char **argv)
{
    static const struct option options[] = {{"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {0}};
    const char *host = "127.0.0.1";
    int port = 8080;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 'h': host = optarg; break;
        case 'p': port = atoi(optarg); break;
        default: exit(2);
        }
    }
    return listen_on(host, port, CONNECTIONS_WAITING, SOCK_NONBLOCK);
}

int main(int argc, char **argv)
{
    int fd = listen_where_told(argc, argv);
    h2o_config_init(&config);
    config.server_name = h2o_iovec_init(H2O_STRLIT("whyslow"));
    h2o_hostconf_t *host = h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);
    h2o_create_handler(path, sizeof(h2o_handler_t))->on_req = answer_exact;
    h2o_context_init(&context, h2o_evloop_create(), &config);
    accept_context = (h2o_accept_ctx_t){.ctx = &context, .hosts = config.hosts};
    h2o_socket_t *listener = h2o_evloop_socket_create(context.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    h2o_socket_read_start(listener, on_accept);
    while (h2o_evloop_run(context.loop, INT32_MAX) == 0)
        ;
    return 1;
}
