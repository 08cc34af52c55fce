"""What a training step of an encoder has to do: floating-point operations and bytes, and the floor of its time.

Only what is executed is counted, a multiply-add as two operations. The operations of a step are those of its matrix products
and of attention; softmax, norms and activations are not counted, as in every MFU. Standard library only.
"""

import math
import os

LABELS = 3  # of the classifier that all sides train

# Dense tensor-core rates with fp32 accumulation by the vendor's data sheets, 16-bit inputs, by the driver's whole name of a chip:
# an L40 is no L4, and an H100 for PCIe or of a pair is slower than that of a board.
PEAKS = {
    "H200": 989e12,
    "H200 NVL": 835e12,
    "H100 80GB HBM3": 989e12,
    "H100 NVL": 835e12,
    "H100 PCIe": 756e12,
    "A100-SXM4-80GB": 312e12,
    "A100-SXM4-40GB": 312e12,
    "A100 80GB PCIe": 312e12,
    "A100-PCIE-40GB": 312e12,
    "L40S": 362e12,
    "L40": 181e12,
    "L4": 121e12,
    "GeForce RTX 4090": 165e12,
    "GeForce RTX 3090": 71e12,
}


def peak_of(chip):
    """Of a chip as ftengine describes it: NVIDIA NAME, what else. None: not listed here."""
    return PEAKS.get(chip.split(",")[0].removeprefix("NVIDIA").strip())


def first_device():
    """The device that a program takes first, as nvidia-smi's -i wants it."""
    return (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0].strip()


def bucket(distance, buckets, furthest):
    """DeBERTa's logarithmic bucket of a relative distance (arXiv:2006.03654; transformers' make_log_bucket_position)."""
    middle = buckets // 2
    if abs(distance) < middle:
        return distance
    far = math.ceil(math.log(abs(distance) / middle) / math.log((furthest - 1) / middle) * (middle - 1)) + middle
    return far if distance > 0 else -far


def reached_rows(config, length):
    """Rows of the table of relative positions that a text of so many tokens reads."""
    buckets = config.get("position_buckets", -1)
    if buckets <= 0:
        return min(2 * length - 1, 2 * config["max_position_embeddings"])
    furthest = config["max_relative_positions"] if config.get("max_relative_positions", -1) > 0 else config["max_position_embeddings"]
    return len({max(-buckets, min(buckets - 1, bucket(d, buckets, furthest))) for d in range(1 - length, length)})


def position_terms(config):
    if not config.get("relative_attention"):
        return 0
    kinds = config["pos_att_type"]
    return len(kinds.split("|") if isinstance(kinds, str) else kinds)


def step_flops(config, lengths, fused, trimmed, steps=1):
    """Operations of training on texts of these lengths (padded ones: as computed) in so many steps.

    fused: attention's backward pass computes its scores again, and position terms only where the text reaches; else scores are
    kept, and a text is multiplied with the whole table. trimmed: as ftengine has it, the last layer computes keys and values of
    all tokens and everything else for one row a text, and of the table of positions only the rows that some text reaches are
    projected.
    """
    d, f, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    tokens, texts, terms = sum(lengths), len(lengths), position_terms(config)
    backward = 2.5 if fused else 2.0  # of attention, beside its forward pass; of a product with weights it is 2
    table = 2 * config.get("position_buckets", 0)
    rows = {n: reached_rows(config, n) if fused else table for n in set(lengths)} if terms else {}

    def attention(queries):  # of every text
        scores = sum(4 * (queries or n) * n * d for n in lengths)
        positions = sum(2 * terms * (queries or n) * rows[n] * d for n in lengths) if terms else 0
        return (1 + backward) * scores + (1 + (3 if fused else 2)) * positions

    projected = reached_rows(config, max(lengths)) if terms and trimmed else table
    projections = 3 * 2 * terms * projected * d * d  # once a layer and step
    whole = 3 * 2 * tokens * (4 * d * d + 2 * d * f) + attention(None)
    last = 3 * 2 * (tokens * 2 * d * d + texts * (2 * d * d + 2 * d * f)) + attention(1) if trimmed else whole
    head = 3 * 2 * texts * (d * d + d * LABELS)
    return (layers - 1) * whole + last + steps * layers * projections + head


def parameters(config, rows):
    """Trained parameters, with so many rows of the word table."""
    d, f, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    layer = 4 * (d * d + d) + d * f + f + f * d + d + 4 * d
    tables = rows * d + (0 if config.get("relative_attention") else (config["max_position_embeddings"] + config["type_vocab_size"]) * d)
    relative = 2 * config.get("position_buckets", 0) * d + 2 * d if config.get("relative_attention") else 0
    return layers * layer + tables + relative + 2 * d + d * d + d + d * LABELS + LABELS


def step_bytes(config, lengths, residual="fp32"):
    """Bytes that the ops which only move data read and write in a step of 16 bits, every operand once: norms with residual and
    dropout (14 bytes a number forward: rows of 16 bits in and out, the fp32 row from layer to layer read and written; 12
    backward; with train.residual=16bit 8 and 8), GELU (4 and 8, which makes its output again), embeddings, and of every trained parameter the norm of gradients (4),
    their clearing (4) and AdamW (28). The last layer's rows are the texts' first ones alone."""
    d, f, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    tokens = sum(lengths)
    norm = 14 + 12 if residual == "fp32" else 8 + 8
    layer = 2 * norm * d + (4 + 8) * f
    embeddings = (6 + 14 + 12 + 12 if residual == "fp32" else 6 + 8 + 8 + 6 + 12) * d  # the gradient becomes fp32 there
    rows = config["vocab_size"] * (1 - math.exp(-tokens / config["vocab_size"]))  # words are drawn evenly
    return tokens * ((layers - 1) * layer + embeddings) + len(lengths) * layer + 36 * parameters(config, rows)


def gemm_seconds(config, lengths, products):
    """Time of a step's matrix products at the fastest measured algorithms (`products` of ftengine tune-gemm). None: one of the
    shapes was not measured. Products are told apart by their three dimensions and by which operands are transposed: forward,
    gradient of the input, gradient of the weights."""
    d, f, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    tokens, texts, terms = sum(lengths), len(lengths), position_terms(config)
    best = {}
    for p in products:
        kinds = best.setdefault(tuple(sorted((p["m"], p["n"], p["k"]))), {})
        kind = tuple(p["transposed"])
        kinds[kind] = min(kinds.get(kind, math.inf), p["microseconds"])
    linears = [(tokens, 3 * d, d, layers - 1), (tokens, d, d, layers - 1), (tokens, f, d, 2 * (layers - 1)), (tokens, 2 * d, d, 1)]
    linears += [(texts, d, d, 2), (texts, f, d, 2)]  # of the last layer: query and output, feed-forward
    if terms:
        linears += [(reached_rows(config, max(lengths)), d, d, terms * layers)]
    seconds = 0.0
    for *shape, count in linears:
        kinds = best.get(tuple(sorted(shape)))
        if kinds is None or len(kinds) < 3:
            return None
        seconds += count * sum(kinds.values()) * 1e-6
    return seconds


def attention_flops(config, lengths):
    d, layers = config["hidden_size"], config["num_hidden_layers"]
    scores = sum(4 * n * n * d for n in lengths)
    positions = sum(2 * position_terms(config) * n * reached_rows(config, n) * d for n in lengths) if position_terms(config) else 0
    return (layers - 1) * (3.5 * scores + 4 * positions)


def floor(config, lengths, products, copy_rate, attention_rate, residual="fp32"):
    """Parts of the least time of a step in 16 bits, in seconds. A part whose ceiling was not measured is None, and so is the sum.
    attention_rate: FlashAttention-2's, forward and backward with dropout; a disentangled one is held to the same rate."""
    parts = {
        "products": gemm_seconds(config, lengths, products) if products else None,
        "attention": attention_flops(config, lengths) / attention_rate if attention_rate else None,
        "moving": step_bytes(config, lengths, residual) / copy_rate if copy_rate else None,
    }
    parts["sum"] = None if None in parts.values() else sum(parts.values())
    return parts
