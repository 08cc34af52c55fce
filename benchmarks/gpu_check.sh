#!/usr/bin/env bash
# gpu_check.sh - is the CUDA back end right on this GPU, and how fast? In under ten minutes, on a machine with CUDA and
# nothing else (build, ops, speed, sanitizer); a short training beside the CPU's, and tuned matrix products, where the program is
# there too. The program needs more libraries than CUDA: on a machine that has them, `pack` puts it and them into BUILD/carry,
# and a bare machine with that folder runs every part. (Library packages unpacked there would have to fit its distribution;
# a program with its libraries has to fit its C library alone.)
#
#   benchmarks/gpu_check.sh [build|tiles|ops|speed|sanitizer|training|tuning]...     all of them by default
#   benchmarks/gpu_check.sh pack                                                     elsewhere, before
#
# Results: a table, and OUT (build-gpu/results) with tiles.csv, tiles.json, ops.csv, ops.json, speed.csv, speed.json,
# training.csv, tuning.json, summary.csv and summary.json. A part that cannot run says why and counts as skipped, never as passed. Exit 1
# when a part failed.
# BUILD: an existing build to use (default build-gpu, configured by the preset gpu-check); TOKENS: of the timed shapes;
# SANITIZER_LIMIT: seconds for each of its tools, which are up to a hundred times slower than the program (default 300);
# FTENGINE: the program (default: in BUILD, in BUILD/carry, in build).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build-gpu}
OUT=${OUT:-$BUILD/results}
TOKENS=${TOKENS:-16384}
SANITIZER_LIMIT=${SANITIZER_LIMIT:-300}
mkdir -p "$OUT"
names=() verdicts=() notes=()
note() { # note PART VERDICT TEXT
    names+=("$1") verdicts+=("$2") notes+=("$3")
    printf '%-10s %-8s %s\n' "$1" "$2" "$3"
}
last() { tail -1 "$1" 2>/dev/null | tr -d '",\\' | cut -c1-160; }

part_build() {
    if [ ! -f "$BUILD/CMakeCache.txt" ]; then
        cmake --preset gpu-check -B "$BUILD" >"$OUT/build.log" 2>&1 || { note build FAILED "$(last "$OUT/build.log")"; return; }
    fi
    if cmake --build "$BUILD" --parallel --target gpu_ops >>"$OUT/build.log" 2>&1 &&
        cmake --build "$BUILD" --parallel --target ftengine_cuda >>"$OUT/build.log" 2>&1; then
        note build passed "gpu_ops and libftengine_cuda.so in $BUILD"
    else
        note build FAILED "see $OUT/build.log"
    fi
}

# The primitives that everything on tensor cores stands on, each alone (gpu_tiles.c).
part_tiles() {
    local nvcc
    nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
    if [ ! -x "$nvcc" ]; then note tiles skipped "no nvcc in CUDACXX, PATH or /usr/local/cuda/bin"; return; fi
    "$nvcc" -std=c++17 -gencode arch=compute_80,code=compute_80 -I. -D_GNU_SOURCE -o "$BUILD/gpu_tiles" benchmarks/gpu_tiles.c \
        tests/emulator/tile_checks.c tests/emulator/tile_kernels.cu kernels/status.c >"$OUT/tiles.log" 2>&1 ||
        { note tiles FAILED "$(last "$OUT/tiles.log")"; return; }
    "$BUILD/gpu_tiles" >"$OUT/tiles.csv" 2>"$OUT/tiles.err"
    case $? in
    0) note tiles passed "$(wc -l <"$OUT/tiles.csv") primitives as the PTX manual has them" ;;
    4) note tiles skipped "$(last "$OUT/tiles.err")" ;;
    *) note tiles FAILED "$(grep -m1 failed "$OUT/tiles.csv" | tr -d '",\\')" ;;
    esac
    awk -F, 'BEGIN { printf "[" } { gsub(/["\\]/, ""); printf "%s\n  {\"primitive\": \"%s\", \"verdict\": \"%s\"}", (NR > 1 ? "," : ""), $1, $2 } END { print "\n]" }' \
        "$OUT/tiles.csv" >"$OUT/tiles.json"
}

# ops_run PART ARGUMENT...: gpu_ops; its table into OUT/PART.txt
ops_run() {
    local part=$1
    shift
    if [ ! -x "$BUILD/gpu_ops" ]; then note "$part" skipped "no $BUILD/gpu_ops: run the part build"; return; fi
    "$@" >"$OUT/$part.txt" 2>"$OUT/$part.err"
    case $? in
    0) note "$part" passed "$(last "$OUT/$part.txt")" ;;
    4) note "$part" skipped "$(head -1 "$OUT/$part.err" | tr -d '",\\')" ;;
    124) note "$part" FAILED "not done after $2 seconds" ;; # of timeout
    *) note "$part" FAILED "$(grep WRONG "$OUT/$part.txt" | head -1) $(last "$OUT/$part.err")" ;;
    esac
}
part_ops() { ops_run ops "$BUILD/gpu_ops" --csv "$OUT/ops.csv" --json "$OUT/ops.json"; }
part_speed() {
    ops_run speed "$BUILD/gpu_ops" --time --tokens "$TOKENS" --csv "$OUT/speed.csv" --json "$OUT/speed.json"
    grep TFLOP "$OUT/speed.txt"
}

part_sanitizer() {
    local tool
    if ! command -v compute-sanitizer >/dev/null; then note sanitizer skipped "no compute-sanitizer in PATH"; return; fi
    for tool in memcheck racecheck; do
        ops_run "$tool" timeout "$SANITIZER_LIMIT" compute-sanitizer --tool "$tool" --error-exitcode 1 "$BUILD/gpu_ops"
    done
}

# The program with all of its libraries but those of the system, which every machine has.
part_pack() {
    local program=${FTENGINE:-build/ftengine} library
    if [ ! -x "$program" ]; then note pack FAILED "no program $program: run make"; return; fi
    rm -rf "$BUILD/carry" && mkdir -p "$BUILD/carry/lib" && cp "$program" "$BUILD/carry/ftengine" || { note pack FAILED "cannot write $BUILD/carry"; return; }
    for library in $(ldd "$program" | awk '$3 ~ /^\// { print $3 }' | grep -vE '/(libc|libm|libdl|libpthread|librt)\.so'); do
        cp -L "$library" "$BUILD/carry/lib/" || { note pack FAILED "cannot copy $library"; return; }
    done
    note pack passed "$BUILD/carry: $(find "$BUILD/carry" -type f | wc -l) files, $(du -sm "$BUILD/carry" | cut -f1) MiB"
}

# find_program PART: its path in $program, and what it needs to start; or the part is skipped
find_program() {
    for program in "${FTENGINE:-}" "$BUILD/ftengine" "$BUILD/carry/ftengine" build/ftengine; do
        [ -n "$program" ] && [ -x "$program" ] || continue
        if [ "$program" = "$BUILD/carry/ftengine" ]; then
            export LD_LIBRARY_PATH=$BUILD/carry/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
            [ -e "$BUILD/libftengine_cuda.so" ] && export FTENGINE_CUDA_MODULE=${FTENGINE_CUDA_MODULE:-$BUILD/libftengine_cuda.so}
        fi
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
    4) note tuning skipped "$(grep -m1 'error: ' "$log" | tr -d '",\\')"; return ;;
    *) note tuning FAILED "$(grep -m1 'error: ' "$log" | tr -d '",\\')"; return ;;
    esac
    rm -rf "$OUT/run-tuned"
    # shellcheck disable=SC2086
    if "$program" train $run train.max_steps=5 output.dir="$OUT/run-tuned" device.gemm_tuning="$OUT/tuning.json" >"$log" 2>&1; then
        note tuning passed "$(head -1 "$OUT/tuning.txt" | tr -d '",\\')"
    else
        note tuning FAILED "$(grep -m1 'error: ' "$log" | tr -d '",\\')"
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
            4) note training skipped "$(grep -m1 'error: ' "$OUT/training-$device.log" | tr -d '",\\')"; return ;;
            *) note training FAILED "$precision on $device: $(grep -m1 'error: ' "$OUT/training-$device.log" | tr -d '",\\')"; return ;;
            esac
            grep '"loss"' "$OUT/run-$device/metrics.jsonl" | sed 's/.*"step":\([0-9]*\).*"loss":\([-0-9.e+]*\).*/\1 \2/' >"$OUT/loss-$device"
        done
        paste -d' ' "$OUT/loss-cuda" "$OUT/loss-cpu" |
            awk -v precision=$precision '$1 == $3 { print precision "," $1 "," $2 "," $4 }' >>"$OUT/training.csv"
    done
    awk -F, 'NR > 1 { d = ($3 - $4) / $4; n[$1]++; if ($1 == "fp32" && d * d > worst) worst = d * d; if ($2 <= 50) { squares[$1] += d * d; first[$1]++ } }
        END { if (!n["fp32"] || !first["bf16"] || !first["fp16"]) { print "no steps"; exit 1 }
            fp32 = sqrt(worst); bf16 = sqrt(squares["bf16"] / first["bf16"]); fp16 = sqrt(squares["fp16"] / first["fp16"])
            printf "%d steps, losses apart (relative): fp32 at most %.1e (1e-4 allowed), rms bf16 %.1e (2e-3), fp16 %.1e (3e-4)\n", n["fp32"], fp32, bf16, fp16
            exit !(fp32 <= 1e-4 && bf16 <= 2e-3 && fp16 <= 3e-4) }' "$OUT/training.csv" >"$OUT/training.txt"
    if [ $? = 0 ]; then note training passed "$(last "$OUT/training.txt")"; else note training FAILED "$(last "$OUT/training.txt")"; fi
}

for part in "${@:-build tiles ops speed sanitizer training tuning}"; do
    for one in $part; do
        case $one in
        build | tiles | ops | speed | sanitizer | training | tuning | pack) "part_$one" ;;
        *)
            echo "gpu_check.sh: no part '$one' (build, tiles, ops, speed, sanitizer, training, tuning, pack)" >&2
            exit 2
            ;;
        esac
    done
done

echo "part,verdict,note" >"$OUT/summary.csv"
printf '[' >"$OUT/summary.json"
failed=0
for i in "${!names[@]}"; do
    printf '%s,%s,"%s"\n' "${names[$i]}" "${verdicts[$i]}" "${notes[$i]}" >>"$OUT/summary.csv"
    printf '%s\n  {"part": "%s", "verdict": "%s", "note": "%s"}' "$([ "$i" -gt 0 ] && echo ,)" "${names[$i]}" "${verdicts[$i]}" "${notes[$i]}" >>"$OUT/summary.json"
    [ "${verdicts[$i]}" = FAILED ] && failed=1
done
printf '\n]\n' >>"$OUT/summary.json"
exit $failed
