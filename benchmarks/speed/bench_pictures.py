#!/usr/bin/env python3
"""From picture files to normalised tensors on one core: bench_pictures beside torchvision with Pillow, in turns.

    python benchmarks/speed/bench_pictures.py --bench BUILD/benchmarks/bench_pictures --output benchmarks/results/pictures

Pictures of 500 x 375 with the spectrum of photographs (noise falling with frequency), JPEG of quality 90 and 4:2:0, are made once; each side reads, decodes, resizes to
224 x 224 (bilinear) and normalises all of them, one after the other. Resizing alone, from pixels that are there, is measured too.
Processor time on both sides. Needs torch, torchvision and Pillow (with Pillow-SIMD in its place it is that).
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import provenance, title_lines, write_results  # noqa: E402

import numpy
import PIL
import torch
import torchvision
from PIL import Image
from torchvision.transforms import functional as F

SIDE, MEAN = 224, [0.5, 0.5, 0.5]


def photograph(rng, width=500, height=375):
    y, x = numpy.meshgrid(numpy.fft.fftfreq(height), numpy.fft.fftfreq(width), indexing="ij")
    fall = 1 / numpy.maximum(numpy.hypot(x, y), 1 / width) ** 1.2
    channels = []
    for _ in range(3):
        v = numpy.fft.ifft2(numpy.fft.fft2(rng.standard_normal((height, width))) * fall).real
        channels.append(127 + 50 * (v - v.mean()) / v.std())
    shared = sum(channels) / 3  # colours of photographs go together
    return Image.fromarray(numpy.clip(numpy.stack([0.7 * shared + 0.3 * c for c in channels], -1), 0, 255).astype("uint8"))


def rival(paths):
    for path in paths:
        picture = F.resize(Image.open(path).convert("RGB"), [SIDE, SIDE])
        F.normalize(F.to_tensor(picture), MEAN, MEAN)


def rival_resize(pictures):
    for picture in pictures:
        F.resize(picture, [SIDE, SIDE])


def seconds(work):
    before = time.process_time()
    work()
    return time.process_time() - before


def ours(args, rules, folder, *more):
    lines = subprocess.run([args.bench, rules, folder, "1", *more], check=True, capture_output=True, text=True).stdout.split()
    return float(lines[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True, help="the program bench_pictures")
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = numpy.random.default_rng(1)
    with tempfile.TemporaryDirectory() as d:
        folder = os.path.join(d, "pictures")
        os.mkdir(folder)
        with open(os.path.join(d, "preprocessor_config.json"), "w", encoding="utf-8") as f:
            json.dump({"image_processor_type": "ViTImageProcessor", "size": {"height": SIDE, "width": SIDE}}, f)
        for i in range(args.pictures):
            photograph(rng).save(os.path.join(folder, f"{i:04}.jpg"), quality=90)
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        pictures = [Image.open(path).convert("RGB") for path in paths]
        rival(paths[:5])
        times = {"ours": [], "rival": [], "ours_resize": [], "rival_resize": []}
        for _ in range(args.rounds):
            times["ours"].append(ours(args, d, folder))
            times["rival"].append(seconds(lambda: rival(paths)))
            times["ours_resize"].append(ours(args, d, folder, "resize"))
            times["rival_resize"].append(seconds(lambda: rival_resize(pictures)))
    rate = {k: args.pictures / statistics.median(v) for k, v in times.items()}
    result = provenance() | {"pictures": args.pictures, "rounds": args.rounds, "per_second": {k: round(v, 1) for k, v in rate.items()},
              "ratio": round(rate["ours"] / rate["rival"], 3), "ratio_resize": round(rate["ours_resize"] / rate["rival_resize"], 3),
              "spread": {k: round(max(v) / min(v), 3) for k, v in times.items()}, "versions": {"pillow": PIL.__version__, "torchvision": torchvision.__version__}}
    lines = title_lines(result, "From picture files to normalised tensors on one core") + [
        f"JPEG of 500 x 375 to {SIDE} x {SIDE}, {args.pictures} of them, median of {args.rounds} rounds in turns, processor time; torchvision {torchvision.__version__} with Pillow {PIL.__version__}.", "",
        "| | pictures/s | torchvision and Pillow | ratio | target |", "|---|---|---|---|---|",
        f"| read, decode, resize, normalise | {rate['ours']:.0f} | {rate['rival']:.0f} | **{result['ratio']:.2f}x** | 2x |",
        f"| resize alone | {rate['ours_resize']:.0f} | {rate['rival_resize']:.0f} | **{result['ratio_resize']:.2f}x** | 3x |", "",
        f"Slowest to fastest round of a side: at most {max(result['spread'].values()):.2f}."]
    if args.output:
        write_results(args.output, result, "\n".join(lines) + "\n")
    else:
        print("\n".join(lines))


main()
