# Hosts, as far as TCP can tell: a server in this network namespace, and three generators in others with a link each to it.
# Arguments: the server's address, and those of the generators, where SERVER stands for address and port.
address=$1
shift
ip link set dev lo up
ip address add "$address/32" dev lo

mkfifo end
"$SERVER" 0 hosts "$address" <end >server.log &
server=$!
exec 3>end
until port=$(sed -n "s/^listening on .*://p" server.log) && [ -n "$port" ]; do sleep 0.05; done

# A host is there once it has left this namespace, and begins once it has a link.
host='echo >here$0; read -r _ <linked$0
      ip link set dev lo up; ip address add "10.231.$0.2/24" dev near; ip link set dev near up
      ip route add "$1" via "10.231.$0.1"; shift
      exec "$WHYSLOW" "$@"'
hosts=
for number in 0 1 2; do
    mkfifo "here$number" "linked$number"
    unshare --net sh -euc "$host" "$number" "$address" $(echo "$@" | sed "s/SERVER/$address:$port/") \
        --shard "$number/3" >"host$number.log" 2>&1 3>&- &
    hosts="$hosts $!"
    read -r _ <"here$number"
    ip link add name "host$number" type veth peer name near netns $!
    ip address add "10.231.$number.1/24" dev "host$number"
    ip link set dev "host$number" up
    echo >"linked$number"
done
for host in $hosts; do wait "$host" || { cat host*.log >&2; exit 1; }; done

exec 3>&-
wait "$server"
cat server.log
