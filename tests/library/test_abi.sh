#!/usr/bin/env bash
# What libftengine.so shows is what library/abi.txt lists; what it needs is the C library; it has a soname; and what `make install` puts in place
# is enough to build a program with, by pkg-config and by CMake.
# ctest: sanitize=leave
. "$SOURCE_DIR/tests/fixtures/shell_test.sh"
command -v nm >/dev/null && command -v readelf >/dev/null || exit 77
library=$BUILD_DIR/libftengine.so

LC_ALL=C nm -D --defined-only "$library" | awk '$2 != "A" { print $NF }' | sed 's/@@.*//' | LC_ALL=C sort >shown
LC_ALL=C sort "$SOURCE_DIR/library/abi.txt" | diff - shown >differences || fail "library/abi.txt (<) and what is shown (>): $(cat differences)"
grep -ohE '\bftengine_[a-z_]+\(' "$SOURCE_DIR/library/ftengine.h" | tr -d '(' | LC_ALL=C sort -u | diff - shown >differences ||
    fail "ftengine.h (<) and what is shown (>): $(cat differences)"
LC_ALL=C readelf -d "$library" >dynamic
grep -q 'SONAME.*\[libftengine\.so\.0\]' dynamic || fail "no soname: $(cat dynamic)"
if grep -q '^FT_jansson_ARCHIVE:.*\.a$' "$BUILD_DIR/CMakeCache.txt"; then
    needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' dynamic | grep -vE '^(libc|libm|libpthread|libdl|librt|ld-linux-.*|libjpeg|libpng[0-9]*)\.so')
    [ -z "$needed" ] || fail "it needs $needed"
fi

# ---- installed -------------------------------------------------------------------------------------------------------------
cmake --install "$BUILD_DIR" --prefix "$scratch/prefix" --component program >out 2>err || fail "cmake --install"
cat >user.c <<'C'
#include <ftengine.h>
#include <stdio.h>
int main(void) {
    ftengine *engine;
    char *json = NULL;
    if (ftengine_abi() != FTENGINE_ABI || ftengine_new(&engine) != FTENGINE_OK) return 1;
    int code = ftengine_devices(engine, &json);
    printf("%s %d\n", ftengine_version(), json != NULL);
    ftengine_string_free(json);
    ftengine_free(engine);
    return code;
}
C
want="$("$FTENGINE" --version | sed -n 's/^ftengine //p') 1"
export PKG_CONFIG_PATH=$scratch/prefix/lib/pkgconfig
if command -v pkg-config >/dev/null; then
    # shellcheck disable=SC2046
    cc -std=c99 -Wall -Werror -o user user.c $(pkg-config --cflags --libs ftengine) -Wl,-rpath,"$scratch/prefix/lib" 2>err || fail "pkg-config"
    [ "$(./user)" = "$want" ] || fail "built by pkg-config it says $(./user), not $want"
    cp user.c user.cpp && c++ -Wall -Werror -o plus user.cpp $(pkg-config --cflags --libs ftengine) -Wl,-rpath,"$scratch/prefix/lib" 2>err || fail "C++"
fi
mkdir project && cp user.c project/
cat >project/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(ftengine 0.2 REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE ftengine::ftengine)
CMAKE
cmake -S project -B project/build -D CMAKE_PREFIX_PATH="$scratch/prefix" >out 2>err && cmake --build project/build >out 2>err || fail "find_package: $(cat out)"
[ "$(project/build/user)" = "$want" ] || fail "built by CMake it says something else"
