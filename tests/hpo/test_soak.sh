#!/usr/bin/env bash
# benchmarks/soak.py with 150 trials: real trainings by four workers under a limit, while workers and the coordinator are
# killed, crash and hang and the database is locked.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
seed=${KILL_SEED:-$(($(date +%s) % 100000))}
echo "KILL_SEED=$seed"
exec python3 "${SOURCE_DIR:?is set by ctest}/benchmarks/soak.py" --ftengine "$FTENGINE" --trials 150 --pause 0.5 --seed "$seed"
