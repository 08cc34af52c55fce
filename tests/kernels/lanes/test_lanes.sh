#!/usr/bin/env bash
# Every function of kernels/cpu/isa/lanes, and the tiles of products, have the bits of plain C on every instruction set: AVX2 and AVX-512 where this
# processor has them, NEON under qemu's emulation where its cross compiler is installed (tools/install.sh aarch64).
# ctest: label=full_size sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
vectors=1000
# build NAME COMPILER FLAGS...: lanes_hash for an instruction set
build() {
    "$2" -std=gnu17 -I"$SOURCE_DIR" -D_GNU_SOURCE -DFT_ISA="$1" -DFT_ISA_"$1"=1 -O1 -fno-math-errno -fno-trapping-math -ffp-contract=off -w "${@:3}" \
        "$SOURCE_DIR/tests/kernels/lanes/lanes_hash.c" -o "hash_$1" -lm 2>err || fail "$1 does not compile"
}
# same NAME [PREFIX...]: what it says is what plain C says. $units: for products of 8 bits (ft_int8_unit), to be tried too
units=
same() {
    # shellcheck disable=SC2086
    "${@:2}" ./hash_"$1" $vectors $units >"$1.txt" 2>err || fail "$1 ends with $?"
    cmp -s "$1.txt" portable.txt || fail "$1 differs from plain C: $(diff "$1.txt" portable.txt)"
    echo "$1: $(wc -l <"$1.txt") functions with the bits of plain C"
}
compiler=${CC:-cc}
build portable "$compiler"
./hash_portable $vectors >portable.txt || fail "plain C ends with $?"
[ "$(wc -l <portable.txt)" -ge 50 ] || fail "$(wc -l <portable.txt) functions"
if [ "$(uname -m)" = x86_64 ]; then
    flags=" $(grep -m1 '^flags' /proc/cpuinfo) "
    vnni=
    [[ $flags == *" avx512_vnni "* ]] && vnni=1
    if [[ $flags == *" avx2 "* && $flags == *" fma "* ]]; then
        if [[ $flags == *" avx_vnni "* ]]; then
            build avx2 "$compiler" -mavx2 -mfma -mf16c && units=1 same avx2
        elif [ $vnni ]; then # AVX-512 has the same operation in another encoding
            build avx2 "$compiler" -mavx2 -mfma -mf16c -DFT_VNNI_ENCODING='"%{evex%}"' && units=1 same avx2
        else
            build avx2 "$compiler" -mavx2 -mfma -mf16c && same avx2
        fi
    fi
    if [[ $flags == *" avx512bw "* && $flags == *" avx512dq "* && $flags == *" avx512vl "* ]]; then
        build avx512 "$compiler" -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -DFT_MODEL_UNITS
        units=${vnni:+"1 3"} same avx512 # tiles leave something over for VNNI
        echo "VDPBF16PS and AMX: the loops, on a model of the instructions; the units themselves are tried by kernels/gemm_bf16 and int8_product"
    fi
    if command -v aarch64-linux-gnu-gcc qemu-aarch64-static >/dev/null; then
        build neon aarch64-linux-gnu-gcc -fsigned-char -static && units="1 2" same neon qemu-aarch64-static -cpu max
        same neon qemu-aarch64-static -cpu cortex-a53 # which has neither SDOT nor USDOT
    else
        echo "NEON is not looked at: tools/install.sh aarch64 installs the cross compiler and the emulator"
    fi
elif [ "$(uname -m)" = aarch64 ]; then
    build neon "$compiler" -fsigned-char && same neon
fi
