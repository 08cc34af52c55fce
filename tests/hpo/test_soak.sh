#!/usr/bin/env bash
# benchmarks/search/soak.py with 150 trials: real trainings by four workers under a limit, while workers and the coordinator are
# killed, crash and hang, the database is locked, the kernel refuses memory and the disk is full (where a small one can be
# mounted), first of all until the study has paused for that. Then the same by two coordinators on one study.
# ctest: asan_part=0
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
# What AddressSanitizer keeps of freed memory would be a worker's that grows.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1
seed=${KILL_SEED:-$(($(date +%s) % 100000))}
echo "KILL_SEED=$seed"
soak() { python3 "${SOURCE_DIR:?is set by ctest}/benchmarks/search/soak.py" --ftengine "$FTENGINE" --pause 0.5 --until-pause --seed "$seed" "$@"; }
few=60 many=150
[ -z "${FT_SANITIZE:-}" ] || few=25 many=60 # every kind of fault, several times
soak --trials $many && soak --trials $few --coordinators 2

