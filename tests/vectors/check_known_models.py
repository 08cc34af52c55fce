"""The parameter counts of configs/models as transformers has them: each file becomes a configuration, the base model of it is
made on the meta device (nothing is allocated) and its parameters are counted.

    python tests/vectors/check_known_models.py

Prints one line a model; the counts are those of tests/hub/test_known_models.c. Not part of `make test`.
"""
import json
import pathlib

import torch
from transformers import AutoConfig, AutoModel

root = pathlib.Path(__file__).resolve().parents[2] / "configs" / "models"
for path in sorted(root.rglob("*.json")):
    keys = {k: v for k, v in json.loads(path.read_text()).items() if not k.startswith("_")}
    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.for_model(**keys))
    name = str(path.relative_to(root).with_suffix(""))
    print(f"{name:45} {type(model).__name__:18} {sum(p.numel() for p in model.parameters()):>13,}")
