// options_device.c - [device]: what it runs on.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_device_section
#include "engine/config/option_rows.h"

static const ft_option_choice device_choices[] = {{"auto", 0}, {"cpu", 0}, {"cuda", 0}, {NULL, 0}};
static const ft_option_choice graphs_choices[] = {{"auto", FT_GRAPHS_AUTO}, {"on", FT_GRAPHS_ON},      {"true", FT_GRAPHS_ON},
                                                  {"off", FT_GRAPHS_OFF},   {"false", FT_GRAPHS_OFF}, {NULL, 0}};
static const ft_option_choice isa_choices[] = {{"auto", 0}, {"portable", 0}, {"avx2", 0}, {"avx512", 0}, {"avx512_bf16", 0}, {"amx_bf16", 0}, {"neon", 0}, {NULL, 0}};

static const ft_option rows[] = {
    NAME(device.name, FREE, "auto", device_choices, .numbered = "cuda:", .listed = true,
         .elsewhere = "device devices use_cpu no_cuda accelerator nproc_per_node num_processes",
         .help = "Where the run is computed. cuda: the first CUDA device (CUDA_VISIBLE_DEVICES chooses which that is); cuda:1: the "
                 "second. auto: where driver, kernels and cuBLASLt are there, the CUDA device with most free memory if the run fits "
                 "it, else the CPU. cpu,cpu: two ranks, processes that share the threads and train together, with the bits of one. "
                 "cuda:0,1: a rank on each of these GPUs; cuda:all: on every one."),
    INT(device.threads, FREE, "0", 0, 4096, .unit = "threads", .elsewhere = "num_threads n_threads omp_num_threads",
        .help = "Threads that compute. 0: one for every core this process may use. No processes load data: texts are tokenised once, before "
                "the first step."),
    NAME(device.isa, FREE, "auto", isa_choices, .elsewhere = "cpu_arch simd",
         .help = "Instruction set of the CPU kernels, with the same bits. avx512_bf16, amx_bf16: avx512, and products of bf16 on that unit. auto: the "
                 "widest this machine has."),
    PATH(device.gemm_tuning, FREE, "", .literal = "auto", .elsewhere = "gemm_config gemm_range autotune max_autotune tunableop_filename",
         .help = "Algorithms for matrix products that were measured on this GPU. A file of ftengine tune-gemm; a resumed run needs the same one. auto: before its "
                 "first step a run measures the products of the sizes in which most of its micro-batches come, once for such a GPU, driver, cuBLASLt and model, "
                 "and later runs take them from a cache; a resumed run keeps what it began with, and nothing is measured for a size that comes less than 96 times, "
                 "for several devices, or for a head alone. Without either cuBLASLt's heuristic chooses: the same bits on every GPU of a kind, which a "
                 "measurement does not promise."),
    CHOICE(device.graphs, FREE, "auto", graphs_choices, .elsewhere = "cuda_graphs use_cuda_graph cudagraphs reduce-overhead enforce_eager",
           .help = "The GPU's work of a step is recorded once for every size of micro-batch and then replayed, for the price of a few "
                   "launches a step; micro-batches are filled up to multiples of 64 tokens, so that sizes come back. on: up to 64 "
                   "graphs, the least recently used goes first; what they hold is the driver's memory, not in the plan, and 64MiB are left "
                   "free for it. auto: off, until this was measured on a GPU."),
    SIZE(device.min_free_memory, FREE, "auto", 1, 1LL << 50, .automatic = true,
         .elsewhere = "min_gpu_memory_mb min_free_gpu_memory min_free_memory_gb min_free",
         .help = "A device with less free memory than this is not used. Free is what no run of ftengine has reserved and nobody "
                 "else holds. auto: the planned bytes of the run, which are reserved before its first step in any case."),
    BOOL(device.wait, FREE, "false", .elsewhere = "wait_for_gpu wait_for_device wait_for_memory gpu_wait",
         .help = "When no device has room, wait for one instead of ending with exit code 4."),
    DURATION(device.wait_timeout, FREE, "0", 0, 1e9,
             .elsewhere = "gpu_wait_timeout max_wait max_wait_time",
             .help = "Longest wait; then the run ends with exit code 4. 0: no limit."),
    DURATION(device.check_interval, FREE, "5s", 0.01, 86400,
             .elsewhere = "gpu_check_interval poll_interval",
             .help = "Time between two looks at the devices while waiting."),
};
const ft_section ft_device_section = {.name = "device", .help = "What it runs on.", .rows = rows, .count = ROWS};
