# A PostgreSQL for one run, on loopback alone: sh postgres.sh PORT FOLDER. Its data are in FOLDER, and gone with it.
#
# PostgreSQL refuses to be root, who becomes `postgres` or, without such a user, `nobody`. Nothing is kept, so nothing is
# written through to the disk.
set -eu
port=$1
folder=$2
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$programs" ] || programs=$(dirname "$(command -v initdb)")
as=
if [ "$(id -u)" = 0 ]; then
    user=$(id -un postgres 2>/dev/null || echo nobody)
    chown "$user" "$folder"
    as="setpriv --reuid=$user --regid=$(id -g "$user") --clear-groups"
fi
cd "$folder"
LC_ALL=C $as "$programs/initdb" --username=techempower --auth=trust --encoding=UTF8 --no-locale --no-sync \
    --pgdata="$folder/data" >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
exec $as "$programs/postgres" -D "$folder/data" -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
    -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 \
    -c max_wal_size=4GB -c checkpoint_timeout=1h -c shared_buffers=128MB -c max_connections=600 -c jit=off -c ssl=off
