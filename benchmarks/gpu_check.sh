#!/usr/bin/env bash
# gpu_check.sh - is the CUDA back end right on this GPU, how fast is it, and how fast beside others? In under ten minutes, on a
# machine with CUDA and nothing else (build, tiles, context, graphs, ops, speed, wgmma, owner, tcgen05, sanitizer); a short training beside the CPU's, one
# with graphs, tuned matrix products, and training steps, where the program is there too; the rivals of those where a Python with
# torch and transformers is; what several GPUs do together (ranks), where there are several and NCCL. The program needs more libraries than CUDA: on a machine that has them, `pack` puts it and them into
# BUILD/carry, and `wheels` two rivals that no Python has; a bare machine with that folder runs every part. (Library packages unpacked
# there would have to fit its distribution; a program with its libraries has to fit its C library alone.)
#
#   benchmarks/gpu_check.sh [PART]...          build tiles context graphs ops speed wgmma products owner tcgen05 training replay ceilings ranks steps tuning sanitizer report
#   benchmarks/gpu_check.sh pack wheels        elsewhere, before
#   BUDGET=1800 benchmarks/gpu_check.sh ranking    alone: do predicted step times order settings as measured ones (cost_model.py)?
#
# All parts by default, in this order, which is that of what matters most, within BUDGET seconds (default 570). A part that there is no
# time for is not measured; `steps` goes on where it was when it is run again, so that a second run measures the rest.
# Results: a table, and RESULTS (build-gpu/results) with PART.csv and PART.json of tiles, context, graphs, ops, speed, wgmma, owner, tcgen05, training
# and replay, tuning.json, steps.json, ranks.json, ceilings.json, summary.csv, summary.json, and gpu_CHIP.json and gpu_CHIP.md of the part report, which
# fails when a figure is more than 5% worse than that of COMMITTED (benchmarks/results) for this chip; a first run writes it there, and
# ACCEPT=1, unless a part has failed. OUT: another folder for the few files that are worth keeping, everything else in one archive.
# A part that cannot run says why and counts as skipped, never as passed. Exit 0: all passed; 1: a part failed; 4: none failed, but not
# all could run or be measured; 2: there is no such part.
# BUILD: an existing build to use (default build-gpu, configured by the preset gpu-check); TOKENS: of the timed shapes;
# SANITIZER_LIMIT: seconds for each of its tools, which are up to a hundred times slower than the program (default 120);
# FTENGINE: the program (default: in BUILD, in BUILD/carry, in build); STEPS: of the trainings (default 100); PYTHON: with torch
# (default python3); WGMMA_OPTIONS, TCGEN05_OPTIONS: of gpu_ops --attention; STEPS_LIMIT: seconds for the part steps (default 300 in front of sanitizer, else what is left); STEPS_OPTIONS: of gpu_steps.py; RANKS_LIMIT: for the part ranks (default 240); RANKS_OPTIONS: of gpu_ranks.py.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build-gpu}
RESULTS=${RESULTS:-$BUILD/results}
TOKENS=${TOKENS:-16384}
SANITIZER_LIMIT=${SANITIZER_LIMIT:-120}
BUDGET=${BUDGET:-570}
PYTHON=${PYTHON:-python3}
COMMITTED=${COMMITTED:-benchmarks/results}
ALL="build tiles context graphs ops speed wgmma products owner tcgen05 training replay ceilings ranks steps tuning sanitizer report"
mkdir -p "$BUILD" "$RESULTS" || exit 1
names=() verdicts=() notes=()
note() { # note PART VERDICT TEXT: whatever the text has, table, CSV and JSON stay well formed
    local text
    text=$(printf '%s' "$3" | tr -d '"\\' | tr -c '[:print:]' ' ' | cut -c1-200)
    names+=("$1") verdicts+=("$2") notes+=("$text")
    printf '%-15s %-12s %s\n' "$1" "$2" "$text"
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

# python_there PART: or the part is skipped
python_there() {
    command -v "$PYTHON" >/dev/null && return 0
    note "$1" skipped "no $PYTHON (PYTHON)"
    return 1
}

# What is measured: the machine with the GPU may have no repository, but what `pack` wrote.
commit() { cat "$BUILD/carry/commit" 2>/dev/null || git describe --always --dirty 2>/dev/null || echo unknown; }

# What is left of the budget. SECONDS is bash's own, from the start.
left() { echo $((BUDGET > SECONDS ? BUDGET - SECONDS : 0)); }
# limited SECONDS COMMAND...: within them and the budget; 124 when it was not done.
limited() {
    local most=$1 rest
    shift
    rest=$(left)
    [ "$rest" -lt "$most" ] && most=$rest
    [ "$most" -gt 0 ] || return 124
    timeout -k 5 "$most" "$@"
    rest=$?
    [ $rest = 137 ] && return 124 # it did not end when it was told to
    return $rest
}
# overdue PART SECONDS: one that had all the time it may take hangs; of one that the budget ended nothing is known.
overdue() {
    if [ "$(left)" -gt 0 ]; then note "$1" FAILED "not done after $2 seconds"; else note "$1" "not measured" "the budget of $BUDGET seconds ended"; fi
}

# Compute capability of the GPU, "9.0"; nothing where nobody knows.
capability() {
    local which=${CUDA_VISIBLE_DEVICES:-0}
    nvidia-smi -i "${which%%,*}" --query-gpu=compute_cap --format=csv,noheader 2>/dev/null
}

# The CUDA release of nvcc, 1208 of 12.8; 0: none. One that does not say is taken for new.
cuda_release() {
    local nvcc said
    nvcc=${CUDACXX:-$(tool nvcc)} || { echo 0; return; }
    said=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\),.*/\1 \2/p')
    # shellcheck disable=SC2086 # two words
    if [ -n "$said" ]; then printf '%d%02d\n' $said; else echo 9999; fi
}

part_build() {
    local target own=()
    if ! command -v cmake >/dev/null; then note build skipped "no cmake in PATH"; return; fi
    if [ ! -f "$BUILD/CMakeCache.txt" ]; then
        # For this chip alone, where it is one that kernels are compiled for: half of the time.
        case $(capability) in
        8.0) own=(-D FT_CUDA_TARGETS=80) ;;
        9.0) own=(-D FT_CUDA_TARGETS=90a) ;;
        10.0) [ "$(cuda_release)" -ge 1208 ] && own=(-D FT_CUDA_TARGETS=100a) ;;
        10.3) [ "$(cuda_release)" -ge 1300 ] && own=(-D FT_CUDA_TARGETS=100f) ;;
        esac
        cmake --preset gpu-check -B "$BUILD" "${own[@]}" >"$RESULTS/build.log" 2>&1 || { note build FAILED "$(last "$RESULTS/build.log")"; return; }
    fi
    for target in gpu_ops gpu_device ftengine_cuda; do
        limited 300 cmake --build "$BUILD" --parallel --target "$target" >>"$RESULTS/build.log" 2>&1
        case $? in
        0) ;;
        124) overdue build 300; return ;;
        *) note build FAILED "$target: see $RESULTS/build.log"; return ;;
        esac
    done
    note build passed "gpu_ops, gpu_device and libftengine_cuda.so in $BUILD"
}

# checks PART PROGRAM ARGUMENT...: one that prints "name,ok,what" or "name,failed,what"
checks() {
    local part=$1 code count
    shift
    limited 90 "$@" >"$RESULTS/$part.lines" 2>"$RESULTS/$part.err"
    code=$?
    awk -F, 'BEGIN { print "check,verdict,seen" } { gsub(/["\\]/, ""); seen = $0; sub(/^[^,]*,[^,]*,?/, "", seen); printf "%s,%s,\"%s\"\n", $1, $2, seen }' \
        "$RESULTS/$part.lines" >"$RESULTS/$part.csv"
    awk -F, 'BEGIN { printf "[" } { gsub(/["\\]/, ""); seen = $0; sub(/^[^,]*,[^,]*,?/, "", seen)
        printf "%s\n  {\"check\": \"%s\", \"verdict\": \"%s\", \"seen\": \"%s\"}", (NR > 1 ? "," : ""), $1, $2, seen } END { print "\n]" }' \
        "$RESULTS/$part.lines" >"$RESULTS/$part.json"
    count=$(grep -c '^[^,]*,ok' "$RESULTS/$part.lines")
    rm -f "$RESULTS/$part.lines"
    case $code in
    0) if [ "$count" -gt 0 ]; then note "$part" passed "$count checks hold"; else note "$part" FAILED "nothing was checked"; fi ;;
    4) note "$part" skipped "$(first "$RESULTS/$part.err")" ;;
    124) overdue "$part" 90 ;;
    *) note "$part" FAILED "$(grep -m1 ',failed' "$RESULTS/$part.csv" || first "$RESULTS/$part.err")" ;;
    esac
}

# The primitives that everything on tensor cores stands on, each alone.
part_tiles() {
    local nvcc own=()
    nvcc=${CUDACXX:-$(tool nvcc)} || { note tiles skipped "no nvcc in CUDACXX, PATH or /usr/local/cuda/bin"; return; }
    case $(capability) in
    9.0) own=(-gencode "arch=compute_90a,code=sm_90a" -DGPU_TILES_HOPPER tests/emulator/pieces/hopper_checks.c tests/emulator/pieces/hopper_kernels.cu) ;;
    10.0) [ "$(cuda_release)" -ge 1208 ] && own=(-gencode "arch=compute_100a,code=sm_100a" -DGPU_TILES_BLACKWELL) ;;
    10.3) [ "$(cuda_release)" -ge 1209 ] && own=(-gencode "arch=compute_100f,code=sm_100f" -DGPU_TILES_BLACKWELL) ;;
    esac
    [[ "${own[*]}" = *BLACKWELL* ]] && own+=(tests/emulator/pieces/blackwell_checks.c tests/emulator/pieces/blackwell_kernels.cu)
    "$nvcc" -std=c++17 -gencode arch=compute_80,code=compute_80 "${own[@]}" -I. -D_GNU_SOURCE -o "$BUILD/gpu_tiles" tests/emulator/pieces/gpu_tiles.c \
        tests/emulator/pieces/tile_checks.c tests/emulator/pieces/tile_kernels.cu base/status.c >"$RESULTS/tiles.log" 2>&1 ||
        { note tiles FAILED "$(last "$RESULTS/tiles.log")"; return; }
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
part_graphs() { built graphs gpu_device && checks graphs "$BUILD/gpu_device" graphs && grep -E '^graph_(time|memory),ok' "$RESULTS/graphs.csv"; }

# ops_run PART SECONDS ARGUMENT...: gpu_ops; its table into RESULTS/PART.txt. Files that it writes are PART.csv.part and
# PART.json.part until it has counted its cases: one that was killed leaves none that is cut off.
ops_run() {
    local part=$1 most=$2 code kind
    shift 2
    built "$part" gpu_ops || return
    rm -f "$RESULTS/$part.csv" "$RESULTS/$part.json" # of an earlier time
    limited "$most" "$@" >"$RESULTS/$part.txt" 2>"$RESULTS/$part.err"
    code=$?
    for kind in csv json; do
        [ -e "$RESULTS/$part.$kind.part" ] || continue
        if grep -q ' cases, [0-9]* wrong$' "$RESULTS/$part.txt"; then mv "$RESULTS/$part.$kind.part" "$RESULTS/$part.$kind"
        else rm "$RESULTS/$part.$kind.part"; fi
    done
    case $code in
    0) if grep -q ' cases, 0 wrong$' "$RESULTS/$part.txt"; then note "$part" passed "$(grep ' cases, 0 wrong$' "$RESULTS/$part.txt")"
        else note "$part" FAILED "it ended without a count of its cases"; fi ;;
    4) note "$part" skipped "$(grep -m1 'gpu_ops: ' "$RESULTS/$part.err" || first "$RESULTS/$part.err")" ;;
    124) overdue "$part" "$most" ;;
    *) note "$part" FAILED "$(grep -m1 -E 'WRONG|ERROR SUMMARY' "$RESULTS/$part.txt") $(last "$RESULTS/$part.err")" ;;
    esac
}
part_ops() { ops_run ops 120 "$BUILD/gpu_ops" --csv "$RESULTS/ops.csv.part" --json "$RESULTS/ops.json.part"; }
part_speed() {
    ops_run speed 120 "$BUILD/gpu_ops" --time --tokens "$TOKENS" --csv "$RESULTS/speed.csv.part" --json "$RESULTS/speed.json.part"
    grep TFLOP "$RESULTS/speed.txt" 2>/dev/null
}

# Attention on warpgroups of sm_90a, which nobody gets who does not ask (kernels/cuda/README.md), beside what everybody gets:
# right on this chip, the same bits twice, and how fast beside the other and beside what was predicted (gpu_ops_attention.c)? What it
# ends with decides whether it may become the default.
part_wgmma() {
    local decision path
    # Disentangled attention by both, beside the CPU's, and timed, heads of 64.
    for path in mma wgmma; do
        ops_run "disentangled-$path" 120 env FTENGINE_ATTENTION=$path "$BUILD/gpu_ops" --time --tokens "$TOKENS" --type bf16 \
            --csv "$RESULTS/disentangled-$path.csv.part" disentangled_forward disentangled_forward_ragged disentangled_forward_pooled \
            disentangled_backward disentangled_backward_ragged disentangled_backward_pooled
        sed -n "s/.*TFLOP.*/  $path: &/p" "$RESULTS/disentangled-$path.txt" 2>/dev/null
    done
    # shellcheck disable=SC2086
    ops_run wgmma 120 "$BUILD/gpu_ops" --attention --tokens "$TOKENS" --csv "$RESULTS/wgmma.csv.part" --json "$RESULTS/wgmma.json.part" ${WGMMA_OPTIONS:-}
    [ -e "$RESULTS/wgmma.csv" ] || return
    # Of the prediction: rows "| sm_90a (H200) | attention_warpgroup | 64 | 12 | ... | 97% (special), 959 (592) | 877: 58% (issue), 578 (426) |",
    # TFLOP/s at most of wgmma (and of mma) without and with dropout. It is of full tiles: dense texts alone. Backward: of three products in
    # the pass of queries and four in that of keys, of which five are counted.
    awk -F, 'function rates(cell, key) { sub(/.*, /, "", cell); gsub(/[()]/, "", cell); split(cell, at, " "); wgmma[key] = at[1]; mma[key] = at[2] }
        function passes(cell, key, products) { rates(cell, "pass"); a[key] += products / wgmma["pass"]; b[key] += products / mma["pass"]; wgmma[key] = 5 / a[key]; mma[key] = 5 / b[key] }
        FILENAME != csv { if ($0 ~ /sm_90a.* attention_warpgroup /) { split($0, cells, "|"); rates(cells[7], cells[4] + 0 " 0.0"); rates(cells[8], cells[4] + 0 " 0.1") }
            if ($0 ~ /sm_90a.* attention_warpgroup_backward, /) { split($0, cells, "|"); n = $0 ~ /queries/ ? 3 : 4; passes(cells[7], cells[4] + 0 " 0.0 backward", n); passes(cells[8], cells[4] + 0 " 0.1 backward", n) } next }
        FNR > 1 && $13 > 0 { key = $1 " " $2 ", " $3 " heads of " $4 ", dropout " $5; us[key, $7] = $13; rate[key, $7] = $14
            if ($7 != "mma") next
            printf "  %s, %d tokens: mma %.1f us, wgmma %.1f us, %.2f times the rate", key, $6, $13, us[key, "wgmma"], $13 / us[key, "wgmma"]
            at_most = $4 + 0 " " $5 ($1 ~ /backward$/ ? " backward" : "")
            if ($1 ~ /^dense/ && wgmma[at_most]) printf "; TFLOP/s %.0f and %.0f, predicted at most %d and %d, %.2f times", $14, rate[key, "wgmma"], mma[at_most], wgmma[at_most], wgmma[at_most] / mma[at_most]
            printf "\n" }' csv="$RESULTS/wgmma.csv" benchmarks/results/static_model.md "$RESULTS/wgmma.csv" | tee "$RESULTS/wgmma-times.txt"
    decision=$(grep '^decision: ' "$RESULTS/wgmma.txt") || return
    echo "  $decision"
    notes[${#notes[@]} - 1]+="; $decision"
    # Its forward once more, the two groups of a block as they like instead of in turns (FTENGINE_ATTENTION_TURNS).
    # shellcheck disable=SC2086
    ops_run wgmma-without-turns 120 env FTENGINE_ATTENTION_TURNS=0 "$BUILD/gpu_ops" --attention --tokens "$TOKENS" --csv "$RESULTS/wgmma-without-turns.csv.part" \
        ${WGMMA_OPTIONS:---type bf16 dense-1024 mixed-1024 causal-2048}
    [ -e "$RESULTS/wgmma-without-turns.csv" ] || return
    awk -F, 'FNR == 1 || $7 != "wgmma" || $13 <= 0 || $1 ~ /backward$/ { next }
        { key = $1 " " $2 ", " $3 " heads of " $4 ", dropout " $5 ", " $6 " tokens" }
        NR == FNR { with[key] = $13; next }
        key in with { printf "  %s: wgmma in turns %.1f us, without %.1f us, %.2f times the rate\n", key, with[key], $13, $13 / with[key] }' \
        "$RESULTS/wgmma.csv" "$RESULTS/wgmma-without-turns.csv" | tee "$RESULTS/wgmma-turns.txt"
}

# A product with its activation, one with its slope, and one with a norm of the sum with a residual, by cuBLASLt and a pass, and by kernels of our own (kernels/cuda/products): right beside the CPU, and how fast. What
# training takes of it, device.gemm_tuning measures for its own shapes.
part_products() {
    local way
    for way in cublaslt own; do
        ops_run "products-$way" 60 env FTENGINE_PRODUCTS=$way "$BUILD/gpu_ops" --time --tokens "$TOKENS" --type bf16 \
            --csv "$RESULTS/products-$way.csv.part" product_activation product_slope product_norm product_norm_16bit
        sed -n "s/.*TFLOP.*/  $way: &/p" "$RESULTS/products-$way.txt" 2>/dev/null
    done
}

# candidate PART OPTION...: a path of attention that must be asked for, beside mma: right, and how fast? What it ends with decides whether it may become
# the default where it is.
candidate() {
    local part=$1 decision
    shift
    ops_run "$part" 120 "$BUILD/gpu_ops" --attention --candidate "$part" --tokens "$TOKENS" --csv "$RESULTS/$part.csv.part" --json "$RESULTS/$part.json.part" "$@"
    [ -e "$RESULTS/$part.csv" ] || return
    awk -F, -v path="$part" 'FNR > 1 && $13 > 0 { key = $1 " " $2 ", " $3 " heads of " $4 ", dropout " $5; us[key, $7] = $13
        if ($7 == "mma") printf "  %s, %d tokens: mma %.1f us, %s %.1f us, %.2f times the rate\n", key, $6, $13, path, us[key, path], $13 / us[key, path] }' \
        "$RESULTS/$part.csv" | tee "$RESULTS/$part-times.txt"
    decision=$(grep '^decision: ' "$RESULTS/$part.txt") || return
    echo "  $decision"
    notes[${#notes[@]} - 1]+="; $decision"
}
# The backward by one owner. It is made for chips of 99 KB of shared memory: five products instead of seven, so 1.4 times the
# rate of mma's two passes at most, dense, where tensor cores bind; on other chips it should be right, and not faster.
# shellcheck disable=SC2086
part_owner() { candidate owner ${OWNER_OPTIONS:-}; }
# The forward on tensor memory of compute capability 10.0 and 10.3; other chips have none, and skip it.
# shellcheck disable=SC2086
part_tcgen05() { candidate tcgen05 ${TCGEN05_OPTIONS:-}; }

part_sanitizer() {
    local sanitizer which
    sanitizer=$(tool compute-sanitizer) || { note sanitizer skipped "no compute-sanitizer in PATH or /usr/local/cuda"; return; }
    built sanitizer gpu_ops || return
    "$BUILD/gpu_ops" decay >"$RESULTS/sanitizer.txt" 2>"$RESULTS/sanitizer.err" # without a GPU compute-sanitizer fails, whatever it runs
    if [ $? = 4 ]; then note sanitizer skipped "$(first "$RESULTS/sanitizer.err")"; return; fi
    for which in memcheck racecheck; do
        ops_run "$which" "$SANITIZER_LIMIT" "$sanitizer" --tool "$which" --error-exitcode 1 "$BUILD/gpu_ops"
    done
    # Paths of attention that must be asked for, on chips that have them; warpgroups and tensor memory wait at barriers of another kind. pooled: 512 keys, so
    # that buffers are filled more than once.
    for which in {memcheck,racecheck,synccheck}-wgmma {memcheck,racecheck}-owner {memcheck,racecheck,synccheck}-tcgen05; do
        ops_run "$which" "$SANITIZER_LIMIT" "$sanitizer" --tool "${which%-*}" --error-exitcode 1 "$BUILD/gpu_ops" --attention --candidate "${which#*-}" \
            --path "${which#*-}" small small-pooled pooled
    done
}

# The program with all of its libraries but those of the C library, which every machine has, and the kernels where this build has
# them; a script in front of it says where they are.
part_pack() {
    local program=${FTENGINE:-build/ftengine} carry=$BUILD/carry library module needed
    if [ ! -x "$program" ]; then note pack FAILED "no program $program: run make"; return; fi
    module=$(dirname "$program")/libftengine_cuda.so
    [ -e "$module" ] || module=
    needed=$(ldd "$program" ${module:+"$module"}) || { note pack FAILED "ldd of $program $module"; return; }
    if grep 'not found' <<<"$needed"; then note pack FAILED "$program or its kernels need what is not here"; return; fi
    rm -rf "$carry" && mkdir -p "$carry/lib" && cp "$program" "$carry/lib/ftengine" || { note pack FAILED "cannot write $carry"; return; }
    if [ -n "$module" ] && ! cp "$module" "$carry/lib/"; then note pack FAILED "cannot copy $module"; return; fi
    for library in $(awk '$3 ~ /^\// { print $3 }' <<<"$needed" | sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt)\.so'); do
        cp -L "$library" "$carry/lib/" || { note pack FAILED "cannot copy $library"; return; }
    done
    cat >"$carry/ftengine" <<'SCRIPT' && chmod +x "$carry/ftengine" || { note pack FAILED "cannot write $carry/ftengine"; return; }
#!/bin/sh
# ftengine with the libraries that lie beside it, wherever this folder is.
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/lib/ftengine" "$@"
SCRIPT
    if ! env -i "$carry/ftengine" --version >"$RESULTS/pack.log" 2>&1; then note pack FAILED "it does not start: $(last "$RESULTS/pack.log")"; return; fi
    git describe --always --dirty >"$carry/commit" 2>/dev/null # the machine with the GPU may have no repository
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

# What autofit chooses by. Sixty trainings of BERT base: not among the parts of ten minutes.
part_ranking() {
    local program
    python_there ranking || return
    find_program ranking || return
    rm -f "$RESULTS/ranking.json"
    limited 1800 "$PYTHON" benchmarks/speed/cost_model.py --device cuda --ftengine "$program" --least 0.9 --output "$RESULTS/ranking.json" \
        >"$RESULTS/ranking.txt" 2>"$RESULTS/ranking.err"
    case $? in
    0) note ranking passed "$(last "$RESULTS/ranking.txt")" ;;
    4) note ranking skipped "$(error_of "$RESULTS/ranking.err")" ;;
    124) overdue ranking 1800 ;;
    *) note ranking FAILED "$(last "$RESULTS/ranking.txt") $(last "$RESULTS/ranking.err")" ;;
    esac
}

# Algorithms of matrix products measured on this GPU, and a run that uses them; and of runs that measure by themselves (auto) the second one, which
# takes what the first has kept, has its bits. What tuning brings to a step of size is ftengine-tuned beside ftengine, in the part steps.
part_tuning() {
    local program log=$RESULTS/tuning.log run="tests/vectors/trainer/follow.ini device.name=cuda data.cache_dir=none"
    find_program tuning || return
    # shellcheck disable=SC2086
    limited 120 "$program" tune-gemm $run train.max_steps="${STEPS:-100}" --output "$RESULTS/tuning.json" >"$RESULTS/tuning.txt" 2>"$log"
    case $? in
    0) ;;
    4) note tuning skipped "$(error_of "$log")"; return ;;
    124) overdue tuning 120; return ;;
    *) note tuning FAILED "$(error_of "$log")"; return ;;
    esac
    rm -rf "$RESULTS/run-tuned"
    # shellcheck disable=SC2086
    "$program" train $run train.max_steps=5 output.dir="$RESULTS/run-tuned" device.gemm_tuning="$RESULTS/tuning.json" >"$log" 2>&1 || { note tuning FAILED "$(error_of "$log")"; return; }
    rm -rf "$RESULTS"/run-auto-* "$RESULTS/auto-cache"
    local turn
    for turn in 1 2; do # filled up, so that one size comes often enough to be measured
        # shellcheck disable=SC2086
        XDG_CACHE_HOME=$(realpath "$RESULTS")/auto-cache "$program" train $run train.batch_size=1 train.max_steps=200 device.graphs=on device.gemm_tuning=auto \
            output.dir="$RESULTS/run-auto-$turn" >"$log" 2>&1 || { note tuning FAILED "auto: $(error_of "$log")"; return; }
    done
    if ! grep -q 'measured in' "$RESULTS/run-auto-1/train.log" || grep -q 'measured in' "$RESULTS/run-auto-2/train.log"; then
        note tuning FAILED "auto: not measured by the first of two runs alone"
    elif ! cmp -s "$RESULTS/run-auto-1/model/model.safetensors" "$RESULTS/run-auto-2/model/model.safetensors"; then
        note tuning FAILED "auto: the run that measured and the one that took its choices are other models"
    else
        note tuning passed "$(first "$RESULTS/tuning.txt")"
    fi
}

# The tests' own little model, a hundred steps with dropout in every precision: losses of GPU and CPU beside each other. In 16
# bits two runs go apart by their roundings alone: allowed is four times what PyTorch's 50 steps in them are from fp32.
part_training() {
    local program device precision data=tests/vectors/trainer
    find_program training || return
    echo "precision,step,cuda,cpu" >"$RESULTS/training.csv"
    for precision in fp32 bf16 fp16; do
        for device in cuda cpu; do
            rm -rf "$RESULTS/run-$device"
            limited 60 "$program" train $data/follow.ini output.dir="$RESULTS/run-$device" device.name=$device train.precision=$precision \
                data.cache_dir=none model.hidden_dropout=0.1 model.attention_dropout=0.1 train.max_steps="${STEPS:-100}" \
                >"$RESULTS/training-$device.log" 2>&1
            case $? in
            0) ;;
            4) note training skipped "$(error_of "$RESULTS/training-$device.log")"; return ;;
            124) overdue training 60; return ;;
            *) note training FAILED "$precision on $device: $(error_of "$RESULTS/training-$device.log")"; return ;;
            esac
            grep '"loss"' "$RESULTS/run-$device/metrics.jsonl" | sed 's/.*"step":\([0-9]*\).*"loss":\([-0-9.e+]*\).*/\1 \2/' >"$RESULTS/loss-$device"
        done
        paste -d' ' "$RESULTS/loss-cuda" "$RESULTS/loss-cpu" |
            awk -v precision=$precision '$1 == $3 { print precision "," $1 "," $2 "," $4 }' >>"$RESULTS/training.csv"
    done
    rm -f "$RESULTS/loss-cuda" "$RESULTS/loss-cpu"
    awk -F, 'BEGIN { printf "[" } NR > 1 { printf "%s\n  {\"precision\": \"%s\", \"step\": %s, \"cuda\": %s, \"cpu\": %s}", (NR > 2 ? "," : ""), $1, $2, $3, $4 }
        END { print "\n]" }' "$RESULTS/training.csv" >"$RESULTS/training.json"
    awk -F, 'NR > 1 { d = ($3 - $4) / $4; n[$1]++; if ($1 == "fp32" && d * d > worst) worst = d * d; if ($2 <= 50) { squares[$1] += d * d; first[$1]++ } }
        END { if (!n["fp32"] || !first["bf16"] || !first["fp16"]) { print "no steps"; exit 1 }
            fp32 = sqrt(worst); bf16 = sqrt(squares["bf16"] / first["bf16"]); fp16 = sqrt(squares["fp16"] / first["fp16"])
            printf "%d steps, losses apart (relative): fp32 at most %.1e (1e-4 allowed), rms bf16 %.1e (2e-3), fp16 %.1e (3e-4)\n", n["fp32"], fp32, bf16, fp16
            exit !(fp32 <= 1e-4 && bf16 <= 2e-3 && fp16 <= 3e-4) }' "$RESULTS/training.csv" >"$RESULTS/training.txt"
    if [ $? = 0 ]; then note training passed "$(last "$RESULTS/training.txt")"; else note training FAILED "$(last "$RESULTS/training.txt")"; fi
}

# The same run with device.graphs off and on: losses as far apart as products of filled micro-batches may be, and the time of a step.
# What device.graphs=auto shall be is decided by this part.
part_replay() {
    local program graphs steps=${STEPS:-100} data=tests/vectors/trainer
    find_program replay || return
    [ "$steps" -ge 12 ] || steps=12 # a shape is replayed from its third time on
    rm -f "$RESULTS/replay.csv" "$RESULTS/replay.json"
    for graphs in off on; do
        rm -rf "$RESULTS/run-graphs-$graphs"
        limited 60 "$program" train $data/follow.ini output.dir="$RESULTS/run-graphs-$graphs" device.name=cuda device.graphs=$graphs train.precision=bf16 \
            data.cache_dir=none model.hidden_dropout=0.1 model.attention_dropout=0.1 train.max_steps="$steps" >"$RESULTS/replay-$graphs.log" 2>&1
        case $? in
        0) ;;
        4) note replay skipped "$(error_of "$RESULTS/replay-$graphs.log")"; return ;;
        124) overdue replay 60; return ;;
        *) note replay FAILED "graphs $graphs: $(error_of "$RESULTS/replay-$graphs.log")"; return ;;
        esac
        grep '"loss"' "$RESULTS/run-graphs-$graphs/metrics.jsonl" | sed 's/.*"step":\([0-9]*\).*"loss":\([-0-9.e+]*\).*/\1 \2/' >"$RESULTS/loss-$graphs"
        number "$RESULTS/run-graphs-$graphs/run.json" train >"$RESULTS/seconds-$graphs"
    done
    paste -d' ' "$RESULTS/loss-off" "$RESULTS/loss-on" | awk 'BEGIN { print "step,off,on" } $1 == $3 { print $1 "," $2 "," $4 }' >"$RESULTS/replay.csv"
    awk -F, 'BEGIN { printf "[" } NR > 1 { printf "%s\n  {\"step\": %s, \"off\": %s, \"on\": %s}", (NR > 2 ? "," : ""), $1, $2, $3 } END { print "\n]" }' "$RESULTS/replay.csv" >"$RESULTS/replay.json"
    awk -F, -v off="$(cat "$RESULTS/seconds-off")" -v on="$(cat "$RESULTS/seconds-on")" -v replayed="$(number "$RESULTS/run-graphs-on/run.json" replayed)" \
        -v recorded="$(number "$RESULTS/run-graphs-on/run.json" recorded)" -v bytes="$(number "$RESULTS/run-graphs-on/run.json" device_bytes)" '
        NR > 1 { d = ($3 - $2) / $2; n++; squares += d * d }
        END { rms = n ? sqrt(squares / n) : 1
            printf "%d steps in %.2f s without graphs and %.2f s with (recording included); %d recorded, %d replays, %.0f KiB; losses apart (rms) %.1e (2e-3 allowed)\n", n, off, on, recorded, replayed, bytes / 1024, rms
            exit !(n > 0 && rms <= 2e-3 && replayed > 0) }' "$RESULTS/replay.csv" >"$RESULTS/replay.txt"
    if [ $? = 0 ]; then note replay passed "$(last "$RESULTS/replay.txt")"; else note replay FAILED "$(last "$RESULTS/replay.txt")"; fi
    rm -f "$RESULTS"/loss-o* "$RESULTS"/seconds-o*
}

# Two rivals in DeBERTa's training, which nothing installs there (pure Python; their kernels are made on the GPU's machine).
part_wheels() {
    mkdir -p "$BUILD/carry/wheels"
    if "$PYTHON" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 -d "$BUILD/carry/wheels" \
        disentangled-flash==1.1.1 flashdeberta==0.0.8 >"$RESULTS/wheels.log" 2>&1; then
        note wheels passed "$(find "$BUILD/carry/wheels" -name '*.whl' | wc -l) in $BUILD/carry/wheels"
    else
        note wheels FAILED "$(last "$RESULTS/wheels.log")"
    fi
}

# with_wheels COMMAND...: a Python that finds what `wheels` has fetched. They are unpacked: Triton reads its kernels' source files.
with_wheels() {
    local wheel site=$BUILD/site
    for wheel in "$BUILD"/carry/wheels/*.whl; do
        [ -e "$wheel" ] && "$PYTHON" -m zipfile -e "$wheel" "$site"
    done
    PYTHONPATH="$(realpath -m "$site")${PYTHONPATH:+:$PYTHONPATH}" "$@"
}

# What the GPU reaches at best, for the floors of a step.
part_ceilings() {
    if ! "$PYTHON" -c 'import torch' 2>"$RESULTS/ceilings.err"; then note ceilings skipped "$PYTHON: $(last "$RESULTS/ceilings.err")"; return; fi
    limited 60 "$PYTHON" benchmarks/gpu/gpu_ceilings.py >"$RESULTS/ceilings.part" 2>"$RESULTS/ceilings.err"
    case $? in
    0) mv "$RESULTS/ceilings.part" "$RESULTS/ceilings.json" && note ceilings passed "copy $(number "$RESULTS/ceilings.json" copy_bytes_per_second) bytes/s" ;;
    4) note ceilings skipped "$(last "$RESULTS/ceilings.err")" ;;
    124) overdue ceilings 60 ;;
    *) note ceilings FAILED "$(last "$RESULTS/ceilings.err")" ;;
    esac
}

# Data-parallel efficiency, where there are several GPUs (gpu_ranks.py).
part_ranks() {
    local program most=${RANKS_LIMIT:-240}
    python_there ranks || return
    find_program ranks || return
    [ "$(left)" -lt "$most" ] && most=$(left)
    rm -f "$RESULTS/ranks.json"
    # shellcheck disable=SC2086
    limited $((most + 30)) "$PYTHON" benchmarks/gpu/gpu_ranks.py --output "$RESULTS/ranks.json" --ftengine "$program" --seconds "$most" --commit "$(commit)" \
        ${RANKS_OPTIONS:-} >"$RESULTS/ranks.txt" 2>"$RESULTS/ranks.err"
    case $? in
    0) note ranks passed "$(last "$RESULTS/ranks.txt")" ;;
    4) note ranks skipped "$(last "$RESULTS/ranks.err")" ;;
    124) note ranks "not measured" "$(last "$RESULTS/ranks.err")" ;;
    *) note ranks FAILED "$(last "$RESULTS/ranks.err")" ;;
    esac
}

# Training steps of BERT and DeBERTa beside others (gpu_steps.py), and their floors.
part_steps() {
    local program most code
    python_there steps || return
    find_program steps || return
    case " ${parts[*]} " in
    *" sanitizer "*) most=${STEPS_LIMIT:-300} ;; # others come behind it
    *) most=${STEPS_LIMIT:-$(left)} ;;
    esac
    [ "$(left)" -lt "$most" ] && most=$(left)
    # shellcheck disable=SC2086
    with_wheels timeout -k 5 $((most + 30)) "$PYTHON" benchmarks/gpu/gpu_steps.py --output "$RESULTS/steps.json" --ftengine "$program" --python "$PYTHON" --seconds "$most" \
        --commit "$(commit)" ${STEPS_OPTIONS:-} >"$RESULTS/steps.txt" 2>"$RESULTS/steps.err"
    code=$?
    cat "$RESULTS/steps.txt"
    case $code in
    0) if grep -q ' 0 not: ' "$RESULTS/steps.txt"; then note steps passed "$(last "$RESULTS/steps.txt")"
        else note steps "not measured" "$(last "$RESULTS/steps.txt")"; fi ;;
    4) note steps skipped "$(last "$RESULTS/steps.err")" ;;
    124 | 137) note steps FAILED "it did not keep to its $most seconds" ;;
    *) note steps FAILED "$(last "$RESULTS/steps.err")" ;;
    esac
}

# One table and one JSON file of this chip, held against the last committed one (gpu_report.py).
part_report() {
    local i comma=""
    python_there report || return
    for i in "${!names[@]}"; do
        printf '%s{"part": "%s", "verdict": "%s", "note": "%s"}' "$comma" "${names[$i]}" "${verdicts[$i]}" "${notes[$i]}"
        comma=,
    done | sed '1s/^/[/; $s/$/]/' >"$RESULTS/verdicts.json"
    [ -s "$RESULTS/verdicts.json" ] || echo '[]' >"$RESULTS/verdicts.json"
    "$PYTHON" benchmarks/gpu/gpu_report.py --results "$RESULTS" --committed "$COMMITTED" ${ACCEPT:+--accept} --command "benchmarks/gpu_check.sh ${parts[*]}" \
        --commit "$(commit)" >"$RESULTS/report.txt" 2>"$RESULTS/report.err"
    case $? in
    0) note report passed "$(last "$RESULTS/report.txt")" ;;
    4) note report skipped "$(last "$RESULTS/report.err")" ;;
    *) note report FAILED "$(last "$RESULTS/report.err")" ;;
    esac
}

parts=("$@")
[ $# -gt 0 ] || read -ra parts <<<"$ALL"
for part in "${parts[@]}"; do
    case " $ALL pack wheels ranking " in
    *" $part "*) ;;
    *)
        echo "gpu_check.sh: no part '$part' (${ALL// /, }, pack, wheels, ranking)" >&2
        exit 2
        ;;
    esac
done
for part in "${parts[@]}"; do
    # The report is of what there is, and takes a second.
    if [ "$(left)" = 0 ] && [ "$part" != report ]; then note "$part" "not measured" "the budget of $BUDGET seconds ended"; else "part_$part"; fi
done

echo "part,verdict,note" >"$RESULTS/summary.csv"
printf '[' >"$RESULTS/summary.json"
passed=0 failed=0 skipped=0 unmeasured=0
for i in "${!names[@]}"; do
    printf '%s,%s,"%s"\n' "${names[$i]}" "${verdicts[$i]}" "${notes[$i]}" >>"$RESULTS/summary.csv"
    printf '%s\n  {"part": "%s", "verdict": "%s", "note": "%s"}' "$([ "$i" -gt 0 ] && echo ,)" "${names[$i]}" "${verdicts[$i]}" "${notes[$i]}" >>"$RESULTS/summary.json"
    case ${verdicts[$i]} in
    passed) passed=$((passed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    "not measured") unmeasured=$((unmeasured + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
done
printf '\n]\n' >>"$RESULTS/summary.json"
if [ -n "${OUT:-}" ]; then
    cp "$RESULTS"/summary.* "$OUT/"
    for kept in "$RESULTS"/gpu_*; do [ -e "$kept" ] && cp "$kept" "$OUT/"; done
    tar -C "$RESULTS" --exclude='run-*' -czf "$OUT/results.tar.gz" .
fi
printf '%d passed, %d failed, %d skipped, %d not measured in %d s: %s/summary.csv, %s/summary.json\n' $passed $failed $skipped $unmeasured $SECONDS \
    "$RESULTS" "$RESULTS"
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] && [ $unmeasured = 0 ] && [ $passed -gt 0 ] || exit 4
