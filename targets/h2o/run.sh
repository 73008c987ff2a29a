#!/bin/sh
# h2o takes its port from a file only: write one, and become h2o.
# Usage: run.sh HOST PORT WORKERS FOLDER
set -eu
mkdir -p "$4/files"
printf 'Hello, World!' > "$4/files/plaintext"
cat > "$4/h2o.conf" <<CONF
listen: { host: $1, port: $2 }
num-threads: $3
user: $(id -un)
server-name: whyslow
file.mime.setdefaulttype: text/plain
file.etag: OFF
header.unset: last-modified
header.unset: accept-ranges
hosts:
  default:
    paths:
      /:
        file.dir: $4/files
CONF
exec h2o --conf "$4/h2o.conf"
