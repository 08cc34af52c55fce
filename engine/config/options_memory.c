// options_memory.c - [memory]: how much memory a run may take.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_memory_section
#include "engine/config/option_rows.h"

static const ft_option_choice ranges_choices[] = {{"auto", FT_RANGES_AUTO}, {"true", FT_RANGES_ON},   {"on", FT_RANGES_ON},
                                                  {"false", FT_RANGES_OFF}, {"off", FT_RANGES_OFF}, {NULL, 0}};
static const ft_option_choice on_oom_choices[] = {{"ladder", FT_OOM_LADDER}, {"fail", FT_OOM_FAIL}, {NULL, 0}};
static const ft_option_choice vocabulary_choices[] = {{"auto", FT_VOCABULARY_AUTO}, {"off", FT_VOCABULARY_OFF}, {NULL, 0}};
static const ft_option_choice recompute_choices[] = {
    {"true", FT_RECOMPUTE_TRUE},   {"on", FT_RECOMPUTE_TRUE},     {"false", FT_RECOMPUTE_FALSE},
    {"off", FT_RECOMPUTE_FALSE},   {"auto", FT_RECOMPUTE_AUTO},   {NULL, 0}};
static const ft_option_choice map_choices[] = {{"auto", FT_MAP_AUTO}, {"true", FT_MAP_ON},    {"on", FT_MAP_ON},
                                               {"false", FT_MAP_OFF}, {"off", FT_MAP_OFF}, {NULL, 0}};
static const ft_option_choice offload_choices[] = {
    {"none", FT_OFFLOAD_NONE}, {"optimizer", FT_OFFLOAD_OPTIMIZER}, {"activations", FT_OFFLOAD_ACTIVATIONS},
    {"all", FT_OFFLOAD_ALL},   {"trunk", FT_OFFLOAD_TRUNK},         {"trunk+optimizer", FT_OFFLOAD_TRUNK | FT_OFFLOAD_OPTIMIZER},
    {"trunk+activations", FT_OFFLOAD_TRUNK | FT_OFFLOAD_ACTIVATIONS}, {"trunk+all", FT_OFFLOAD_TRUNK | FT_OFFLOAD_ALL},
    {"auto", FT_OFFLOAD_AUTO}, {NULL, 0}};

static const ft_option rows[] = {
    SIZE(memory.limit, FREE, "auto", 1 << 16, 1LL << 50, .automatic = true, .share = true,
         .elsewhere = "max_memory max_memory_mb gpu_memory_limit memory_limit max_memory_gb "
                      "set_per_process_memory_fraction",
         .help = "Most that a run may take, as 24GiB, 512MiB, 24GB (10^9), bytes, or 80% of what the device has. auto: all "
                 "of it; what is left to autofit is chosen for what is free now, unless device.wait is set."),
    SIZE(memory.host_limit, FREE, "auto", 1 << 20, 1LL << 50, .automatic = true, .share = true,
         .elsewhere = "cpu_memory_limit max_cpu_memory host_memory_limit",
         .help = "Most that the whole process may hold of the host's memory, as memory.limit: on the CPU that includes what memory.limit is "
                 "about, beside a GPU it is program, texts, evaluations and pinned memory. auto: the tightest of what the cgroup, "
                 "RLIMIT_AS and RLIMIT_DATA allow and the machine has. What would not fit is refused before the first step. Of a study: for all its processes together, too."),
    SIZE(memory.max_split_size, COMPARABLE, "auto", 2 << 20, 1LL << 50, .automatic = true,
         .elsewhere = "max_split_size_mb",
         .help = "Free blocks larger than this are never split for smaller requests. auto: every block may be split."),
    CHOICE(memory.expandable_segments, COMPARABLE, "auto", ranges_choices,
           .help = "Ranges of addresses that grow, instead of segments: less is reserved, above all when sizes vary. "
                   "auto: where the device has them, unless memory.max_split_size is given."),
    FLOAT(memory.garbage_collection_threshold, COMPARABLE, "0", 0, 1, .high_open = true,
          .help = "Share of memory.limit above which cached segments are given back before new ones are taken. 0: only "
                  "when there is no other way."),
    BOOL(memory.timeline, COMPARABLE, "true", .elsewhere = "record_memory_history memory_snapshot",
         .help = "Writes memory_timeline.json into the run directory, for ui.perfetto.dev."),
    CHOICE(memory.on_oom, FREE, "ladder", on_oom_choices,
           .elsewhere = "auto_find_batch_size find_executable_batch_size oom_retry handle_oom on_out_of_memory",
           .help = "When memory that was planned is refused (another program took it). ladder: release what is cached, then "
                   "smaller micro-batches of the same batch, or recomputation where train.gradient_checkpointing is auto, then "
                   "another device or the CPU where device.name is auto, a wait in between where device.wait is set; training "
                   "goes on from its last step and ends with the same numbers (with the same bits where all of it runs on the CPU). fail: the run ends with exit code 3."),
    INT(memory.min_micro_batch, FREE, "1", 1, 1 << 20, .unit = "sequences", .elsewhere = "min_batch_size minimum_batch_size",
        .help = "The ladder leaves room for so many of the longest texts in a micro-batch."),
    INT(memory.max_retries, FREE, "10", 0, 1 << 20, .elsewhere = "max_oom_retries oom_retries num_oom_retries",
        .help = "How often the ladder tries the same piece of work (start, step, evaluation, save) again, waits not counted."),
    CHOICE(memory.active_vocabulary, COMPARABLE, "auto", vocabulary_choices,
           .help = "Only those rows of the word embeddings live on the device that the texts of the run read, with gradient and "
                   "moments where training reads them: same saved weights to the bit, often half the state. auto: where "
                   "that takes less. off: all rows."),
    CHOICE(memory.recompute_activation, FREE, "true", recompute_choices, .elsewhere = "recompute_gelu gelu_checkpoint",
           .help = "Compute the activation inside a layer (GELU) again in the backward pass. false keeps it: a quarter to a third more "
                   "activations, a step shorter by about a hundredth. Same bits. fp32 only: in 16 bits it is always computed again. "
                   "auto: kept where memory.limit allows."),
    CHOICE(memory.recompute_layernorm, FREE, "auto", recompute_choices, .elsewhere = "recompute_norm layernorm_checkpoint",
           .help = "Make the output of every LayerNorm again from its input, which is kept: a sixth less activations for two short "
                   "passes a layer. Same bits. fp32 only: in 16 bits nothing is gained. auto: where memory.limit asks for it."),
    INT(memory.loss_rows, RESUMABLE, "512", 1, 1 << 20, .unit = "tokens", .elsewhere = "loss_chunk_size ce_chunk_size num_output_chunks chunked_loss",
        .help = "train.task = causal_lm: logits of the whole vocabulary exist for so many tokens at once; loss and gradients come chunk by chunk. On the CPU the "
                "same bits for any number."),
    CHOICE(memory.map_weights, FREE, "auto", map_choices, .elsewhere = "use_mmap mmap low_cpu_mem_usage",
           .help = "Frozen weights (beside an adapter or a head that is trained, and in prediction) are read where their mapped file lies instead of being copied: "
                   "same bits, runs of one host have them once in memory, and the system may take their pages back. On the CPU matrices that the file has in the type that is read "
                   "(model.storage, else train.precision), with memory.offload=trunk the layers that travel, if all of them are so. auto: from 256 MiB on. off: they are copied."),
    CHOICE(memory.offload, FREE, "none", offload_choices,
           .elsewhere = "offload_optimizer optimizer_offload cpu_offload offload_optimizer_device zero_offload offload_activations "
                        "activation_offloading cpu_checkpointing offload_params offload_param_device cpu_offload_params",
           .help = "What lies in pinned memory of the host, with the same bits. optimizer: AdamW's moments, and what makes weights of 16 bits exact "
                   "(in bf16 a tail of each, in fp16 master weights), which travel through the device in every update: 8 to 12 bytes a trained parameter less there. "
                   "activations: under train.gradient_checkpointing (auto is on then; off is refused) the inputs of layers, sent "
                   "while layers are computed and fetched before they are computed again: of all of them the device holds two at most beside what is being computed. "
                   "all: both. trunk: the frozen weights of layers, of which two are on the device at a time, the next one on its way while one is computed, "
                   "forward and backward; and a frozen word table that no head reads, of which the device reads rows. It goes with the others: trunk+optimizer, "
                   "trunk+activations, trunk+all. Where no layer is frozen it is refused. A CPU has no other memory: named, it refuses this, and with device.name=auto the run goes on there "
                   "without. auto: where memory.limit asks for it, and nothing faster fits."),
};
const ft_section ft_memory_section = {.name = "memory", .help = "How much memory a run may take.", .rows = rows, .count = ROWS};
