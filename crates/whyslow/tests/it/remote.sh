# Another machine, as far as TCP can tell: an sshd in a network namespace of its own, behind a link ($LINK) whose rate is limited on
# the way here (limited), or that takes 4 ms each way and loses one packet in a hundred (lossy). Run in a namespace and in the folder
# with the settings of sshd and ssh; arguments: those of whyslow.
ip link set dev lo up
# The program is there already.
agents=cache/whyslow/agents
mkdir -p "$agents"
ln "$WHYSLOW" "$agents/$(sha256sum "$WHYSLOW" | cut -d' ' -f1)"

mkfifo here linked
unshare --net sh -euc 'echo >here; read -r _ <linked
    ip link set dev lo up; ip address add 10.232.0.2/24 dev near; ip link set dev near up
    if [ "$LINK" = limited ]; then tc qdisc add dev near root tbf rate 2mbit burst 16kb latency 50ms; fi
    exec /usr/sbin/sshd -D -e -f sshd_config' 2>sshd.log &
there=$!
carrier=
trap 'kill $there $carrier' EXIT
read -r _ <here
if [ "$LINK" = limited ]; then
    ip link add name far type veth peer name near netns $there
else
    python3 "$LINK_PY" $there 4 1 >carried 2>carrier.log &
    carrier=$!
    until grep -q up carried; do kill -0 $carrier; sleep 0.1; done
fi
ip address add 10.232.0.1/24 dev far
ip link set dev far up
echo >linked
until ssh -F ssh_config -p "$PORT" 10.232.0.2 true 2>ssh.log; do
    kill -0 $there
    sleep 0.1
done
"$WHYSLOW" "$@"
