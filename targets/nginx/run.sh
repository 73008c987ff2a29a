#!/bin/sh
# nginx takes its port from a file only: write one, and become nginx.
# Usage: run.sh HOST PORT WORKERS FOLDER
set -eu
mkdir -p "$4"
cat > "$4/nginx.conf" <<CONF
worker_processes $3;
daemon off;
pid $4/nginx.pid;
error_log stderr;
events { worker_connections 16384; }
http {
    access_log off;
    keepalive_requests 1000000000;  # the default closes a connection after 1000
    server_tokens off;
    server {
        listen $1:$2 backlog=4096;
        default_type text/plain;
        location = /plaintext { return 200 "Hello, World!"; }
        location / { return 404; }
    }
}
CONF
exec nginx -p "$4" -c "$4/nginx.conf" -e stderr
