#!/usr/bin/env python3
"""Miniature copies of flowers102 and CUB-200-2011, laid out as these are downloaded, and MATLAB files by scipy 1.17 (the pictures are scikit-learn's
handwritten digits, see make_digits.py).

    make_sets.py DIRECTORY

writes DIRECTORY/flowers-102, DIRECTORY/CUB_200_2011 and DIRECTORY/mat: vectors.mat, packed.mat and what is not supported, with vectors.txt: what
stands in the first two, a line a variable.
"""

import os
import sys

import numpy as np
from PIL import Image
from scipy.io import savemat
from sklearn.datasets import load_digits

FLOWERS, BIRDS = 10, 8  # classes


def digit(digits, number, k):
    """The k-th picture of a digit."""
    grey = digits.images[[i for i in range(1797) if digits.target[i] == number][k]] * 255 / 16
    return Image.fromarray(grey.round().astype("uint8"))


def save(picture, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    picture.save(path, quality=90)


def flowers(root, digits):
    """Numbers of pictures go through the classes, as the real ones do not lie in the order of their splits."""
    labels, splits, number = [], {"trnid": [], "valid": [], "tstid": []}, 0
    for split, count in ("tstid", 1), ("trnid", 3), ("valid", 1):
        for k in range(count):
            for c in range(FLOWERS):
                number += 1
                save(digit(digits, c, len(splits["tstid"] + splits["trnid"] + splits["valid"]) // FLOWERS), f"{root}/jpg/image_{number:05d}.jpg")
                labels.append(c + 1)
                splits[split].append(number)
    order = np.random.default_rng(1)
    savemat(f"{root}/imagelabels.mat", {"labels": np.array([labels], dtype="uint8")}, do_compression=True)
    savemat(f"{root}/setid.mat", {k: order.permutation(np.array(v, dtype="uint16"))[None] for k, v in splits.items()}, do_compression=True)


def birds(root, digits):
    names = [f"{c + 1:03d}.Digit_{c}" for c in range(BIRDS)]
    images, labels, sides = [], [], []
    for c, name in enumerate(names):
        for k in range(6):
            path = f"{name}/Digit_{c}_{k:04d}.jpg"
            save(digit(digits, c, k + 10), f"{root}/images/{path}")
            images.append(path)
            labels.append(c + 1)
            sides.append(int(k < 5))
    for file, values in ("images", images), ("image_class_labels", labels), ("train_test_split", sides), ("classes", names):
        with open(f"{root}/{file}.txt", "w", encoding="utf-8") as out:
            out.writelines(f"{i} {value}\n" for i, value in enumerate(values, 1))


def matrices(root):
    os.makedirs(root, exist_ok=True)
    good = {
        "doubles": np.array([[1.0, -2, 3e9, 4503599627370497]]),
        "column": np.arange(1, 6, dtype="int16")[:, None],
        "few": np.array([[7]], dtype="uint8"),
        "none": np.zeros((1, 0)),
        "singles": np.array([[0.0, 16777216]], dtype="float32"),
        "long": np.arange(300, dtype="int64")[None] * -1000000007,
        "words": np.array([[0, 4294967295]], dtype="uint32"),
        "signed": np.array([[-128, 127]], dtype="int8"),
    }
    savemat(f"{root}/vectors.mat", good)
    savemat(f"{root}/packed.mat", good, do_compression=True)
    with open(f"{root}/vectors.txt", "w", encoding="utf-8") as out:
        out.writelines(f"{name} {value.size} {' '.join(str(int(v)) for v in value.ravel())}".rstrip() + "\n" for name, value in good.items())
    bad = {"square": np.eye(2), "half": np.array([[0.5]]), "complex": np.array([[1j]]), "text": "abc", "cell": np.array([["a", 1]], dtype=object)}
    savemat(f"{root}/others.mat", bad, do_compression=True)


def main():
    root, digits = sys.argv[1], load_digits()
    flowers(os.path.join(root, "flowers-102"), digits)
    birds(os.path.join(root, "CUB_200_2011"), digits)
    matrices(os.path.join(root, "mat"))


main()
