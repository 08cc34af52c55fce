#!/usr/bin/env python3
"""Writes tests/vectors/torch_files: small files of torch.save, and what is in them. Needs torch and safetensors.

    plain.bin       a dictionary of tensors as they mostly are, with a layer's versions (_metadata) hanging on it
    views.bin       parameters and views: transposed, cut out, stretched, empty, a number alone, two names for one storage;
                    all element types; and entries that are no tensors
    protocol4.bin   the same in pickle protocol 4
    legacy.bin      the same as files were before PyTorch 1.6 (it names storages by address: other bytes every time)
    code.bin        asks for os.system: must be refused
    trainer.bin     the tensors of trainer/model, matrices as transposed parameters
    expect.safetensors   the floating-point tensors of plain.bin and views.bin, dense, in fp32
"""

import collections
import os

import torch
from safetensors.torch import load_file, save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_files")


class Code:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


def main():
    os.makedirs(HERE, exist_ok=True)
    generator = torch.Generator().manual_seed(5)
    linear = torch.nn.Linear(5, 3)
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    plain = collections.OrderedDict(linear.state_dict())
    plain._metadata = linear.state_dict()._metadata
    grid = torch.randn(4, 6, 3, generator=generator)
    views = {
        "f32": grid,
        "tied": grid,
        "f16": torch.randn(7, generator=generator).half(),
        "bf16": torch.randn(7, generator=generator).bfloat16(),
        "f64": torch.randn(2, 2, generator=generator, dtype=torch.float64),
        "i64": torch.arange(5),
        "i32": torch.arange(5, dtype=torch.int32),
        "i16": torch.arange(5, dtype=torch.int16),
        "i8": torch.arange(5, dtype=torch.int8),
        "u8": torch.arange(5, dtype=torch.uint8),
        "bool": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "number": torch.tensor(2.5),
        "transposed": grid.transpose(0, 2),
        "cut": grid[1:3, ::2, 1:],
        "row": grid[2, 3],
        "stretched": torch.tensor([1.0, 2.0, 3.0]).expand(4, 3),
        "parameter": torch.nn.Parameter(torch.randn(3, 2, generator=generator)),
        "steps": 7,
        "rate": 0.5,
        "text": "no tensor",
        "nothing": None,
        "big": 1 << 80,
        "list": [1, -2, 300, 70000, -(1 << 40)],
    }
    torch.save(plain, os.path.join(HERE, "plain.bin"))
    torch.save(views, os.path.join(HERE, "views.bin"))
    torch.save(views, os.path.join(HERE, "protocol4.bin"), pickle_protocol=4)
    torch.save(views, os.path.join(HERE, "legacy.bin"), _use_new_zipfile_serialization=False)
    torch.save({"weight": torch.ones(1), "code": Code()}, os.path.join(HERE, "code.bin"))
    trainer = load_file(os.path.join(HERE, "..", "trainer", "model", "model.safetensors"))
    trainer = {k: torch.nn.Parameter(v.t().contiguous().t()) if v.dim() == 2 else v.clone() for k, v in trainer.items()}
    torch.save(trainer, os.path.join(HERE, "trainer.bin"))
    expect = {**plain, **{k: v for k, v in views.items() if isinstance(v, torch.Tensor) and v.is_floating_point()}}
    save_file({k: v.detach().float().contiguous().clone() for k, v in expect.items()}, os.path.join(HERE, "expect.safetensors"))


if __name__ == "__main__":
    main()
