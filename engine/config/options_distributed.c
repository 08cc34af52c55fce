// options_distributed.c - [distributed]: a run of several ranks.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_distributed_section
#include "engine/config/option_rows.h"

static const ft_option_choice shard_choices[] = {{"none", FT_SHARD_NONE},
                                                 {"optimizer", FT_SHARD_OPTIMIZER},
                                                 {"gradients", FT_SHARD_GRADIENTS},
                                                 {"auto", FT_SHARD_AUTO},
                                                 {NULL, 0}};

static const ft_option_choice reduction_choices[] = {
    {"chain", FT_REDUCTION_CHAIN}, {"ring", FT_REDUCTION_RING}, {NULL, 0}};

static const ft_option rows[] = {
    INT(distributed.channels, FREE, "16", 1, 64, .unit = "channels",
        .elsewhere = "nccl_max_nchannels nccl_min_nchannels nccl_max_ctas nccl_min_ctas",
        .help = "Of NCCL, on every GPU of a run on several: each takes 12MiB of the GPU, and a multiprocessor while "
                "gradients are "
                "summed. They are pinned, because the bits of sums depend on them. 16 fill NVLink; 2 to 4 are enough "
                "for PCIe."),
    CHOICE(
        distributed.shard, FREE, "none", shard_choices, .elsewhere = "zero_stage fsdp sharding_strategy zero deepspeed",
        .help = "What is dealt out among the GPUs of a run on several; the bits are those of none. optimizer: AdamW's "
                "moments, and what makes weights of 16 bits exact, are on one GPU each, which updates that part; "
                "weights travel once more a step. gradients: these too, where a step is one micro-batch a GPU. auto: "
                "the first of all three with which the run fits, before anything else at auto is changed."),
    CHOICE(distributed.reduction, FIXED, "chain", reduction_choices,
           .help = "How ranks on the CPU add up the gradients of a step. chain: each goes on with the sums of the one "
                   "before it, which it waits for layer by layer; the bits are those of one rank. ring: each has "
                   "gradients of its own, and waits for nobody until all are summed; the same ranks give the same bits "
                   "again, other ranks give others. GPUs sum their own in any case."),
    INT(distributed.max_restarts, FREE, "0", 0, 1000, .unit = "times",
        .elsewhere = "max_restarts max_restart elastic_max_restarts",
        .help =
            "So often a run of several devices goes on by itself when one of its processes is lost: killed, crashed, "
            "or ended by an error of its GPU. All ranks begin again at the last checkpoint (output.save_steps); on the "
            "CPU with the bits of a run that nothing happened to. Left out from then on are a GPU that is gone or "
            "cannot be opened any more, and a device whose rank was lost three times in a row at the same checkpoint "
            "(distributed.min_ranks). Any other error that a rank reports ends the run. Under torchrun its own "
            "--max-restarts counts."),
    INT(distributed.min_ranks, FREE, "1", 1, 64, .unit = "ranks", .elsewhere = "min_np min_nodes min_elastic_nodes",
        .help = "With fewer ranks a run that goes on by itself (distributed.max_restarts) does not: where so many "
                "devices are not left, it ends with an error, and can be resumed on any others."),
};
const ft_section ft_distributed_section = {
    .name = "distributed", .help = "A run of several ranks.", .rows = rows, .count = ROWS};
