#!/usr/bin/env python3
"""What torchvision's augmentations make of Pillow's pictures, and how what they draw is distributed (torchvision 0.29.2, Pillow 13).

    adjusted.txt       NAME AMOUNT WIDTH HEIGHT SEED SHIFT SHA-256: an operation on picture(), the bytes' hash
    amounts.txt        NAME WIDTH HEIGHT and RandAugment's 31 magnitudes for a picture of that size
    distributions.txt  NAME and the deciles 0.1 ... 0.9 of 40,000 draws
"""

import hashlib
import math
import os

import numpy
import torch
from PIL import Image
from torchvision.transforms import ColorJitter, InterpolationMode, RandAugment, RandomErasing, RandomResizedCrop, v2
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import _apply_op

HERE = os.path.dirname(os.path.abspath(__file__))
DRAWS = 40_000


def picture(width, height, seed, shift):
    """Bytes of a linear congruential generator; with a shift they are of few values in the middle."""
    state, out = seed, bytearray()
    for _ in range(width * height * 3):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append((state >> 24 >> shift) + (40 if shift else 0))
    return Image.frombytes("RGB", (width, height), bytes(out))


PLAIN = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast, "saturation": F.adjust_saturation, "hue": F.adjust_hue,
         "sharpness": F.adjust_sharpness, "posterize": lambda p, bits: F.posterize(p, int(bits)), "solarize": F.solarize,
         "autocontrast": lambda p, _: F.autocontrast(p), "equalize": lambda p, _: F.equalize(p), "flip": lambda p, _: F.hflip(p)}
MOVES = {"shear_x": "ShearX", "shear_y": "ShearY", "translate_x": "TranslateX", "translate_y": "TranslateY", "rotate": "Rotate"}
FACTORS = (0, 0.1, 0.73, 1, 1.27, 1.9, 3.5)
AMOUNTS = {"brightness": FACTORS, "contrast": FACTORS, "saturation": FACTORS, "sharpness": FACTORS, "hue": (-0.5, -0.31, -0.003, 0, 0.1, 0.25, 0.5),
           "posterize": range(1, 9), "solarize": (0, 1, 127.5, 178.5, 255), "autocontrast": (0,), "equalize": (0,), "flip": (0,),
           "shear_x": (-0.3, -0.09, 0, 0.09, 0.3), "shear_y": (-0.3, -0.09, 0, 0.09, 0.3), "translate_x": (-13.6, -1, 0, 4.9, 20, 400),
           "translate_y": (-13.6, -1, 0, 4.9, 20, 400), "rotate": (-30, -9, 0, 1, 9, 30)}
SIZES = ((37, 29, 1, 0), (24, 32, 2, 0), (16, 16, 3, 2), (3, 2, 4, 0), (1, 1, 5, 0))


def write_adjusted():
    with open(os.path.join(HERE, "adjusted.txt"), "w") as out:
        for name, amounts in AMOUNTS.items():
            for amount in amounts:
                for width, height, seed, shift in SIZES:
                    p = picture(width, height, seed, shift)
                    if name in MOVES:
                        p = _apply_op(p, MOVES[name], amount, InterpolationMode.NEAREST, None)
                    else:
                        p = PLAIN[name](p, amount)
                    out.write(f"{name} {amount!r} {width} {height} {seed} {shift} {hashlib.sha256(p.tobytes()).hexdigest()}\n")


def write_amounts():
    with open(os.path.join(HERE, "amounts.txt"), "w") as out:
        for width, height in ((224, 224), (97, 331)):
            for name, (values, signed) in RandAugment()._augmentation_space(31, (height, width)).items():
                values = values.tolist() if values.ndim else [float(values)] * 31
                out.write(f"{name} {width} {height} {int(signed)} {' '.join(f'{v:.9g}' for v in values)}\n")


def crop(width, height, **options):
    image = torch.empty(3, height, width)
    transform = RandomResizedCrop(224, **options)
    boxes = torch.tensor([transform.get_params(image, transform.scale, transform.ratio) for _ in range(DRAWS)]).double()
    top, left, h, w = boxes.T
    return {"share": w * h / (width * height), "shape": w / h, "left": left / (width - w).clamp(min=1), "top": top / (height - h).clamp(min=1)}


def erased(width, height):
    image = torch.empty(1, height, width)
    transform = RandomErasing(p=1)
    boxes = torch.tensor([transform.get_params(image, transform.scale, transform.ratio, [0.0])[:4] for _ in range(DRAWS)]).double()
    top, left, h, w = boxes.T
    return {"share": w * h / (width * height), "shape": h / w, "left": left / (width - w), "top": top / (height - h)}


def cutmix(alpha, width, height):
    transform = v2.CutMix(alpha=float(alpha), num_classes=2)
    images = [torch.empty(1, 3, height, width)]
    found = [transform.make_params(images) for _ in range(DRAWS)]
    boxes = torch.tensor([p["box"] for p in found]).double()
    return {"share": torch.tensor([p["lam_adjusted"] for p in found]).double(), "left": boxes[:, 0], "bottom": boxes[:, 3]}


def jittered(channel):
    """A pixel of a grey picture by brightness, of a coloured one by the others."""
    transform = ColorJitter(brightness=0.4, contrast=0.5, saturation=0.6, hue=0.1)
    p = picture(4, 4, 7, 0)
    return torch.tensor([transform(p).tobytes()[channel] for _ in range(DRAWS // 2)]).double()


def write_distributions():
    torch.manual_seed(1)
    numpy.random.seed(1)
    with open(os.path.join(HERE, "distributions.txt"), "w") as out:
        def write(name, values):
            deciles = numpy.quantile(values.numpy(), numpy.arange(1, 10) / 10)
            out.write(f"{name} {' '.join(f'{v:.9g}' for v in deciles)}\n")

        for name, options in (("crop", {}), ("crop_some", {"scale": (0.3, 0.9), "ratio": (0.5, 2)})):
            for what, values in crop(500, 375, **options).items():
                write(f"{name}_{what}", values)
        for what, values in crop(60, 300, scale=(0.6, 1)).items():  # few boxes fit: often the middle
            if what == "share":
                write("crop_narrow_share", values)
        for what, values in erased(224, 160).items():
            write(f"erased_{what}", values)
        for alpha in (0.2, 0.4, 1, 8):
            write(f"mixup_{alpha:g}", torch.distributions.Beta(alpha, alpha).sample((DRAWS,)))
        for alpha in (0.5, 1):
            for what, values in cutmix(alpha, 224, 160).items():
                write(f"cutmix_{alpha:g}_{what}", values)
        for channel in (0, 10, 47):
            write(f"jitter_{channel}", jittered(channel))


assert math.isclose(F.adjust_brightness(Image.new("RGB", (1, 1), (100, 0, 0)), 1.5).getpixel((0, 0))[0], 150)
write_adjusted()
write_amounts()
write_distributions()
