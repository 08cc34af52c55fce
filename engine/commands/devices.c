// devices.c - ftengine devices: every device of this machine, or exactly what is missing. A missing device is an
// answer, not an error: the command itself only fails when it cannot say.
#include "base/context.h"
#include "base/json/json.h"
#include "engine/commands/commands.h"
#include "engine/memory/memory.h"
#include "engine/train/room/admission.h"
#include "kernels/devices/devices.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const verdicts[] = {"Training runs on the CPU.", "Training runs on cuda:0 unless device.name=cpu.",
                                       "Training runs on the CUDA device with most free memory unless device.name says otherwise."};

typedef struct ledger_facts {
    ft_ledger_state state;
    ft_error unread; // why the ledger could not be read; code FT_OK: it was
} ledger_facts;

typedef struct cpu_facts {
    char description[128], isa[16];
    int threads;
    size_t total_bytes, available_bytes; // available: 0 where the system does not say
    ft_host_limits limits;
    ft_cpu_units units;
    ledger_facts ledger;
} cpu_facts;

// Names of limits, as they are known where they are set, and for programs.
static const struct {
    const char *text, *key;
} limit_names[FT_LIMIT_KINDS] = {
    [FT_LIMIT_MACHINE] = {"the machine's memory", "machine"},
    [FT_LIMIT_CGROUP_V1] = {"cgroup v1 memory.limit_in_bytes", "cgroup_v1"},
    [FT_LIMIT_CGROUP_V2] = {"cgroup v2 memory.max", "cgroup_v2_max"},
    [FT_LIMIT_CGROUP_HIGH] = {"cgroup v2 memory.high", "cgroup_v2_high"},
    [FT_LIMIT_ADDRESSES] = {"RLIMIT_AS (ulimit -v)", "rlimit_as"},
    [FT_LIMIT_DATA] = {"RLIMIT_DATA (ulimit -d)", "rlimit_data"},
};

// A CUDA device; or, with ordinal -1, the lack of all of them.
typedef struct cuda_facts {
    ft_gpu chip;
    ft_gpu_kernels kernels; // cuda 0: there are none for it
    bool has_free;
    size_t free_bytes;
    ledger_facts ledger;
    ft_gpu_processes processes;
    ft_error unseen;  // why nobody knows them; code FT_OK: somebody does
    ft_error missing; // why it cannot be used; code FT_OK: nothing is missing
} cuda_facts;

typedef struct output {
    bool json, failed;
    int cuda_trains; // devices that do
    json_t *devices;
} output;

// ---- facts -------------------------------------------------------------------------------------------------------

static void read_ledger(const ft_candidate *candidate, ledger_facts *ledger) {
    if (ft_candidate_read(candidate, &ledger->state) == FT_OK) return;
    ft_error_save(&ledger->unread);
    ft_error_clear();
}

static ft_status read_cpu(cpu_facts *cpu) {
    static const char *const isas[] = {"avx512", "avx2", "neon", "portable"}; // best first, as the CPU device chooses
    ft_device *device;
    *cpu = (cpu_facts){0};
    FT_TRY(ft_cpu_open(0, NULL, &device));
    snprintf(cpu->description, sizeof cpu->description, "%s", device->description);
    cpu->threads = device->target.threads;
    cpu->total_bytes = device->total_bytes;
    cpu->available_bytes = ft_cpu_available_bytes();
    ft_device_close(device);
    ft_host_limits_read(&cpu->limits);
    cpu->units = ft_cpu_units_read();
    ft_candidate candidate;
    FT_TRY(ft_candidate_cpu(&candidate));
    read_ledger(&candidate, &cpu->ledger);
    for (size_t i = 0; i < sizeof isas / sizeof *isas && cpu->isa[0] == '\0'; i++) {
        if (ft_cpu_open(1, isas[i], &device) != FT_OK) continue;
        snprintf(cpu->isa, sizeof cpu->isa, "%s", isas[i]);
        ft_device_close(device);
    }
    ft_error_clear(); // that of an instruction set which this processor lacks
    return FT_OK;
}

// Takes the present error as the answer.
static void answer(cuda_facts *cuda) {
    ft_error_save(&cuda->missing);
    ft_error_clear();
}

static void read_cuda(const ft_gpus *gpus, int ordinal, cuda_facts *cuda) {
    *cuda = (cuda_facts){0};
    if (ft_gpus_read(gpus, ordinal, &cuda->chip) != FT_OK) {
        answer(cuda);
        return;
    }
    if (ft_gpus_free_bytes(gpus, &cuda->chip, &cuda->free_bytes) == FT_OK)
        cuda->has_free = true;
    else
        answer(cuda);
    ft_candidate candidate;
    if (ft_candidate_cuda(ordinal, cuda->chip.uuid, cuda->chip.total_bytes, &candidate) == FT_OK)
        read_ledger(&candidate, &cuda->ledger);
    if (ft_gpu_processes_read(&cuda->chip, &cuda->processes) != FT_OK) {
        ft_error_save(&cuda->unseen);
        ft_error_clear();
    }
    // Both say more than a context that fails.
    if (ft_gpu_check(&cuda->chip) != FT_OK || ft_gpus_check_libraries(gpus, &cuda->kernels) != FT_OK) answer(cuda);
}

// ---- text --------------------------------------------------------------------------------------------------------

static void print_missing(const ft_error *missing) {
    printf("%s%s%s%s\n", missing->message, missing->where[0] != '\0' ? " (" : "", missing->where,
           missing->where[0] != '\0' ? ")" : "");
    for (int i = 0; i < missing->hints; i++)
        printf("        hint: %s\n", missing->hint[i]);
}

static void print_ledger(const ledger_facts *ledger) {
    char reserved[24], unused[24];
    const ft_ledger_state *state = &ledger->state;
    if (ledger->unread.code != FT_OK) {
        printf("        reservations unknown: ");
        print_missing(&ledger->unread); // what was read before the damage says nothing
        return;
    }
    if (state->count == 0) return;
    printf("        reserved %s, %s free for a run:", ft_bytes_text(state->reserved, reserved),
           ft_bytes_text(state->free, unused));
    for (int i = 0; i < state->count; i++)
        printf("%s pid %lld %s", i > 0 ? "," : "", (long long)state->reservations[i].pid,
               ft_bytes_text(state->reservations[i].bytes, reserved));
    printf("\n");
}

static void print_processes(const cuda_facts *cuda) {
    const ft_gpu_processes *processes = &cuda->processes;
    char bytes[24];
    if (cuda->unseen.code != FT_OK) printf("        who uses it is not known: "), print_missing(&cuda->unseen);
    for (int i = 0; i < processes->count; i++) {
        const ft_gpu_process *p = &processes->list[i];
        printf("%s %s pid %lld %s", i > 0 ? "," : "        used by", p->name[0] != '\0' ? p->name : "process", (long long)p->pid,
               p->has_bytes ? ft_bytes_text(p->bytes, bytes) : "(the driver does not say how much)");
    }
    if (processes->count > 0) printf("\n");
}

// Only where there is one beside the machine's size.
static void print_limits(const ft_host_limits *limits) {
    char bytes[24], left[24];
    for (int i = 0; i < limits->count && limits->count > 1; i++) {
        const ft_host_limit *l = &limits->list[i];
        printf("        limit %s%s%s: %s, %s left%s\n", limit_names[l->kind].text, l->group[0] != '\0' ? " of " : "", l->group,
               ft_bytes_text(l->bytes, bytes), ft_bytes_text(l->left, left), i == 0 ? ": this one binds" : "");
    }
}

static void print_units(const ft_cpu_units *units) {
    const char *between = "        units ";
    for (int i = 0; i < FT_CPU_UNITS; i++) {
        if (!ft_has_unit(units->usable | units->refused, (ft_cpu_unit)i)) continue;
        printf("%s%s%s", between, ft_cpu_unit_name((ft_cpu_unit)i), ft_has_unit(units->refused, (ft_cpu_unit)i) ? " (the system does not let us use it)" : "");
        between = ", ";
    }
    if ((units->usable | units->refused) != 0) printf("\n");
}

static void print_cpu(const cpu_facts *cpu) {
    char total[24], available[24];
    printf("cpu     %s\n        memory %s", cpu->description, ft_bytes_text(cpu->total_bytes, total));
    if (cpu->available_bytes > 0) printf(", %s available", ft_bytes_text(cpu->available_bytes, available));
    printf("\n");
    print_units(&cpu->units);
    print_limits(&cpu->limits);
    print_ledger(&cpu->ledger);
}

static void print_cuda(ft_gpus_driver driver, const cuda_facts *cuda) {
    const ft_gpu *chip = &cuda->chip;
    char total[24], unused[24];
    printf("cuda:%d  ", chip->ordinal);
    if (chip->total_bytes > 0) {
        printf("%s, compute capability %d.%d, %d multiprocessors, PCI %s\n        memory %s", chip->name,
               chip->capability / 10, chip->capability % 10, chip->multiprocessors, chip->pci,
               ft_bytes_text(chip->total_bytes, total));
        if (cuda->has_free) printf(", %s free", ft_bytes_text(cuda->free_bytes, unused));
        printf("\n        driver%s%s supports CUDA %d.%d", driver.release[0] != '\0' ? " " : "", driver.release,
               driver.version / 1000, driver.version % 1000 / 10);
        if (cuda->kernels.cuda != 0) printf(", kernels of CUDA %d.%d", cuda->kernels.cuda / 1000, cuda->kernels.cuda % 1000 / 10);
        printf("\n");
        print_processes(cuda);
        print_ledger(&cuda->ledger);
        if (cuda->missing.code != FT_OK) printf("        missing: ");
    }
    if (cuda->missing.code != FT_OK) print_missing(&cuda->missing);
}

// ---- JSON --------------------------------------------------------------------------------------------------------

static json_t *missing_json(const ft_error *missing, bool *failed) {
    if (missing->code == FT_OK) return json_null();
    json_t *object = json_object(), *hints = json_array();
    ft_json_put(object, "message", ft_json_text(missing->message), failed);
    ft_json_put(object, "where", missing->where[0] != '\0' ? ft_json_text(missing->where) : json_null(), failed);
    for (int i = 0; i < missing->hints; i++)
        ft_json_append(hints, ft_json_text(missing->hint[i]), failed);
    ft_json_put(object, "hints", hints, failed);
    return object;
}

static void put_ledger(json_t *object, const ledger_facts *ledger, bool *failed) {
    const ft_ledger_state *state = &ledger->state;
    bool known = ledger->unread.code == FT_OK;
    json_t *list = known ? json_array() : json_null();
    for (int i = 0; i < state->count && known; i++) {
        const ft_reservation *r = &state->reservations[i];
        ft_json_append(list,
                       json_pack("{s:I, s:I, s:I}", "pid", (json_int_t)r->pid, "bytes", (json_int_t)r->bytes, "since",
                                 (json_int_t)r->since),
                       failed);
    }
    ft_json_put(object, "reserved_bytes", known ? json_integer((json_int_t)state->reserved) : json_null(), failed);
    ft_json_put(object, "reservations", list, failed);
}

static json_t *limits_json(const ft_host_limits *limits, bool *failed) {
    json_t *list = json_array();
    for (int i = 0; i < limits->count; i++) {
        const ft_host_limit *l = &limits->list[i];
        json_t *object = json_pack("{s:s, s:I, s:I, s:b}", "kind", limit_names[l->kind].key, "bytes", (json_int_t)l->bytes, "left_bytes",
                                   (json_int_t)l->left, "binds", i == 0);
        if (l->group[0] != '\0') ft_json_put(object, "group", ft_json_text(l->group), failed);
        ft_json_append(list, object, failed);
    }
    return list;
}

static json_t *units_json(unsigned set, bool *failed) {
    json_t *list = json_array();
    for (int i = 0; i < FT_CPU_UNITS; i++)
        if (ft_has_unit(set, (ft_cpu_unit)i)) ft_json_append(list, json_string(ft_cpu_unit_name((ft_cpu_unit)i)), failed);
    return list;
}

static json_t *cpu_json(const cpu_facts *cpu, bool *failed) {
    json_t *object = json_object();
    ft_json_put(object, "device", json_string("cpu"), failed);
    ft_json_put(object, "description", ft_json_text(cpu->description), failed);
    ft_json_put(object, "threads", json_integer(cpu->threads), failed);
    ft_json_put(object, "instruction_set", json_string(cpu->isa), failed);
    ft_json_put(object, "units", units_json(cpu->units.usable, failed), failed);
    ft_json_put(object, "units_refused", units_json(cpu->units.refused, failed), failed);
    ft_json_put(object, "total_bytes", json_integer((json_int_t)cpu->total_bytes), failed);
    ft_json_put(object, "available_bytes",
                cpu->available_bytes > 0 ? json_integer((json_int_t)cpu->available_bytes) : json_null(), failed);
    bool known = cpu->ledger.unread.code == FT_OK;
    ft_json_put(object, "free_bytes", known ? json_integer((json_int_t)cpu->ledger.state.free) : json_null(), failed);
    put_ledger(object, &cpu->ledger, failed);
    ft_json_put(object, "trains", json_true(), failed);
    return object;
}

static json_t *processes_json(const cuda_facts *cuda, bool *failed) {
    if (cuda->unseen.code != FT_OK) return json_null();
    json_t *list = json_array();
    for (int i = 0; i < cuda->processes.count; i++) {
        const ft_gpu_process *p = &cuda->processes.list[i];
        json_t *object = json_object();
        ft_json_put(object, "pid", json_integer((json_int_t)p->pid), failed);
        ft_json_put(object, "name", p->name[0] != '\0' ? ft_json_text(p->name) : json_null(), failed);
        ft_json_put(object, "used_bytes", p->has_bytes ? json_integer((json_int_t)p->bytes) : json_null(), failed);
        ft_json_append(list, object, failed);
    }
    return list;
}

static json_t *kernels_json(const ft_gpu_kernels *kernels) {
    char version[16];
    snprintf(version, sizeof version, "%d.%d", kernels->cuda / 1000, kernels->cuda % 1000 / 10);
    return json_pack("{s:o, s:s, s:s}", "library", ft_json_text(kernels->path), "cuda", version, "targets", kernels->targets);
}

static json_t *cuda_json(const cuda_facts *cuda, bool *failed) {
    const ft_gpu *chip = &cuda->chip;
    char name[24], capability[16];
    json_t *object = json_object();
    snprintf(name, sizeof name, "cuda:%d", chip->ordinal);
    snprintf(capability, sizeof capability, "%d.%d", chip->capability / 10, chip->capability % 10);
    ft_json_put(object, "device", json_string(name), failed);
    if (chip->total_bytes > 0) {
        ft_json_put(object, "description", ft_json_text(chip->name), failed);
        ft_json_put(object, "compute_capability", json_string(capability), failed);
        ft_json_put(object, "multiprocessors", json_integer(chip->multiprocessors), failed);
        ft_json_put(object, "pci", json_string(chip->pci), failed);
        ft_json_put(object, "uuid", json_string(chip->uuid), failed);
        ft_json_put(object, "total_bytes", json_integer((json_int_t)chip->total_bytes), failed);
        put_ledger(object, &cuda->ledger, failed);
        ft_json_put(object, "free_bytes", cuda->has_free ? json_integer((json_int_t)cuda->free_bytes) : json_null(),
                    failed);
        ft_json_put(object, "processes", processes_json(cuda, failed), failed);
        ft_json_put(object, "processes_missing", missing_json(&cuda->unseen, failed), failed);
    }
    if (cuda->kernels.cuda != 0) ft_json_put(object, "kernels", kernels_json(&cuda->kernels), failed);
    ft_json_put(object, "trains", json_boolean(cuda->missing.code == FT_OK), failed);
    ft_json_put(object, "missing", missing_json(&cuda->missing, failed), failed);
    return object;
}

// What is there of CUDA as a whole: the driver, or why there is none.
static json_t *driver_json(const ft_gpus *gpus, const ft_error *missing, bool trains, bool *failed) {
    json_t *object = json_object();
    if (gpus != NULL) {
        const ft_gpus_driver driver = ft_gpus_driver_of(gpus);
        char version[16];
        snprintf(version, sizeof version, "%d.%d", driver.version / 1000, driver.version % 1000 / 10);
        ft_json_put(object, "library", ft_json_text(driver.path), failed);
        ft_json_put(object, "driver", driver.release[0] != '\0' ? ft_json_text(driver.release) : json_null(), failed);
        ft_json_put(object, "supports_cuda", json_string(version), failed);
    }
    ft_json_put(object, "trains", json_boolean(trains), failed);
    ft_json_put(object, "missing", missing_json(missing, failed), failed);
    return object;
}

// ---- the command -------------------------------------------------------------------------------------------------

static void show_cuda(const ft_gpus *gpus, const cuda_facts *cuda, output *out) {
    if (out->json)
        ft_json_append(out->devices, cuda_json(cuda, &out->failed), &out->failed);
    else
        print_cuda(ft_gpus_driver_of(gpus), cuda);
}

static ft_status show(output *out) {
    cpu_facts cpu;
    FT_TRY(read_cpu(&cpu));
    if (out->json)
        ft_json_append(out->devices, cpu_json(&cpu, &out->failed), &out->failed);
    else
        print_cpu(&cpu);

    ft_gpus *gpus;
    ft_error missing = {.code = FT_OK};
    int count = 0;
    ft_status status = ft_gpus_open(&gpus);
    if (status == FT_NO_MEMORY) return status; // the host's: says nothing about the driver
    if (status == FT_OK) status = ft_gpus_count(gpus, &count);
    if (status != FT_OK) {
        ft_error_save(&missing);
        ft_error_clear();
    }
    for (int i = 0; i < count; i++) {
        cuda_facts cuda;
        read_cuda(gpus, i, &cuda);
        out->cuda_trains += cuda.missing.code == FT_OK;
        show_cuda(gpus, &cuda, out);
        ft_gpu_processes_free(&cuda.processes);
    }
    const char *verdict = verdicts[out->cuda_trains < 2 ? out->cuda_trains : 2];
    if (out->json) {
        json_t *root = json_object();
        ft_json_put(root, "format_version", json_integer(1), &out->failed);
        ft_json_put(root, "devices", json_incref(out->devices), &out->failed);
        ft_json_put(root, "limits", limits_json(&cpu.limits, &out->failed), &out->failed);
        ft_json_put(root, "cuda", driver_json(gpus, &missing, out->cuda_trains > 0, &out->failed), &out->failed);
        ft_json_put(root, "verdict", json_string(verdict), &out->failed);
        if (!out->failed) ft_json_write(ft_results(), root);
        json_decref(root);
    } else {
        if (missing.code != FT_OK) printf("cuda    "), print_missing(&missing);
        printf("\n%s\n", verdict);
    }
    ft_gpus_close(gpus);
    return out->failed ? ft_fail_memory(0, "the list of devices") : FT_OK;
}

static ft_status check_words(const ft_words *words, bool pick, const char *min_free, bool watch, const char *interval) {
    if (words->plain_count + words->override_count > 0)
        return ft_fail(FT_INVALID, words->plain_count > 0 ? words->plain[0] : words->overrides[0],
                       "ftengine devices takes no argument but --json, --pick and --min-free SIZE, --watch and --interval T");
    if (min_free != NULL && !pick)
        return ft_fail(FT_INVALID, "devices", "--min-free is about --pick, which is not given");
    if (interval != NULL && !watch)
        return ft_fail(FT_INVALID, "devices", "--interval is about --watch, which is not given");
    if (watch && pick) return ft_fail(FT_INVALID, "devices", "--watch shows all devices, --pick the name of one");
    return FT_OK;
}

ft_status ft_command_devices(const ft_section *const *sections, int argc, char **argv) {
    output out = {0};
    bool pick = false, watch = false;
    const char *min_free = NULL, *interval = NULL;
    const ft_flag flags[] = {{"--json", NULL, &out.json},
                             {"--pick", NULL, &pick},
                             {"--min-free", &min_free, NULL},
                             {"--watch", NULL, &watch},
                             {"--interval", &interval, NULL}};
    ft_arena arena = {0};
    ft_words words;
    ft_status status = ft_parse_words("devices", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK) status = check_words(&words, pick, min_free, watch, interval);
    if (status == FT_OK && out.json && !pick && !watch && (out.devices = json_array()) == NULL)
        status = ft_fail_memory(0, "the list of devices");
    if (status == FT_OK) 
        status = pick ? ft_devices_pick(min_free, out.json) : watch ? ft_devices_watch(interval, out.json) : show(&out);
    if (status == FT_OK && fflush(stdout) != 0)
        status = ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
    json_decref(out.devices);
    ft_arena_free(&arena);
    return status;
}
