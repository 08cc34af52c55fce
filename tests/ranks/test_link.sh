#!/usr/bin/env bash
# Ranks on two hosts with a slow and lossy link between them (network namespaces; fixtures/slow_link.py): packets are lost, and the run has the bits of one
# process. What is caught: a transport that counts on messages that arrive in time, or together.
# ctest: cost=20 sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/mpi_hosts.sh" || exit 1
near=ftengine-a-$$ far=ftengine-b-$$
[ -w /dev/net/tun ] && ip netns add "$near" 2>/dev/null && ip netns add "$far" || { echo "skipped: no network namespaces can be made here"; exit 77; }
trap 'kill $link 2>/dev/null; wait 2>/dev/null; ip netns del "$near"; ip netns del "$far"; rm -rf "$scratch"' EXIT
python3 "$SOURCE_DIR/tests/fixtures/slow_link.py" "$near" "$far" 5 0.02 20e6 >link.out 2>link.err &
link=$!
for _ in $(seq 1200); do grep -qs ready link.out && break; kill -0 $link 2>/dev/null || fail "no link: $(cat link.err)"; sleep 0.1; done

# The agent knows a host by its namespace, and mpirun is on the first one.
sed -i "s#^exec sh -c#exec ip netns exec \"\$ns\" sh -c#; s#^shift#ns=\$1\nshift#" agent
mpi="ip netns exec $near ${mpi//include lo/include tun0}"
small="train.max_steps=4 eval.steps=2 output.save_steps=2"
# shellcheck disable=SC2086
{
    one whole $small
    hosts two "$near:1,$far:2" 3 $small train.micro_batch=3
}
says "ranks      3 on 2 hosts"
same whole two
kill -TERM $link
wait $link
link=
read -r carried lost < <(tail -1 link.out)
[ "$carried" -gt 200 ] && [ "$lost" -gt 0 ] || fail "$carried packets, $lost lost"
echo "$carried packets, $lost lost"
exit 0
