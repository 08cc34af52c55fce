#!/usr/bin/env bash
# A launcher that starts all ranks again with another number of them (torchrun's elastic restarts, by the variables it sets): the run goes on from its last
# checkpoint by itself where output.exists says error, after a failure, or resume, at any start; down to one rank and up again, with the bits of one process.
# ctest: cost=10 sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/same_runs.sh" || exit 1
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT
common="$here/follow.ini data.validation=$here/validation.tsv data.cache_dir=none eval.strategy=steps eval.steps=300 output.save_steps=20 train.max_steps=600
        train.warmup_steps=3 train.logging_steps=1 model.hidden_dropout=0.1 device.threads=1 device.name=cpu"
for name in $(env | grep -oE '^(RANK|WORLD_SIZE|LOCAL_|MASTER_|TORCHELASTIC|OMPI_|PMIX?_|MPI_|SLURM_)[^=]*'); do unset "$name"; done

# world N ATTEMPT OPTIONS...: N ranks in the background, as torchrun starts them for the ATTEMPTth time; what they say is in errR
world() {
    local n=$1 attempt=$2 r
    shift 2
    pids=
    rm -f err?
    for r in $(seq 0 $((n - 1))); do
        # shellcheck disable=SC2086
        RANK=$r WORLD_SIZE=$n LOCAL_RANK=$r LOCAL_WORLD_SIZE=$n MASTER_ADDR=localhost MASTER_PORT=$((20000 + $$ % 20000)) TORCHELASTIC_RUN_ID=elastic-$$ \
            TORCHELASTIC_RESTART_COUNT=$attempt "$FTENGINE" train $common "$@" >/dev/null 2>"err$r" </dev/null &
        pids="$pids $!"
    done
}
steps() { wc -l 2>/dev/null <run/metrics.jsonl || echo 0; }
# lost: the last rank is killed when the run has come some steps further, and a checkpoint is there
lost() {
    local from
    from=$(steps)
    for _ in $(seq 12000); do
        [ "$(steps)" -gt $((from + 30)) ] && break
        kill -0 "${pids##* }" 2>/dev/null || fail "the ranks ended by themselves: $(cat err0)"
        sleep 0.01
    done
    kill -9 "${pids##* }"
    for pid in $pids; do wait "$pid" && fail "a rank went on without another"; done
}
all() { for pid in $pids; do wait "$pid" || fail "a rank failed: $(cat err?)"; done; }
in_err0() { grep -qF -- "$1" err0 || fail "rank 0 does not say '$1': $(cat err0)"; }

# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common output.dir=calm

world 4 0 output.dir=run output.exists=error
lost
world 2 1 output.dir=run output.exists=error
lost
in_err0 "attempt    1 of the launcher: goes on where the last one was"
in_err0 "resumed    at step "
world 1 2 output.dir=run output.exists=error
lost
in_err0 "attempt    2 of the launcher: goes on where the last one was"
in_err0 "resumed    at step "
world 3 0 output.dir=run output.exists=error # another job, and not a restart of it
for pid in $pids; do wait "$pid" && fail "a new job took a run that is there"; done
in_err0 "holds a run"
world 3 0 output.dir=run output.exists=resume
all
in_err0 "resumed    at step "
in_err0 "ranks      3 on "
same calm run

# By its directory, which has the devices of the time before.
expect 0 "$FTENGINE" train calm/config.ini output.dir=list output.exists=new device.name=cpu,cpu train.max_steps=60 train.warmup_steps=3 output.save_total_limit=9
rm -r list/checkpoints/step-00000060
common=list
world 3 0
all
in_err0 "ranks      3 on "
in_err0 "resumed    at step "
exit 0
