#!/usr/bin/env bash
# One run of ranks on several hosts, by Open MPI and the module for it: five ranks on three hosts have the bits of one process, or with ring of five on one, and take what was planned;
# ranks that disagree are refused with what differs. More of it: test_hosts.sh.
# ctest: cost=8 sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/mpi_hosts.sh" || exit 1

# Several ranks on a host, and one; more of them than micro-batches in a batch, and fewer; a test set, whose best model every host reads.
test="data.test=$here/validation.tsv train.gradient_accumulation_steps=2"
# shellcheck disable=SC2086
{
    one whole $test
    hosts five a:2,b:2,c:1 5 $test train.micro_batch=2 train.gradient_checkpointing=on
}
says "ranks      5 on 3 hosts"
same whole five
[ "$(json five/run.json '[r["rank"] for r in d["devices"]], all(r["memory"]["peak_allocated_bytes"] > 0 for r in d["devices"])')" = "([0, 1, 2, 3, 4], True)" ] ||
    fail "run.json: $(json five/run.json 'd["devices"]')"
for k in peak_allocated_bytes peak_reserved_bytes shared_bytes; do
    [ "$(json five/run.json "d['planned']['$k'] == d['memory']['$k']")" = True ] || fail "$k is not as planned"
done

# Ranks with gradients of their own: the bits of as many ranks on one host, which follow one process.
ring="$test train.micro_batch=1 distributed.reduction=ring"
# shellcheck disable=SC2086
{
    expect 0 "$FTENGINE" train $common $ring device.name=cpu,cpu,cpu,cpu,cpu output.dir=ring-near
    hosts ring-far a:2,b:2,c:1 5 $ring
}
says "ranks      5 on 3 hosts, 1 thread each: each adds up its own gradients"
same ring-near ring-far
cmp -s whole/model/model.safetensors ring-far/model/model.safetensors && fail "ring has the bits of one process"
for k in peak_allocated_bytes peak_reserved_bytes shared_bytes shared; do
    [ "$(json ring-far/run.json "d['planned']['$k'] == d['memory']['$k']")" = True ] || fail "$k of ring is not as planned"
done

# What cannot be: one error, of rank 0, whoever finds it.
refused "rank 1 on $(hostname) has another configuration than rank 0" "$FTENGINE" train.learning_rate=1e-4
common="$common device.name=cuda" refused "GPUs of 2 hosts; those of one host train one run" "$FTENGINE" ""
exit 0
