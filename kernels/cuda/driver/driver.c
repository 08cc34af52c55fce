#include "kernels/cuda/driver/driver.h"
#include "base/arena.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FT_CUDA_CALL(field, symbol, parameters) const char ft_cuda_symbol_##field[] = #symbol;
#include "kernels/cuda/driver/driver.def"
#undef FT_CUDA_CALL

static const char system_library[] = "libcuda.so.1";

// ---- errors -----------------------------------------------------------------------------------------------------

// What calls answer when memory, links or the chip fail, or it has left the bus. A kernel at fault gives some of these
// (719, 999) as well: who starts the work again has to count.
static bool is_of_device(int result) {
    static const int broken[] = {FT_CU_DEVICE_UNAVAILABLE, FT_CU_ECC_UNCORRECTABLE,    FT_CU_NVLINK_UNCORRECTABLE,
                                 FT_CU_CONTAINED,          FT_CU_HARDWARE_STACK_ERROR, FT_CU_LAUNCH_FAILED,
                                 FT_CU_UNKNOWN};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        if (result == broken[i]) return true;
    return false;
}

ft_status ft_cuda_fail(const ft_cuda_driver *driver, const char *call, int result) {
    const char *name = NULL, *text = NULL;
    char number[32];
    if (driver->get_error_name(result, &name) != FT_CU_SUCCESS || name == NULL) { // newer than its own table
        snprintf(number, sizeof number, "CUDA error %d", result);
        name = number;
    }
    if (driver->get_error_string(result, &text) != FT_CU_SUCCESS) text = NULL;
    ft_status code = FT_FAILED;
    if (result == FT_CU_OUT_OF_MEMORY) code = FT_NO_MEMORY;
    if (result == FT_CU_NO_DEVICE) code = FT_NO_DEVICE;
    ft_fail(code, call, "%s%s%s%s", name, text != NULL ? " (" : "", text != NULL ? text : "", text != NULL ? ")" : "");
    if (is_of_device(result)) ft_error_is_of_device();
    return code;
}

static ft_status init_failed(const ft_cuda_driver *driver, int result) {
    (void)ft_cuda_fail(driver, "cuInit", result);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    switch (result) {
    case FT_CU_NO_DEVICE:
        ft_fail(FT_NO_DEVICE, driver->path, "no NVIDIA GPU: the driver is there but finds none: %s",
                ft_error_message());
        if (visible != NULL) ft_hint("CUDA_VISIBLE_DEVICES is '%s' and may hide it", visible);
        break;
    case FT_CU_STUB_LIBRARY:
        ft_fail(FT_NO_DEVICE, driver->path,
                "no NVIDIA driver: this file is only the stub that programs are linked with");
        ft_hint("take its directory out of LD_LIBRARY_PATH");
        break;
    case FT_CU_SYSTEM_DRIVER_MISMATCH:
        ft_fail(FT_NO_DEVICE, driver->path,
                "the NVIDIA library and the loaded kernel module are of different releases: %s", ft_error_message());
        ft_hint("restart the machine, or in a container use the host's driver library");
        break;
    default: ft_fail(FT_NO_DEVICE, driver->path, "the NVIDIA driver does not start: cuInit: %s", ft_error_message());
    }
    return FT_NO_DEVICE;
}

// ---- loading ----------------------------------------------------------------------------------------------------

static ft_status open_library(ft_cuda_driver *driver, const char *path) {
    // Unloading the real one under its own threads is not safe: once in, it stays.
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (driver->library != NULL) return FT_OK;
    const char *reason = dlerror();
    if (reason == NULL) reason = "no reason given";
    // The loader's text begins with the file that is missing, which may also be one that the driver needs.
    bool absent = strncmp(reason, path, strlen(path)) == 0 && strstr(reason, "No such file") != NULL;
    if (!absent) return ft_fail(FT_NO_DEVICE, path, "the NVIDIA driver cannot be loaded: %s", reason);
    ft_fail(FT_NO_DEVICE, NULL, "no NVIDIA driver: %s was not found", path);
    ft_hint("install the NVIDIA driver; in a container, start it with the GPUs (docker run --gpus all)");
    return FT_NO_DEVICE;
}

// "/usr/lib/libcuda.so.535.129.03": the number behind ".so.", if it has two parts at least and a release's size.
static void read_release(ft_cuda_driver *driver) {
    const char *number = strstr(driver->path, ".so.");
    if (number == NULL) return;
    number += strlen(".so.");
    size_t length = strspn(number, "0123456789.");
    bool release = number[length] == '\0' && strcspn(number, ".") >= 3 && strchr(number, '.') != NULL;
    if (release) snprintf(driver->release, sizeof driver->release, "%s", number);
}

static void find_file(ft_cuda_driver *driver, const char *asked) {
    Dl_info info;
    char *real = NULL;
    if (dladdr((void *)driver->init, &info) != 0 && info.dli_fname != NULL) real = realpath(info.dli_fname, NULL);
    snprintf(driver->path, sizeof driver->path, "%s", real != NULL ? real : asked);
    free(real);
    read_release(driver);
}

// Stores the function's address in *slot. POSIX has dlsym's pointer hold functions too.
static ft_status look_up(const ft_cuda_driver *driver, const char *symbol, void *slot) {
    void *address = dlsym(driver->library, symbol);
    if (address == NULL) {
        ft_fail(FT_NO_DEVICE, driver->path, "the NVIDIA driver has no function %s", symbol);
        ft_hint("is this file NVIDIA's libcuda.so.1?");
        return FT_NO_DEVICE;
    }
    memcpy(slot, &address, sizeof address);
    return FT_OK;
}

static ft_status check_version(ft_cuda_driver *driver) {
    int result = driver->driver_get_version(&driver->version);
    if (result != FT_CU_SUCCESS) {
        (void)ft_cuda_fail(driver, "cuDriverGetVersion", result);
        return ft_fail(FT_NO_DEVICE, driver->path, "the NVIDIA driver does not tell its version: %s",
                       ft_error_message());
    }
    if (driver->version >= FT_CUDA_MINIMUM_VERSION) return FT_OK;
    ft_fail(FT_NO_DEVICE, driver->path, "the NVIDIA driver%s%s supports CUDA %d.%d, but %d.%d is needed",
            driver->release[0] != '\0' ? " " : "", driver->release, driver->version / 1000, driver->version % 1000 / 10,
            FT_CUDA_MINIMUM_VERSION / 1000, FT_CUDA_MINIMUM_VERSION % 1000 / 10);
    ft_hint("install release 525 of the driver or a later one");
    return FT_NO_DEVICE;
}

// The version first: an old driver shall be called old, not be blamed for the functions that it cannot have.
static ft_status load(ft_cuda_driver *driver, const char *path) {
    FT_TRY(open_library(driver, path));
    snprintf(driver->path, sizeof driver->path, "%s", path);
    FT_TRY(look_up(driver, "cuInit", &driver->init));
    find_file(driver, path);
    FT_TRY(look_up(driver, "cuDriverGetVersion", &driver->driver_get_version));
    FT_TRY(look_up(driver, "cuGetErrorName", &driver->get_error_name));
    FT_TRY(look_up(driver, "cuGetErrorString", &driver->get_error_string));
    FT_TRY(check_version(driver));
#define FT_CUDA_CALL(field, symbol, parameters) FT_TRY(look_up(driver, #symbol, &driver->field));
#include "kernels/cuda/driver/driver.def"
#undef FT_CUDA_CALL
    int result = driver->init(0);
    return result == FT_CU_SUCCESS ? FT_OK : init_failed(driver, result);
}

ft_status ft_cuda_driver_open(const char *path, ft_cuda_driver **out) {
    *out = NULL;
    ft_cuda_driver *driver = ft_calloc(1, sizeof *driver, "the NVIDIA driver's functions");
    if (driver == NULL) return FT_NO_MEMORY;
    ft_status status = load(driver, path != NULL ? path : system_library);
    if (status != FT_OK) {
        ft_cuda_driver_close(driver);
        return status;
    }
    *out = driver;
    return FT_OK;
}

void ft_cuda_driver_close(ft_cuda_driver *driver) {
    if (driver == NULL) return;
    if (driver->library != NULL) (void)dlclose(driver->library);
    free(driver);
}
