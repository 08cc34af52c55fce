#!/usr/bin/env bash
# The compiled CUDA kernels, read instruction by instruction: no register is spilled, and what is claimed of the kernels -
# tensor cores, asynchronous copies, 16-byte loads and stores - is there, for every architecture in the module.
# Skipped where there is no module (no nvcc) or no disassembler (tools/cuda_disassembler.sh fetches one).
# ctest: part=2
: "${SOURCE_DIR:?is set by ctest}" "${BUILD_DIR:?}"
module=$BUILD_DIR/libftengine_cuda.so
tools=$SOURCE_DIR/third_party/cuda-disassembler/nvidia/cu13/bin
PATH=$PATH:$tools:/usr/local/cuda/bin
skip() { echo "skipped: $1"; exit 77; }
[ -e "$module" ] || skip "there is no libftengine_cuda.so, as there was no nvcc"
command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null || skip "no cuobjdump and nvdisasm: run tools/cuda_disassembler.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
cuobjdump -res-usage "$module" >res-usage 2>&1 || { cat res-usage; exit 1; }
cuobjdump -sass "$module" >sass 2>&1 || { tail -5 sass; exit 1; }

# ---- spills: a frame on the stack is a spill, or an array that was indexed by a variable -------------------------------------
# Kernels that may have one, of 8 bytes at most, with the reason: on sm_100f and sm_120 CUDA 13.0 keeps two numbers of a lane in memory to read
# one of them by an index, though the loop over them is unrolled (ptxas: 0 bytes of spill stores). The path in fp32, for heads above 128; talking
# attention's pass of queries in 16 bits.
allowed='plain_backwardI.*Li8E|talking_queryI(13__nv_bfloat16|6__half)Lb1E'
awk -v allowed="$allowed" '
    / Function / { name = $2; sub(/:$/, "", name) }
    /STACK:/ { count++; match($0, /STACK:[0-9]+/); bytes = substr($0, RSTART + 6, RLENGTH - 6)
               if (bytes > 0 && (name !~ allowed || bytes > 8)) { print "a stack of " bytes " bytes: " name; bad = 1 } }
    END { print count + 0 " kernels looked at for spills"; exit bad || count == 0 }' res-usage || exit 1

# What warpgroups may take of registers is reckoned from as many as the kernels are launched with (attention/warpgroup.h): forward in two
# types and two head sizes, backward in two passes more; and all that again for bands.
awk '/^arch = / { arch = $3 } / Function / { name = $2 }
    arch == "sm_90a" && name ~ /attention_warpgroup(_banded)?(_backward)?I/ && /REG:/ { seen++; if ($0 !~ /REG:168 /) { print "not 168 registers: " name $0; bad = 1 } }
    END { if (seen != 24) print "sm_90a: " seen + 0 " kernels of attention on warpgroups, not 24"; exit bad || seen != 24 }' res-usage || exit 1

# Two blocks of 192 threads share a multiprocessor's registers on tensor memory (attention/tensor_memory.cu): two types and two head sizes, where the
# module has code for it.
awk '/^arch = / { arch = $3 } / Function / { name = $2 }
    arch ~ /^sm_100[af]$/ && /Function|REG:/ { has[arch] += 0 }
    arch ~ /^sm_100[af]$/ && name ~ /attention_tensor_memoryI/ && /REG:/ { has[arch]++; match($0, /REG:[0-9]+/); if (substr($0, RSTART + 4, RLENGTH - 4) + 0 > 168) { print "more than 168 registers: " name $0; bad = 1 } }
    END { for (a in has) if (has[a] != 4) { print a ": " has[a] " kernels of attention on tensor memory, not 4"; bad = 1 } exit bad }' res-usage || exit 1
# Whatever the module was built for: the source, and the primitives that gpu_check.sh compiles on a machine with a GPU, for both names of such code.
if command -v nvcc >/dev/null && nvcc --list-gpu-arch | grep -q compute_100; then
    for target in 100a 100f; do
        [ $target = 100a ] || nvcc --list-gpu-arch | grep -q compute_103 || continue # families came with that chip (CUDA 12.9)
        for source in kernels/cuda/attention/tensor_memory.cu tests/emulator/pieces/blackwell_kernels.cu; do
            nvcc -std=c++17 -O3 -Werror=all-warnings -Xptxas=-warn-spills,-Werror -gencode arch=compute_$target,code=sm_$target -I"$SOURCE_DIR" -D_GNU_SOURCE \
                "-DFT_CUDA_TARGETS=\"sm_$target\"" -fatbin -o tensor_memory.fatbin "$SOURCE_DIR/$source" >said 2>&1 || { cat said; exit 1; }
            cuobjdump -res-usage tensor_memory.fatbin 2>&1 | grep -E 'STACK:[1-9]|LOCAL:[1-9]' && { echo "$source, $target: registers in memory"; exit 1; }
            cuobjdump -sass tensor_memory.fatbin | grep -q UTCHMMA || { echo "$source, $target: no products in tensor memory"; exit 1; }
            [ "$source" != kernels/cuda/attention/tensor_memory.cu ] || python3 "$SOURCE_DIR/tests/kernels/cuda/tensor_memory_model.py" tensor_memory.fatbin || exit 1
        done
    done
fi

# ---- products of warpgroups: the compiler may make them wait for each other (C7510 to C7517), or give no registers (C7508), and only
# says so. The emulator's primitives, which gpu_check.sh compiles on a machine with a GPU, are held to the same.
if command -v nvcc >/dev/null; then
    for source in kernels/cuda/attention/warpgroup.cu kernels/cuda/attention/warpgroup_backward.cu kernels/cuda/disentangled/warpgroup_backward.cu kernels/cuda/disentangled/warpgroup_forward.cu \
        kernels/cuda/products/product_activation.cu kernels/cuda/products/product_slope.cu kernels/cuda/products/product_norm.cu \
        tests/emulator/pieces/hopper_kernels.cu; do
        nvcc -std=c++17 -O3 -Werror=all-warnings -gencode arch=compute_90a,code=sm_90a -I"$SOURCE_DIR" -D_GNU_SOURCE '-DFT_CUDA_TARGETS="sm_90a"' \
            -cubin -o warpgroups.cubin "$SOURCE_DIR/$source" >said 2>&1 || { cat said; exit 1; }
        grep -E '\(C75[01][0-9]\)' said && { echo "$source: see above"; exit 1; }
        cuobjdump -res-usage warpgroups.cubin 2>&1 | grep -E 'STACK:[1-9]|LOCAL:[1-9]' && { echo "$source: registers in memory"; exit 1; }
    done
fi

# Their backward makes P while products are under way: of 64 exponentials (before the loop and in it) few may stand behind a wait for
# all that was queued (gsb0, 0x0), where ptxas puts them as soon as no branch is between.
awk '/^arch = / { arch = $3 } /Function : / { name = $3; mine = arch == "sm_90a" && name ~ /attention_warpgroup(_banded)?_backwardI/ }
    !mine { next }
    /DEPBAR.LE gsb0/ { under_way = $0 !~ /gsb0, 0x0/ }
    /MUFU.EX2/ { seen[name]++; ahead_of[name] += under_way }
    END { for (n in seen) { count++; if (seen[n] != 64 || ahead_of[n] < 56) { print n ": " ahead_of[n] " of " seen[n] " exponentials beside products"; bad = 1 } }
          exit bad || count != 16 }' sass || { echo "attention_warpgroup_backward: exponentials behind the products"; exit 1; }

# Their forward hands the turn over when the products of a tile are asked for, and before it waits for the first of them: behind the last HGMMA, and
# before the wait for all but the newest group, there is an arrival.
awk '/^arch = / { arch = $3 } /Function : / { name = $3; mine = arch == "sm_90a" && name ~ /attention_warpgroup(_banded)?I/ }
    !mine { next }
    /HGMMA/ { arrived = 0 }
    /SYNCS.ARRIVE/ { arrived = 1 }
    /DEPBAR.LE gsb0, 0x1/ { seen[name]++; behind[name] += arrived }
    END { for (n in seen) { count++; if (seen[n] != 1 || behind[n] != 1) { print n ": a turn is handed over at " behind[n] " of " seen[n] " waits"; bad = 1 } }
          exit bad || count != 8 }' sass || { echo "attention_warpgroup: turns that are not handed over behind the products"; exit 1; }

# ---- instances: as many as kernels/cuda/README.md lists, for every architecture --------------------------------------------------
most=362
awk -v most="$most" '/^arch = / { arch = $3 } /Function : / { count[arch]++ }
    END { for (a in count) if (count[a] > most) { print a ": " count[a] " kernels, of " most " that are listed"; bad = 1 } exit bad }' sass || exit 1

# ---- claims: kernel (a pattern of its mangled name), instruction, at least so many, and for which architecture alone ------------------------------------------
# FLOAT and HALF: the instance for rows of whole units of fp32, and those of bf16 and of fp16.
cat >claims <<'CLAIMS'
attention_forwardI HMMA.16816 16
attention_backwardI HMMA.16816 16
attention_window_forwardI HMMA.16816 16
attention_window_backwardI HMMA.16816 16
attention_forwardI LDGSTS 4
attention_backwardI LDGSTS 4
attention_forwardI LDSM 8
attention_backwardI LDSM 8
attention_warpgroupI HGMMA.64x 24 sm_90a
attention_warpgroupI UTMALDG.2D 3 sm_90a
attention_warpgroupI SYNCS.PHASECHK.TRANS64.TRYWAIT 8 sm_90a
attention_warpgroupI USETMAXREG 2 sm_90a
attention_warpgroupI FENCE.VIEW.ASYNC 2 sm_90a
attention_warpgroup_backwardI HGMMA.64x 24 sm_90a
attention_warpgroup_backwardI UTMALDG.2D 4 sm_90a
attention_warpgroup_backwardI SYNCS.PHASECHK.TRANS64.TRYWAIT 6 sm_90a
attention_warpgroup_backwardI USETMAXREG 2 sm_90a
attention_warpgroup_backwardI FENCE.VIEW.ASYNC 2 sm_90a
attention_warpgroup_bandedI HGMMA.64x 24 sm_90a
attention_warpgroup_bandedI UTMALDG.2D 3 sm_90a
attention_warpgroup_bandedI USETMAXREG 2 sm_90a
attention_warpgroup_bandedI FENCE.VIEW.ASYNC 2 sm_90a
attention_warpgroup_banded_backwardI HGMMA.64x 24 sm_90a
attention_warpgroup_banded_backwardI UTMALDG.2D 4 sm_90a
attention_warpgroup_banded_backwardI USETMAXREG 2 sm_90a
attention_warpgroup_banded_backwardI FENCE.VIEW.ASYNC 2 sm_90a
attention_tensor_memoryI UTCHMMA 16 sm_100f
attention_tensor_memoryI UTMALDG.2D 3 sm_100f
attention_tensor_memoryI SYNCS.PHASECHK.TRANS64.TRYWAIT 16 sm_100f
attention_tensor_memoryI LDTM 6 sm_100f
attention_tensor_memoryI STTM 2 sm_100f
attention_tensor_memoryI UTCBAR 5 sm_100f
attention_tensor_memoryI FENCE.VIEW.ASYNC 2 sm_100f
disentangled_forwardI HMMA.16816 16
disentangled_forwardI LDGSTS 4
disentangled_forwardI LDSM 8
disentangled_backwardI HMMA.16816 16
disentangled_backwardI LDGSTS 4
disentangled_backwardI LDSM 8
disentangled_warpgroup_forwardI HGMMA.64x 10 sm_90a
disentangled_warpgroup_forwardI HMMA.16816 48 sm_90a
disentangled_warpgroup_forwardI LDGSTS 8 sm_90a
disentangled_warpgroup_forwardI FENCE.VIEW.ASYNC 2 sm_90a
disentangled_warpgroup_backwardI HGMMA.64x 16 sm_90a
disentangled_warpgroup_backwardI HMMA.16816 32 sm_90a
disentangled_warpgroup_backwardI LDGSTS 8 sm_90a
disentangled_warpgroup_backwardI FENCE.VIEW.ASYNC 2 sm_90a
product_activationI HGMMA.64x256x16 4 sm_90a
product_activationI UTMALDG.2D 2 sm_90a
product_activationI SYNCS.PHASECHK.TRANS64.TRYWAIT 5 sm_90a
product_activationI LDS.128 8 sm_90a
product_activationI STG.E.128 16 sm_90a
product_slopeI HGMMA.64x256x16 4 sm_90a
product_slopeI UTMALDG.2D 5 sm_90a
product_slopeI SYNCS.PHASECHK.TRANS64.TRYWAIT 5 sm_90a
product_slopeI LDG.E.128 64 sm_90a
product_slopeI LDS.128 32 sm_90a
product_slopeI STG.E.128 66 sm_90a
product_normI HGMMA.64x256x16 4 sm_90a
product_normI UTMALDG.2D 2 sm_90a
product_normI SYNCS.PHASECHK.TRANS64.TRYWAIT 5 sm_90a
product_normI LDG.E.128 9 sm_90a
product_normI(6__half|13__nv_bfloat16)fE LDS.128 2 sm_90a
product_normI(6__half|13__nv_bfloat16)S[0-9]*_E LDS.128 4 sm_90a
product_normI STG.E.128 4 sm_90a
segment_product_kernelI HMMA.16816 32
segment_product_kernelI LDSM 16
segment_product_kernelI LDG.E.128 8
column_sum_bodyFLOAT LDG.E.128 2
column_sum_bodyHALF LDG.E.128 1
activation_forward_bodyFLOAT LDG.E.128 2
activation_forward_bodyFLOAT STG.E.128 2
activation_forward_bodyHALF LDG.E.128 2
activation_forward_bodyHALF STG.E.128 2
activation_backward_bodyFLOAT LDG.E.128 4
activation_backward_bodyFLOAT STG.E.128 2
activation_backward_bodyHALF LDG.E.128 2
activation_backward_bodyHALF STG.E.128 2
layernorm_forward_kernelFLOAT LDG.E.128 2
layernorm_forward_kernelFLOAT STG.E.128 2
layernorm_forward_kernelHALFfE LDG.E.128 6
layernorm_forward_kernelHALFfE STG.E.128 4
layernorm_forward_kernelHALFS[0-9]*_E LDG.E.128 5
layernorm_forward_kernelHALFS[0-9]*_E STG.E.128 2
layernorm_backward_kernelFLOAT LDGSTS.E.BYPASS.128 2
layernorm_backward_kernelFLOAT STG.E.128 5
layernorm_backward_kernelHALFLi[18]EfE LDGSTS.E.BYPASS.128 2
layernorm_backward_kernelHALFLi[18]EfE STG.E.128 4
layernorm_backward_kernelHALFLi[18]EfE STG.E.64 1
layernorm_backward_kernelHALFLi[18]ES[0-9]*_E LDGSTS.E.BYPASS.128 2
layernorm_backward_kernelHALFLi[18]ES[0-9]*_E STG.E.128 3
layernorm_backward_kernelHALFLi[18]ES[0-9]*_E STG.E.64 2
embedding_forward_bodyFLOAT LDG.E.128 2
embedding_forward_bodyHALF LDG.E.128 3
embedding_forward_bodyHALF STG.E.128 1
embedding_runs_kernelFLOAT LDG.E.128 2
embedding_runs_kernelHALF LDG.E.128 3
embedding_runs_kernelHALF STG.E.128 6
gather_rows_bodyFLOAT LDG.E.128 2
gather_rows_bodyHALF LDG.E.128 1
scatter_rows_add_bodyIffLb1E LDG.E.128 2
scatter_rows_add_body.*S[0-9]*_Lb1E LDG.E.128 2
dropout_bodyFLOAT STG.E.128 2
dropout_bodyHALF LDG.E.128 1
dropout_bodyHALF STG.E.128 1
cast_bodyIf[0-9].*Lb1E LDG.E.128 1
cast_bodyIf[0-9].*Lb1E STG.E.64 1
cast_bodyI[0-9].*fLb1E LDG.E.64 1
cast_bodyI[0-9].*fLb1E STG.E.128 1
gradient_squares_kernelILb1E LDG.E.128 1
adamw_kernelFLOAT LDG.E.128 4
adamw_kernelFLOAT STG.E.128 3
adamw_kernelI6__halfLb1E LDG.E.128 8
adamw_kernelI6__halfLb1E STG.E.128 6
adamw_kernelI6__halfLb1E STG.E.64 1
adamw_kernelI13__nv_bfloat16Lb1E LDG.E.128 7
adamw_kernelI13__nv_bfloat16Lb1E LDG.E.64 4
adamw_kernelI13__nv_bfloat16Lb1E STG.E.128 5
adamw_kernelI13__nv_bfloat16Lb1E STG.E.64 2
CLAIMS
awk '
    FILENAME == "claims" { sub(/FLOAT/, "IfLb1E", $1); sub(/HALF/, "I(6__half|13__nv_bfloat16)Lb1E", $1)
                           kernel[++n] = $1; what[n] = $2; least[n] = $3; only[n] = $4; next }
    /^arch = / { arch = $3 }
    /Function : / { name = $3; archs[arch]; for (i = 1; i <= n; i++) if (name ~ kernel[i] && (only[i] == "" || only[i] == arch)) { here = i SUBSEP arch SUBSEP name; seen[here] = i; times[here] += 0 } ; list = ""
                    for (i = 1; i <= n; i++) if (name ~ kernel[i] && (only[i] == "" || only[i] == arch)) list = list " " i; parts = split(list, mine, " "); next }
    parts > 0 && /\/\*[0-9a-f]+\*\// { for (p = 1; p <= parts; p++) { i = mine[p]; if (index($0, " " what[i])) times[i SUBSEP arch SUBSEP name]++ } }
    END {
        for (here in seen) { i = seen[here]; split(here, part, SUBSEP); found[i SUBSEP part[2]]++
            if (times[here] < least[i]) { print part[2] ": " times[here] " " what[i] " instead of " least[i] " in " part[3]; bad = 1 } }
        for (arch in archs) for (i = 1; i <= n; i++)
            if ((only[i] == "" || only[i] == arch) && !((i SUBSEP arch) in found)) { print arch ": no kernel is called " kernel[i]; bad = 1 }
        if (!bad) print n " claims hold"
        exit bad
    }' claims sass || exit 1

# ---- instructions of hot loops, and what they leave of the peak (static_model.py) ---------------------------------------------
python3 "$SOURCE_DIR/tests/kernels/cuda/static_model.py" "$module" --told .
