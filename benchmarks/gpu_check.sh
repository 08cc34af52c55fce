#!/usr/bin/env bash
# gpu_check.sh - is the CUDA back end right on this GPU, and how fast? In under ten minutes, on a machine with CUDA and
# nothing else (build, tiles, context, graphs, ops, speed, sanitizer); a short training beside the CPU's, one with graphs, and tuned matrix products,
# where the program is there too. The program needs more libraries than CUDA: on a machine that has them, `pack` puts it and them into
# BUILD/carry, and a bare machine with that folder runs every part. (Library packages unpacked there would have to fit its distribution;
# a program with its libraries has to fit its C library alone.)
#
#   benchmarks/gpu_check.sh [build|tiles|context|graphs|ops|speed|sanitizer|training|replay|tuning]...     all of them by default
#   benchmarks/gpu_check.sh pack                                                                           elsewhere, before
#
# Results: a table, and OUT (build-gpu/results) with PART.csv and PART.json of tiles, context, graphs, ops, speed, training and replay,
# tuning.json, summary.csv and summary.json. A part that cannot run says why and counts as skipped, never as passed. Exit 0: all
# passed; 1: a part failed; 4: none failed, but not all could run; 2: there is no such part.
# BUILD: an existing build to use (default build-gpu, configured by the preset gpu-check); TOKENS: of the timed shapes;
# SANITIZER_LIMIT: seconds for each of its tools, which are up to a hundred times slower than the program (default 120);
# FTENGINE: the program (default: in BUILD, in BUILD/carry, in build); STEPS: of the trainings (default 100).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build-gpu}
OUT=${OUT:-$BUILD/results}
TOKENS=${TOKENS:-16384}
SANITIZER_LIMIT=${SANITIZER_LIMIT:-120}
mkdir -p "$BUILD" "$OUT" || exit 1
names=() verdicts=() notes=()
note() { # note PART VERDICT TEXT: whatever the text has, table, CSV and JSON stay well formed
    local text
    text=$(printf '%s' "$3" | tr -d '"\\' | tr -c '[:print:]' ' ' | cut -c1-200)
    names+=("$1") verdicts+=("$2") notes+=("$text")
    printf '%-10s %-8s %s\n' "$1" "$2" "$text"
}
first() { head -1 "$1" 2>/dev/null; }
last() { tail -1 "$1" 2>/dev/null; }
error_of() { grep -m1 'error: ' "$1" 2>/dev/null || last "$1"; } # of the program
# number FILE KEY: the first number of that name in a JSON file
number() { grep -oE "\"$2\": *[-0-9.e+]+" "$1" 2>/dev/null | head -1 | sed 's/.*: *//'; }
# tool NAME: its path, which on a bare machine is not in PATH
tool() {
    local at
    for at in "$(command -v "$1")" /usr/local/cuda/bin/"$1" /usr/local/cuda/compute-sanitizer/"$1"; do
        [ -x "$at" ] && echo "$at" && return 0
    done
    return 1
}

part_build() {
    local target
    if ! command -v cmake >/dev/null; then note build skipped "no cmake in PATH"; return; fi
    if [ ! -f "$BUILD/CMakeCache.txt" ]; then
        cmake --preset gpu-check -B "$BUILD" >"$OUT/build.log" 2>&1 || { note build FAILED "$(last "$OUT/build.log")"; return; }
    fi
    for target in gpu_ops gpu_device ftengine_cuda; do
        cmake --build "$BUILD" --parallel --target "$target" >>"$OUT/build.log" 2>&1 || { note build FAILED "$target: see $OUT/build.log"; return; }
    done
    note build passed "gpu_ops, gpu_device and libftengine_cuda.so in $BUILD"
}

# checks PART PROGRAM ARGUMENT...: one that prints "name,ok,what" or "name,failed,what"
checks() {
    local part=$1 code count
    shift
    "$@" >"$OUT/$part.lines" 2>"$OUT/$part.err"
    code=$?
    awk -F, 'BEGIN { print "check,verdict,seen" } { gsub(/["\\]/, ""); seen = $0; sub(/^[^,]*,[^,]*,?/, "", seen); printf "%s,%s,\"%s\"\n", $1, $2, seen }' \
        "$OUT/$part.lines" >"$OUT/$part.csv"
    awk -F, 'BEGIN { printf "[" } { gsub(/["\\]/, ""); seen = $0; sub(/^[^,]*,[^,]*,?/, "", seen)
        printf "%s\n  {\"check\": \"%s\", \"verdict\": \"%s\", \"seen\": \"%s\"}", (NR > 1 ? "," : ""), $1, $2, seen } END { print "\n]" }' \
        "$OUT/$part.lines" >"$OUT/$part.json"
    count=$(grep -c '^[^,]*,ok' "$OUT/$part.lines")
    rm -f "$OUT/$part.lines"
    case $code in
    0) if [ "$count" -gt 0 ]; then note "$part" passed "$count checks hold"; else note "$part" FAILED "nothing was checked"; fi ;;
    4) note "$part" skipped "$(first "$OUT/$part.err")" ;;
    *) note "$part" FAILED "$(grep -m1 ',failed' "$OUT/$part.csv" || first "$OUT/$part.err")" ;;
    esac
}

# The primitives that everything on tensor cores stands on, each alone (gpu_tiles.c).
part_tiles() {
    local nvcc
    nvcc=${CUDACXX:-$(tool nvcc)} || { note tiles skipped "no nvcc in CUDACXX, PATH or /usr/local/cuda/bin"; return; }
    "$nvcc" -std=c++17 -gencode arch=compute_80,code=compute_80 -I. -D_GNU_SOURCE -o "$BUILD/gpu_tiles" benchmarks/gpu_tiles.c \
        tests/emulator/tile_checks.c tests/emulator/tile_kernels.cu kernels/status.c >"$OUT/tiles.log" 2>&1 ||
        { note tiles FAILED "$(last "$OUT/tiles.log")"; return; }
    checks tiles "$BUILD/gpu_tiles"
}

# built PART NAME: is that program there? Or the part is skipped.
built() {
    [ -x "$BUILD/$2" ] && return 0
    note "$1" skipped "no $BUILD/$2: run the part build"
    return 1
}
# A context that was closed and is opened again; work captured and replayed (gpu_device.c).
part_context() { built context gpu_device && checks context "$BUILD/gpu_device" context; }
part_graphs() { built graphs gpu_device && checks graphs "$BUILD/gpu_device" graphs && grep -E '^graph_(time|memory),ok' "$OUT/graphs.csv"; }

# ops_run PART ARGUMENT...: gpu_ops; its table into OUT/PART.txt
ops_run() {
    local part=$1
    shift
    built "$part" gpu_ops || return
    rm -f "$OUT/$part.csv" "$OUT/$part.json" # of an earlier time
    "$@" >"$OUT/$part.txt" 2>"$OUT/$part.err"
    case $? in
    0) if grep -q ' cases, 0 wrong$' "$OUT/$part.txt"; then note "$part" passed "$(grep ' cases, 0 wrong$' "$OUT/$part.txt")"
        else note "$part" FAILED "it ended without a count of its cases"; fi ;;
    4) note "$part" skipped "$(grep -m1 'gpu_ops: ' "$OUT/$part.err" || first "$OUT/$part.err")" ;;
    124) note "$part" FAILED "not done after $2 seconds" ;; # of timeout
    *) note "$part" FAILED "$(grep -m1 -E 'WRONG|ERROR SUMMARY' "$OUT/$part.txt") $(last "$OUT/$part.err")" ;;
    esac
}
part_ops() { ops_run ops "$BUILD/gpu_ops" --csv "$OUT/ops.csv" --json "$OUT/ops.json"; }
part_speed() {
    ops_run speed "$BUILD/gpu_ops" --time --tokens "$TOKENS" --csv "$OUT/speed.csv" --json "$OUT/speed.json"
    grep TFLOP "$OUT/speed.txt" 2>/dev/null
}

part_sanitizer() {
    local sanitizer which
    sanitizer=$(tool compute-sanitizer) || { note sanitizer skipped "no compute-sanitizer in PATH or /usr/local/cuda"; return; }
    built sanitizer gpu_ops || return
    "$BUILD/gpu_ops" decay >"$OUT/sanitizer.txt" 2>"$OUT/sanitizer.err" # without a GPU compute-sanitizer fails, whatever it runs
    if [ $? = 4 ]; then note sanitizer skipped "$(first "$OUT/sanitizer.err")"; return; fi
    for which in memcheck racecheck; do
        ops_run "$which" timeout "$SANITIZER_LIMIT" "$sanitizer" --tool "$which" --error-exitcode 1 "$BUILD/gpu_ops"
    done
}

# The program with all of its libraries but those of the C library, which every machine has, and the kernels where this build has
# them; a script in front of it says where they are.
part_pack() {
    local program=${FTENGINE:-build/ftengine} carry=$BUILD/carry library module
    if [ ! -x "$program" ]; then note pack FAILED "no program $program: run make"; return; fi
    rm -rf "$carry" && mkdir -p "$carry/lib" && cp "$program" "$carry/lib/ftengine" || { note pack FAILED "cannot write $carry"; return; }
    for library in $(ldd "$program" | awk '$3 ~ /^\// { print $3 }' | grep -vE '/(libc|libm|libdl|libpthread|librt)\.so'); do
        cp -L "$library" "$carry/lib/" || { note pack FAILED "cannot copy $library"; return; }
    done
    module=$(dirname "$program")/libftengine_cuda.so
    if [ -e "$module" ] && ! cp "$module" "$carry/lib/"; then note pack FAILED "cannot copy $module"; return; fi
    cat >"$carry/ftengine" <<'SCRIPT' && chmod +x "$carry/ftengine" || { note pack FAILED "cannot write $carry/ftengine"; return; }
#!/bin/sh
# ftengine with the libraries that lie beside it, wherever this folder is.
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/lib/ftengine" "$@"
SCRIPT
    if ! env -i "$carry/ftengine" --version >"$OUT/pack.log" 2>&1; then note pack FAILED "it does not start: $(last "$OUT/pack.log")"; return; fi
    note pack passed "$carry: $(find "$carry" -type f | wc -l) files, $(du -sm "$carry" | cut -f1) MiB"
}

# find_program PART: its path in $program; or the part is skipped
find_program() {
    for program in "${FTENGINE:-}" "$BUILD/ftengine" "$BUILD/carry/ftengine" build/ftengine; do
        [ -n "$program" ] && [ -x "$program" ] || continue
        # Kernels that were built here fit this machine best; those that were carried lie beside the program.
        [ "$program" = "$BUILD/carry/ftengine" ] && [ -e "$BUILD/libftengine_cuda.so" ] &&
            export FTENGINE_CUDA_MODULE=${FTENGINE_CUDA_MODULE:-$BUILD/libftengine_cuda.so}
        return 0
    done
    note "$1" skipped "no ftengine program, which needs more libraries than CUDA: run make, or pack elsewhere"
    return 1
}

# Algorithms of matrix products measured on this GPU, and a run that uses them.
part_tuning() {
    local program log=$OUT/tuning.log run="tests/vectors/trainer/follow.ini device.name=cuda data.cache_dir=none"
    find_program tuning || return
    # shellcheck disable=SC2086
    "$program" tune-gemm $run train.max_steps="${STEPS:-100}" --output "$OUT/tuning.json" >"$OUT/tuning.txt" 2>"$log"
    case $? in
    0) ;;
    4) note tuning skipped "$(error_of "$log")"; return ;;
    *) note tuning FAILED "$(error_of "$log")"; return ;;
    esac
    rm -rf "$OUT/run-tuned"
    # shellcheck disable=SC2086
    if "$program" train $run train.max_steps=5 output.dir="$OUT/run-tuned" device.gemm_tuning="$OUT/tuning.json" >"$log" 2>&1; then
        note tuning passed "$(first "$OUT/tuning.txt")"
    else
        note tuning FAILED "$(error_of "$log")"
    fi
}

# The tests' own little model, a hundred steps with dropout in every precision: losses of GPU and CPU beside each other. In 16
# bits two runs go apart by their roundings alone: allowed is four times what PyTorch's 50 steps in them are from fp32.
part_training() {
    local program device precision data=tests/vectors/trainer
    find_program training || return
    echo "precision,step,cuda,cpu" >"$OUT/training.csv"
    for precision in fp32 bf16 fp16; do
        for device in cuda cpu; do
            rm -rf "$OUT/run-$device"
            "$program" train $data/follow.ini output.dir="$OUT/run-$device" device.name=$device train.precision=$precision \
                data.cache_dir=none model.hidden_dropout=0.1 model.attention_dropout=0.1 train.max_steps="${STEPS:-100}" \
                >"$OUT/training-$device.log" 2>&1
            case $? in
            0) ;;
            4) note training skipped "$(error_of "$OUT/training-$device.log")"; return ;;
            *) note training FAILED "$precision on $device: $(error_of "$OUT/training-$device.log")"; return ;;
            esac
            grep '"loss"' "$OUT/run-$device/metrics.jsonl" | sed 's/.*"step":\([0-9]*\).*"loss":\([-0-9.e+]*\).*/\1 \2/' >"$OUT/loss-$device"
        done
        paste -d' ' "$OUT/loss-cuda" "$OUT/loss-cpu" |
            awk -v precision=$precision '$1 == $3 { print precision "," $1 "," $2 "," $4 }' >>"$OUT/training.csv"
    done
    rm -f "$OUT/loss-cuda" "$OUT/loss-cpu"
    awk -F, 'BEGIN { printf "[" } NR > 1 { printf "%s\n  {\"precision\": \"%s\", \"step\": %s, \"cuda\": %s, \"cpu\": %s}", (NR > 2 ? "," : ""), $1, $2, $3, $4 }
        END { print "\n]" }' "$OUT/training.csv" >"$OUT/training.json"
    awk -F, 'NR > 1 { d = ($3 - $4) / $4; n[$1]++; if ($1 == "fp32" && d * d > worst) worst = d * d; if ($2 <= 50) { squares[$1] += d * d; first[$1]++ } }
        END { if (!n["fp32"] || !first["bf16"] || !first["fp16"]) { print "no steps"; exit 1 }
            fp32 = sqrt(worst); bf16 = sqrt(squares["bf16"] / first["bf16"]); fp16 = sqrt(squares["fp16"] / first["fp16"])
            printf "%d steps, losses apart (relative): fp32 at most %.1e (1e-4 allowed), rms bf16 %.1e (2e-3), fp16 %.1e (3e-4)\n", n["fp32"], fp32, bf16, fp16
            exit !(fp32 <= 1e-4 && bf16 <= 2e-3 && fp16 <= 3e-4) }' "$OUT/training.csv" >"$OUT/training.txt"
    if [ $? = 0 ]; then note training passed "$(last "$OUT/training.txt")"; else note training FAILED "$(last "$OUT/training.txt")"; fi
}

# The same run with device.graphs off and on: losses as far apart as products of filled micro-batches may be, and the time of a step.
# What device.graphs=auto shall be is decided by this part.
part_replay() {
    local program graphs steps=${STEPS:-100} data=tests/vectors/trainer
    find_program replay || return
    [ "$steps" -ge 12 ] || steps=12 # a shape is replayed from its third time on
    rm -f "$OUT/replay.csv" "$OUT/replay.json"
    for graphs in off on; do
        rm -rf "$OUT/run-graphs-$graphs"
        "$program" train $data/follow.ini output.dir="$OUT/run-graphs-$graphs" device.name=cuda device.graphs=$graphs train.precision=bf16 \
            data.cache_dir=none model.hidden_dropout=0.1 model.attention_dropout=0.1 train.max_steps="$steps" >"$OUT/replay-$graphs.log" 2>&1
        case $? in
        0) ;;
        4) note replay skipped "$(error_of "$OUT/replay-$graphs.log")"; return ;;
        *) note replay FAILED "graphs $graphs: $(error_of "$OUT/replay-$graphs.log")"; return ;;
        esac
        grep '"loss"' "$OUT/run-graphs-$graphs/metrics.jsonl" | sed 's/.*"step":\([0-9]*\).*"loss":\([-0-9.e+]*\).*/\1 \2/' >"$OUT/loss-$graphs"
        number "$OUT/run-graphs-$graphs/run.json" train >"$OUT/seconds-$graphs"
    done
    paste -d' ' "$OUT/loss-off" "$OUT/loss-on" | awk 'BEGIN { print "step,off,on" } $1 == $3 { print $1 "," $2 "," $4 }' >"$OUT/replay.csv"
    awk -F, 'BEGIN { printf "[" } NR > 1 { printf "%s\n  {\"step\": %s, \"off\": %s, \"on\": %s}", (NR > 2 ? "," : ""), $1, $2, $3 } END { print "\n]" }' "$OUT/replay.csv" >"$OUT/replay.json"
    awk -F, -v off="$(cat "$OUT/seconds-off")" -v on="$(cat "$OUT/seconds-on")" -v replayed="$(number "$OUT/run-graphs-on/run.json" replayed)" \
        -v recorded="$(number "$OUT/run-graphs-on/run.json" recorded)" -v bytes="$(number "$OUT/run-graphs-on/run.json" device_bytes)" '
        NR > 1 { d = ($3 - $2) / $2; n++; squares += d * d }
        END { rms = n ? sqrt(squares / n) : 1
            printf "%d steps in %.2f s without graphs and %.2f s with (recording included); %d recorded, %d replays, %.0f KiB; losses apart (rms) %.1e (2e-3 allowed)\n", n, off, on, recorded, replayed, bytes / 1024, rms
            exit !(n > 0 && rms <= 2e-3 && replayed > 0) }' "$OUT/replay.csv" >"$OUT/replay.txt"
    if [ $? = 0 ]; then note replay passed "$(last "$OUT/replay.txt")"; else note replay FAILED "$(last "$OUT/replay.txt")"; fi
    rm -f "$OUT"/loss-o* "$OUT"/seconds-o*
}

parts=("$@")
[ $# -gt 0 ] || parts=(build tiles context graphs ops speed sanitizer training replay tuning)
for part in "${parts[@]}"; do
    case $part in
    build | tiles | context | graphs | ops | speed | sanitizer | training | replay | tuning | pack) ;;
    *)
        echo "gpu_check.sh: no part '$part' (build, tiles, context, graphs, ops, speed, sanitizer, training, replay, tuning, pack)" >&2
        exit 2
        ;;
    esac
done
for part in "${parts[@]}"; do "part_$part"; done

echo "part,verdict,note" >"$OUT/summary.csv"
printf '[' >"$OUT/summary.json"
passed=0 failed=0 skipped=0
for i in "${!names[@]}"; do
    printf '%s,%s,"%s"\n' "${names[$i]}" "${verdicts[$i]}" "${notes[$i]}" >>"$OUT/summary.csv"
    printf '%s\n  {"part": "%s", "verdict": "%s", "note": "%s"}' "$([ "$i" -gt 0 ] && echo ,)" "${names[$i]}" "${verdicts[$i]}" "${notes[$i]}" >>"$OUT/summary.json"
    case ${verdicts[$i]} in
    passed) passed=$((passed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
done
printf '\n]\n' >>"$OUT/summary.json"
printf '%d passed, %d failed, %d skipped: %s/summary.csv, %s/summary.json\n' $passed $failed $skipped "$OUT" "$OUT"
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] && [ $passed -gt 0 ] || exit 4
