#!/usr/bin/env python3
"""What this GPU reaches at best, by PyTorch: copying, an 8192^3 product in bf16, and attention with dropout, forward and backward,
by FlashAttention-2 and by cuDNN. Prints one JSON document. gpu_check.sh runs it for the floors of a step. Needs torch and a GPU.

    gpu_ceilings.py [--tokens 16384] [--length 512] [--heads 12 16]

Medians of repeats between events, after a warm-up; random numbers. What PyTorch refuses is null, with the reason beside it.
"""

import argparse
import json
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HEAD_DIM = 64


def seconds_of(work, repeats=15):
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def copy_rate():
    """Bytes read and written a second, of an array far larger than any cache."""
    x = torch.randn(2**29, device="cuda")
    y = torch.empty_like(x)
    return 2 * x.nbytes / seconds_of(lambda: y.copy_(x))


def product_rate(n=8192):
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * n**3 / seconds_of(lambda: a @ b)


def attention_rate(backend, heads, arguments):
    """Operations a second, counted as 3.5 times the forward pass's two products (the backward pass has five)."""
    shape = (arguments.tokens // arguments.length, heads, arguments.length, HEAD_DIM)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    dout = torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    def work():
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(q, k, v, dropout_p=0.1).backward(dout)
        q.grad = k.grad = v.grad = None

    return 3.5 * 4 * shape[0] * heads * arguments.length**2 * HEAD_DIM / seconds_of(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--heads", type=int, nargs="+", default=[12, 16], help="of BERT-base and BERT-large")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(4, "gpu_ceilings.py: torch sees no GPU\n")
    found = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "tokens": arguments.tokens, "length": arguments.length}
    found |= {"copy_bytes_per_second": copy_rate(), "product_flops_per_second": product_rate(), "attention": []}
    for heads in arguments.heads:
        row = {"heads": heads, "head_dim": HEAD_DIM}
        for name, backend in (("flash_attention_2", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            try:
                row[name] = attention_rate(backend, heads, arguments)
            except RuntimeError as error:
                row |= {name: None, name + "_why": str(error)[:200]}
        found["attention"].append(row)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
