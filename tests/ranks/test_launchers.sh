#!/usr/bin/env bash
# One run of processes that a launcher started: by the variables that torchrun and Slurm set, and under Open MPI, MPICH and torchrun themselves where
# they are. The bits are those of one process; one error for all; whoever is killed is named by who is left.
# ctest: cost=20
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
common="$here/follow.ini data.validation=$here/validation.tsv data.cache_dir=none train.max_steps=4 device.threads=1 device.name=cpu"
for name in $(env | grep -oE '^(RANK|WORLD_SIZE|LOCAL_|MASTER_|TORCHELASTIC|OMPI_|PMIX?_|MPI_|SLURM_)[^=]*'); do unset "$name"; done

# rank R N OPTIONS...: one of N ranks, as torchrun starts it; err0 and err1 have what they say
rank() {
    local r=$1 n=$2
    shift 2
    # shellcheck disable=SC2086
    RANK=$r WORLD_SIZE=$n LOCAL_RANK=$r LOCAL_WORLD_SIZE=$n MASTER_ADDR=localhost MASTER_PORT=$((20000 + $$ % 20000)) TORCHELASTIC_RUN_ID=$$ \
        exec "$FTENGINE" train $common "$@" >"out$r" 2>"err$r" </dev/null
}
# both CODE CODE: how ranks 0 and 1 end
both() {
    local code0 code1
    wait "$first"
    code0=$?
    wait "$second"
    code1=$?
    [ "$code0 $code1" = "$1 $2" ] || fail "exit codes $code0 $code1 instead of $1 $2: $(cat err0 err1)"
}
two() { # two OPTIONS: of both
    rank 0 2 "$@" &
    first=$!
    rank 1 2 "$@" &
    second=$!
}
errors() { [ "$(cat err0 err1 | grep -c '^ftengine: error: ')" = "$1" ] || fail "not $1 errors: $(cat err0 err1)"; }
in_err() { grep -qF -- "$2" "$1" || fail "$1 lacks '$2': $(cat "$1")"; }

# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common output.dir=one
same() { cmp one/model/model.safetensors "$1/model/model.safetensors" || fail "$1 has another model than one process"; }

two output.dir=two
both 0 0
same two
grep -q '^name = cpu,cpu$' two/config.ini || fail "the run does not say on what it was: $(grep name two/config.ini)"
[ ! -s err1 ] && [ -s err0 ] && [ -s two/rank-1.log ] || fail "not rank 0 alone speaks: $(cat err1)"

# Where a directory may hold no run, one that torchrun's --max-restarts starts again goes on there; one that is started for the first time does not.
two output.dir=two output.exists=error
both 2 1 # rank 0 alone looks there
in_err err0 "holds a run"
export TORCHELASTIC_RESTART_COUNT=1
two output.dir=two output.exists=error
both 0 0
in_err err0 "attempt    1 of the launcher: goes on where the last one was"
same two
unset TORCHELASTIC_RESTART_COUNT

# srun on one host; a script of sbatch is one process.
for r in 0 1; do
    # shellcheck disable=SC2086
    SLURM_PROCID=$r SLURM_NTASKS=2 SLURM_LOCALID=$r SLURM_NODEID=0 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n7 \
        "$FTENGINE" train $common output.dir=slurm >"out$r" 2>"err$r" </dev/null &
    [ $r = 0 ] && first=$! || second=$!
done
both 0 0
same slurm
# shellcheck disable=SC2086
SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_ID=$$ expect 0 "$FTENGINE" train $common output.dir=sbatch

# Ranks that disagree, and what both of them find wrong, are one error.
rank 0 2 output.dir=no &
first=$!
rank 1 2 output.dir=no train.learning_rate=1e-4 &
second=$!
both 2 2
errors 1
in_err err0 "another configuration"
two output.dir=no data.train=nowhere.tsv
both 2 2
errors 1
in_err err0 nowhere.tsv
[ ! -e no ] || fail "a refused run left a directory"

# Who is killed is named by rank 0, or if it was that, by rank 1; a stop of any is one of all, and the run goes on with one process.
long="train.max_steps=1000000 output.save_steps=1000000 eval.strategy=no train.logging_steps=1"
begun() { for _ in $(seq 1200); do [ -s "$1/metrics.jsonl" ] && return; sleep 0.05; done; fail "it does not begin: $(cat err0 err1)"; }
# shellcheck disable=SC2086
two $long output.dir=dies1
begun dies1
kill -9 "$second"
both 1 137
errors 1
in_err err0 "rank 1"
# shellcheck disable=SC2086
two $long output.dir=dies0
begun dies0
kill -9 "$first"
both 137 1
errors 1
in_err err1 "rank 0"
# shellcheck disable=SC2086
two $long output.dir=stops
begun stops
kill -INT "$second"
both 130 130
errors 0
ls -d stops/checkpoints/step-* >/dev/null || fail "a stop did not save"

# What cannot be.
refused() { # refused TEXT VARIABLE=VALUE...
    # shellcheck disable=SC2086
    expect 2 env "${@:2}" "$FTENGINE" train $common output.dir=no
    one_error "$1"
}
refused "WORLD_SIZE is not" RANK=0
refused "several hosts" RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1
says "mpirun or srun start them"
FTENGINE_MPI_MODULE=/nowhere.so refused "FTENGINE_MPI_MODULE" SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_ID=1 "SLURM_STEP_NODELIST=n[1-2]" "SLURM_STEP_TASKS_PER_NODE=2(x2)"

# The launchers themselves.
launched() { # launched NAME COMMAND...
    command -v "$2" >/dev/null || return 0
    # shellcheck disable=SC2086
    expect 0 "${@:2}" "$FTENGINE" train $common "output.dir=$1"
    same "$1"
    echo "ran under $2"
}
launched mpich mpirun.mpich -n 2
launched openmpi mpirun.openmpi --allow-run-as-root --oversubscribe -n 2
launched torchrun torchrun --no-python --nproc-per-node 2
