#!/usr/bin/env bash
# ftengine devices: what there is, and exactly what is missing, on fake drivers that lie in the loader's path.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
unset FAKE_CUDA FAKE_NVML CUDA_VISIBLE_DEVICES

# driver NAME LIBRARY RELEASE: a directory with a libcuda.so.1 in it, named as NVIDIA names them
driver() {
    mkdir -p "$1" && cp "$BUILD_DIR/tests/$2" "$1/libcuda.so.$3" && ln -sf "libcuda.so.$3" "$1/libcuda.so.1" || fail "no $2"
}
driver good libfake_driver.so 535.129.03
driver lacking libfake_driver_lacking.so 535.129.03
mkdir empty broken && echo "no library" >broken/libcuda.so.1

# What a device needs besides, where the build has it: the kernels compiled for the emulator, and a cuBLASLt.
export FTENGINE_CUDA_MODULE=$BUILD_DIR/tests/emulator/libemulated_module.so FTENGINE_CUBLASLT=$BUILD_DIR/tests/emulator/libfake_cublaslt.so
[ -e "$FTENGINE_CUDA_MODULE" ] && emulated=true || emulated=false

# devices DIRECTORY SETTINGS [OPTION...]: with the driver of that directory
devices() {
    local path=$1 settings=$2
    shift 2
    expect 0 env LD_LIBRARY_PATH="$scratch/$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FAKE_CUDA="$settings" \
        "$FTENGINE" devices "$@"
    [ -s err ] && fail "messages on standard error"
    return 0
}
prints() { grep -qF -- "$1" out || fail "the output lacks: $1, it is: $(cat out)"; }

# ---- two devices ---------------------------------------------------------------------------------------------------------
devices good "devices=2,memory=25769803776,capability=89"
prints "cpu     "
prints "cuda:0  NVIDIA Fake 4096, compute capability 8.9, 108 multiprocessors, PCI 0000:3b:00.0"
prints "cuda:1  NVIDIA Fake 4096, compute capability 8.9, 108 multiprocessors, PCI 0000:3c:00.0"
[ "$(grep -c '^        memory 24.00GiB, 24.00GiB free$' out)" = 2 ] || fail "memory: $(cat out)"
prints "driver 535.129.03 supports CUDA 12.2"
prints "Training runs on the CPU."
if $emulated; then
    [ "$(grep -cF 'missing: the NVIDIA driver 535.129.03 supports CUDA 12.2, but the kernels need 13.0' out)" = 2 ] || fail "an old driver: $(cat out)"
    devices good "version=13000,memory=25769803776"
    grep -q missing out && fail "nothing is missing: $(cat out)"
    prints "Training runs on cuda:0 unless device.name=cpu."
    devices good "version=13000,memory=25769803776,devices=2"
    prints "Training runs on the CUDA device with most free memory unless device.name says otherwise."
    devices good "version=13000,memory=25769803776" --json
    [ "$(json out '[x["trains"] for x in d["devices"]], d["devices"][1]["missing"], d["cuda"]["trains"]')" = "([True, True], None, True)" ] || fail "$(cat out)"
    devices good "version=13000,memory=25769803776" --pick
    [ "$(cat out)" = cuda:0 ] || fail "picked: $(cat out)"
fi
$emulated && FTENGINE_CUBLASLT=$scratch/none devices good "version=13000" && prints "FTENGINE_CUBLASLT names a file that is not there"
FTENGINE_CUDA_MODULE=$scratch/none devices good "version=13000"
prints "missing: FTENGINE_CUDA_MODULE names a file that cannot be read ($scratch/none)"

devices good "devices=2,memory=25769803776" --json
[ "$(json out '[x["device"] for x in d["devices"]]')" = "['cpu', 'cuda:0', 'cuda:1']" ] || fail "devices: $(cat out)"
[ "$(json out '[x["trains"] for x in d["devices"]]')" = "[True, False, False]" ] || fail "trains: $(cat out)"
[ "$(json out 'd["devices"][0]["threads"] > 0 and d["devices"][0]["total_bytes"] > 2**20')" = True ] || fail "cpu: $(cat out)"
[ "$(json out 'd["devices"][0]["instruction_set"] in d["devices"][0]["description"]')" = True ] || fail "cpu: $(cat out)"
# Units by name, those of the instruction set among them; nothing that the processor lacks.
[ "$(json out 'all(u in ("avx2", "avx512", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8", "avx_vnni", "neon", "neon_dotprod", "neon_i8mm", "neon_bf16") for u in d["devices"][0]["units"] + d["devices"][0]["units_refused"])')" = True ] || fail "units: $(cat out)"
[ "$(json out 'd["devices"][0]["instruction_set"] in d["devices"][0]["units"] + ["portable"]')" = True ] || fail "units: $(cat out)"
[ "$(json out 'set(d["devices"][0]["units"]) & set(d["devices"][0]["units_refused"])')" = "set()" ] || fail "units: $(cat out)"
[ "$(json out 'd["devices"][2]["total_bytes"], d["devices"][2]["free_bytes"], d["devices"][2]["compute_capability"], d["devices"][2]["pci"]')" = \
    "(25769803776, 25769803776, '8.0', '0000:3c:00.0')" ] || fail "cuda:1: $(cat out)"
[ "$(json out 'd["cuda"]["driver"], d["cuda"]["supports_cuda"], d["cuda"]["missing"]')" = "('535.129.03', '12.2', None)" ] ||
    fail "driver: $(cat out)"
[ "$(json out 'd["cuda"]["library"]')" = "$(realpath good/libcuda.so.1)" ] || fail "library: $(cat out)"

# ---- who uses their memory ------------------------------------------------------------------------------------------------
driver seen libfake_driver.so 535.129.03 && cp "$BUILD_DIR/tests/libfake_nvml.so" seen/libnvidia-ml.so.1 || fail "no fake NVML"
devices good "" && prints "who uses it is not known: libnvidia-ml.so.1 was not found"
devices good "" --json && [ "$(json out 'd["devices"][1]["processes"], d["devices"][1]["processes_missing"]["message"]')" = \
    "(None, 'libnvidia-ml.so.1 was not found')" ] || fail "processes: $(cat out)"
devices seen "" && ! grep -q "used by" out || fail "nobody uses it: $(cat out)"
me=$(cat /proc/$$/comm) ours=false
[ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ] && ours=true
$ours || me=process # in a container the driver's numbers are not those of its own processes
export FAKE_NVML="4294967295=1048576,$$=3221225472;4294967294=?,4294967295=2097152"
devices seen "" && prints "        used by $me pid $$ 3.00GiB, process pid 4294967295 2.0MiB, process pid 4294967294 (the driver does not say how much)"
devices seen "devices=2" --json
[ "$(json out '[x["processes"][0]["used_bytes"] for x in d["devices"][1:]], d["devices"][1]["processes"][1:]')" = \
    "([3221225472, 3221225472], [{'pid': 4294967295, 'name': None, 'used_bytes': 2097152}, {'pid': 4294967294, 'name': None, 'used_bytes': None}])" ] || fail "processes: $(cat out)"
FAKE_NVML=$(seq -s, -f '%.0f=1048576' 100000 100099) # more than there is room for at first
devices seen "" && [ "$(grep -o 'pid 100[0-9]* 1.0MiB' out | sort -u | wc -l)" = 100 ] || fail "a hundred: $(cat out)"
FAKE_NVML=error=4
devices seen "" && prints "who uses it is not known: Insufficient Permissions (nvmlDeviceGetComputeRunningProcesses)"
FAKE_NVML=error=3
devices seen "" && ! grep -qE "used by|not known" out || fail "not supported: $(cat out)"
unset FAKE_NVML

# ---- one of them for a script ----------------------------------------------------------------------------------------------
devices good "devices=2,memory=25769803776" --pick --min-free 1MiB
[ "$(cat out)" = cpu ] || fail "picked a device that cannot train: $(cat out)"
devices good "devices=2,memory=25769803776" --json
[ "$(json out '[(x["reserved_bytes"], x["reservations"]) for x in d["devices"]]')" = "[(0, []), (0, []), (0, [])]" ] || fail "ledgers: $(cat out)"
[ "$(ls "$FTENGINE_LEDGER_DIR" | tr '\n' ' ')" = "cpu.ledger cuda-fa0b0000-0000-0000-0000-00000000003b.ledger cuda-fa0b0000-0000-0000-0000-00000000003c.ledger " ] ||
    fail "$(ls "$FTENGINE_LEDGER_DIR")"
export FAKE_NVML="77=1048576,78=1048576"
devices seen "devices=2,slices=1" --json # of one GPU: each has its own ledger and its own processes
[ "$(json out '[(x["pci"], x["uuid"][-4:], [p["pid"] for p in x["processes"]]) for x in d["devices"][1:]]')" = \
    "[('0000:3b:00.0', '513b', [77]), ('0000:3b:00.0', '513c', [77])]" ] || fail "slices: $(cat out)"
[ "$(ls "$FTENGINE_LEDGER_DIR" | grep -c 513)" = 2 ] || fail "ledgers of slices: $(ls "$FTENGINE_LEDGER_DIR")"
unset FAKE_NVML
devices good "devices=2,memory=25769803776" --pick --json
[ "$(json out 'd["device"], d["free_bytes"] > 2**20')" = "('cpu', True)" ] || fail "picked: $(cat out)"
expect 4 env LD_LIBRARY_PATH="$scratch/good" FAKE_CUDA="devices=1,memory=25769803776" "$FTENGINE" devices --pick --min-free 900TiB
one_error "no device to train on has 921600.00GiB free"
says "cuda:0 has 24.00GiB free, but cannot be trained on"

# ---- what is missing -----------------------------------------------------------------------------------------------------
devices good "capability=75"
prints "missing: NVIDIA Fake 4096 has compute capability 7.5, but 8.0 is needed"
devices good "capability=75" --json
[ "$(json out '"7.5, but 8.0 is needed" in d["devices"][1]["missing"]["message"]')" = True ] || fail "$(cat out)"
devices good "devices=0"
prints "cuda    no NVIDIA GPU: the driver is there but finds none: CUDA_ERROR_NO_DEVICE"
devices good "version=11040"
prints "cuda    the NVIDIA driver 535.129.03 supports CUDA 11.4, but 12.0 is needed"
prints "hint: install release 525"
devices lacking ""
prints "cuda    the NVIDIA driver has no function cuMemCreate ($(realpath lacking/libcuda.so.1))"
devices broken ""
prints "cuda    the NVIDIA driver cannot be loaded: "
devices good "version=11040" --json
[ "$(json out 'len(d["devices"]), d["cuda"]["missing"]["message"]')" = "(1, 'the NVIDIA driver 535.129.03 supports CUDA 11.4, but 12.0 is needed')" ] ||
    fail "old: $(cat out)"
if ! ldconfig -p | grep -qF libcuda.so.1; then # else the loader finds the machine's own
    devices empty ""
    prints "cuda    no NVIDIA driver: libcuda.so.1 was not found"
    devices empty "" --json
    [ "$(json out 'd["cuda"]["missing"]["message"], d["cuda"]["missing"]["where"]')" = "('no NVIDIA driver: libcuda.so.1 was not found', None)" ] ||
        fail "none: $(cat out)"
fi

# ---- bad usage -----------------------------------------------------------------------------------------------------------
expect 2 "$FTENGINE" devices cuda:0 && one_error "takes no argument but --json"
expect 2 "$FTENGINE" devices train.epochs=1 && one_error "takes no argument but --json"
expect 2 "$FTENGINE" devices --jsn && says "did you mean --json"
expect 0 "$FTENGINE" help devices && prints "ftengine devices [--json] [--pick"
exit 0
