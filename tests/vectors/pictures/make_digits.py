#!/usr/bin/env python3
"""The handwritten digits that scikit-learn ships (load_digits: 1,797 grey pictures of 8 x 8; E. Alpaydin and C. Kaynak, Optical Recognition of
Handwritten Digits, UCI Machine Learning Repository, CC BY 4.0; scikit-learn itself is BSD-3-Clause) as PNG files, a folder a class.

    make_digits.py DIRECTORY          train/ (the first 1,200), val/ (300), test/ (297)
    make_digits.py DIRECTORY --few    train/ (12 a class), val/ (5 a class): what is in digits/ beside this file
"""

import os
import sys

from PIL import Image
from sklearn.datasets import load_digits


def write(root, split, numbers, digits):
    for i in numbers:
        folder = os.path.join(root, split, str(digits.target[i]))
        os.makedirs(folder, exist_ok=True)
        grey = (digits.images[i] * 255 / 16).round().astype("uint8")
        Image.fromarray(grey).save(os.path.join(folder, f"{i:04d}.png"), optimize=True)


def main():
    root, digits = sys.argv[1], load_digits()
    splits = {"train": range(1200), "val": range(1200, 1500), "test": range(1500, 1797)}
    if "--few" in sys.argv:
        of = [[i for i in range(1797) if digits.target[i] == k] for k in range(10)]
        splits = {"train": sum((c[:12] for c in of), []), "val": sum((c[12:17] for c in of), [])}
    for split, numbers in splits.items():
        write(root, split, numbers, digits)


main()
