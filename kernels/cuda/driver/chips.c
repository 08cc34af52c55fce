#include "kernels/cuda/driver/chips.h"

#include <stdio.h>

ft_status ft_cuda_chip_count(const ft_cuda_driver *driver, int *count) {
    *count = 0;
    return FT_CUDA(driver, device_get_count, count);
}

static ft_status attribute(const ft_cuda_driver *driver, const ft_gpu *chip, unsigned which, int *value) {
    return FT_CUDA(driver, device_get_attribute, value, which, chip->handle);
}

// As nvidia-smi prints it, without "GPU-" or "MIG-" in front.
static void print_uuid(const ft_cu_uuid *uuid, char text[static 37]) {
    for (int i = 0; i < 16; i++) {
        const bool behind_dash = i == 4 || i == 6 || i == 8 || i == 10;
        text += sprintf(text, "%s%02x", behind_dash ? "-" : "", (unsigned char)uuid->bytes[i]);
    }
}

ft_status ft_cuda_chip_read(const ft_cuda_driver *driver, int ordinal, ft_gpu *chip) {
    *chip = (ft_gpu){.ordinal = ordinal};
    ft_cu_uuid uuid;
    int count, major, minor, virtual_memory, domain, bus, device;
    FT_TRY(ft_cuda_chip_count(driver, &count));
    if (ordinal < 0 || ordinal >= count)
        return ft_fail(FT_NO_DEVICE, NULL, "no device cuda:%d: this machine has %d CUDA device%s", ordinal, count,
                       count == 1 ? "" : "s");
    FT_TRY(FT_CUDA(driver, device_get, &chip->handle, ordinal));
    FT_TRY(FT_CUDA(driver, device_get_name, chip->name, (int)sizeof chip->name, chip->handle));
    FT_TRY(FT_CUDA(driver, device_get_uuid, &uuid, chip->handle));
    print_uuid(&uuid, chip->uuid);
    FT_TRY(FT_CUDA(driver, device_total_mem, &chip->total_bytes, chip->handle));
    FT_TRY(attribute(driver, chip, FT_CU_ATTRIBUTE_CAPABILITY_MAJOR, &major));
    FT_TRY(attribute(driver, chip, FT_CU_ATTRIBUTE_CAPABILITY_MINOR, &minor));
    FT_TRY(attribute(driver, chip, FT_CU_ATTRIBUTE_MULTIPROCESSORS, &chip->multiprocessors));
    FT_TRY(attribute(driver, chip, FT_CU_ATTRIBUTE_VIRTUAL_MEMORY, &virtual_memory));
    FT_TRY(attribute(driver, chip, FT_CU_ATTRIBUTE_PCI_DOMAIN, &domain));
    FT_TRY(attribute(driver, chip, FT_CU_ATTRIBUTE_PCI_BUS, &bus));
    FT_TRY(attribute(driver, chip, FT_CU_ATTRIBUTE_PCI_DEVICE, &device));
    chip->capability = 10 * major + minor;
    chip->virtual_memory = virtual_memory != 0;
    snprintf(chip->pci, sizeof chip->pci, "%04x:%02x:%02x.0", (unsigned)domain & 0xffff, (unsigned)bus & 0xff,
             (unsigned)device & 0xff);
    return FT_OK;
}

ft_status ft_cuda_chip_free_bytes(const ft_cuda_driver *driver, const ft_gpu *chip, size_t *bytes) {
    *bytes = 0;
    ft_cu_context context;
    FT_TRY(FT_CUDA(driver, primary_context_retain, &context, chip->handle));
    size_t total;
    ft_status status = FT_CUDA(driver, context_set_current, context);
    if (status == FT_OK) status = FT_CUDA(driver, mem_get_info, bytes, &total);
    (void)driver->context_set_current(NULL); // a released context must not stay current
    (void)driver->primary_context_release(chip->handle);
    return status;
}

ft_status ft_cuda_chip_check(const ft_gpu *chip) {
    if (chip->capability >= FT_GPU_MINIMUM_CAPABILITY) return FT_OK;
    return ft_fail(FT_NO_DEVICE, NULL, "%s has compute capability %d.%d, but %d.%d is needed", chip->name,
                   chip->capability / 10, chip->capability % 10, FT_GPU_MINIMUM_CAPABILITY / 10,
                   FT_GPU_MINIMUM_CAPABILITY % 10);
}
