#!/bin/sh
# Runs a PostgreSQL of its own until it is told to end: postgres.sh FOLDER PORT, with an empty folder for its data.
set -eu
folder=$1 port=$2

# Debian keeps the server's programs off the path.
newest=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
PATH=${newest:+$newest:}$PATH

# PostgreSQL refuses to be root: then it is the user that its package made.
as=
if [ "$(id -u)" = 0 ]; then
    as="setpriv --reuid=postgres --regid=postgres --init-groups"
    chown postgres "$folder"
fi

cd "$folder"
$as initdb --username=app --auth=trust --encoding=UTF8 --no-locale --no-sync --pgdata=data >initdb.log 2>&1 || {
    cat initdb.log
    exit 1
}
# These data live no longer than the comparison: nothing is forced to the disk.
exec $as postgres -D data -p "$port" -h 127.0.0.1 -k '' -c fsync=off
