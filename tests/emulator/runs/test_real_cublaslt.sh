#!/usr/bin/env bash
# What is described to cuBLASLt, in training, evaluation and tuning of products, is described to NVIDIA's own library too, which takes descriptors
# and attributes without a device: it refuses nothing, and has what it was given (driver/lt_twin.h). FT_REAL_CUBLASLT names the file;
# else it is looked for where toolkits and pip put it. Skipped where there is none.
# ctest: part=3 sanitize=leave
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
library=
for file in "${FT_REAL_CUBLASLT:-}" /usr/local/cuda*/{lib64,lib,targets/*/lib}/libcublasLt.so.1[23] "${VIRTUAL_ENV:-/none}"/lib/python3*/site-packages/nvidia/cu*/lib/libcublasLt.so.1[23] \
    /usr/lib/*/libcublasLt.so.1[23]; do
    [ -n "$library" ] || { [ -f "$file" ] && library=$file; }
done
[ -n "$library" ] || { echo "skipped: no libcublasLt.so (FT_REAL_CUBLASLT)" && exit 77; }
export FAKE_LT_TWIN=$library

taken() {
    local calls
    calls=$(sed -n 's/^the real cublasLt took \([0-9]*\) calls$/\1/p' report)
    [ "${calls:-0}" -ge 500 ] || fail "$1: the real library took ${calls:-no} calls: $(cat report)"
}
model wide bert_gelu initializer_range=0.1,hidden_size=64,num_attention_heads=2
model qwen qwen2 initializer_range=0.1,hidden_size=64,num_attention_heads=2,num_key_value_heads=1,head_dim=32
for precision in fp32 bf16 fp16; do
    trained wide-$precision wide cuda train.precision=$precision
    taken wide-$precision
done
trained qwen-bf16 qwen cuda train.precision=bf16
taken qwen-bf16
trained lora wide cuda train.precision=bf16 adapter.type=lora
taken lora

# The twin judges: of a size that the library does not know for an attribute it says so, and so does the run.
cat >wrong.c <<'C'
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW), *desc = NULL;
    int (*create)(void **, unsigned, unsigned) = (int (*)(void **, unsigned, unsigned))dlsym(library, "cublasLtMatmulDescCreate");
    int (*set)(void *, unsigned, const void *, size_t) = (int (*)(void *, unsigned, const void *, size_t))dlsym(library, "cublasLtMatmulDescSetAttribute");
    const int64_t wide = 1;
    if (argc < 2 || create(&desc, 68, 0) != 0) return 1;
    return set(desc, 3, &wide, sizeof wide) == 0 || set(desc, 4711, &wide, 4) == 0; // TRANSA has 4 bytes; no such attribute
}
C
cc -o wrong wrong.c -ldl || fail "no compiler for a small program"
./wrong "$library" || fail "the real library takes whatever it is given"
echo "real cuBLASLt ($library): all as expected"
