#!/usr/bin/env python3
"""Golden figures of entities, made with seqeval 1.2.2: entities.txt.

    python tests/vectors/make_entity_vectors.py

A case is a line `tags NAME ...`, then for every text a line `truth ID ...` and one `said ID ...` (ids of the tags; a text may have none),
then `want FIGURE VALUE ...`, the _strict ones with the scheme that is named there where the tags are of one. The texts are random and
adversarial: I- without B-, types that change, entities at the ends of texts, no entity at all, one word, names beyond ASCII.
"""

import os
import random
import warnings

import numpy as np
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from seqeval.scheme import BILOU, IOB2, IOBES, IOE2

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))


def tags(letters, types):
    return ["O"] + [f"{letter}-{t}" for t in types for letter in letters]


SETS = [
    (tags("BI", ["PER", "LOC", "ORG"]), IOB2),
    (tags("BI", ["人物", "Straße-Nr", "é"]), IOB2),
    (tags("IE", ["PER", "LOC"]), IOE2),
    (tags("BIES", ["PER", "LOC"]), IOBES),
    (tags("BILU", ["PER", "LOC"]), BILOU),
    (["O", "B", "I"], IOB2),
    (["B-X", "I-X"], IOB2),
    (["O", "I-PER", "I-LOC"], None),
    (["NOUN", "VERB", "ADJ", "."], None),
    (["O", "B-A-B", "I-A-B", "B--B", "I-B"], IOB2),
    (["O", "OTHER", "B-PER", "I-PER", "S-PER", "X-PER"], None),
]
FIGURES = {"precision": precision_score, "recall": recall_score, "f1": f1_score}


def figures(truth, said, scheme):
    out = {"accuracy": accuracy_score(truth, said)}
    for name, score in FIGURES.items():
        for average in ("micro", "macro", "weighted"):
            out[f"{name}_{average}"] = score(truth, said, average=average, zero_division=0)
        if scheme is not None:
            out[f"{name}_strict"] = score(truth, said, average="micro", mode="strict", scheme=scheme, zero_division=0)
    if scheme is not None:
        out["f1_macro_strict"] = f1_score(truth, said, average="macro", mode="strict", scheme=scheme, zero_division=0)
    return {k: v for k, v in out.items() if not np.isnan(v)}


def draw(names, rng, how):
    texts = []
    for _ in range(rng.choice([1, 2, 12])):
        n = rng.choice([1, 1, 2, 3, 7, 30])
        truth = [rng.randrange(len(names)) for _ in range(n)]
        if how == "none":
            truth = [0] * n
        said = [t if rng.random() < {"close": 0.9, "far": 0.3, "none": 1.0, "same": 1.0}[how] else rng.randrange(len(names)) for t in truth]
        texts.append((truth, said))
    return texts


def main():
    rng = random.Random(7)
    count = 0
    with open(os.path.join(HERE, "entities.txt"), "w", encoding="utf-8") as out:
        for names, scheme in SETS:
            for how in ("close", "close", "close", "far", "far", "same", "none"):
                texts = draw(names, rng, how)
                words = [[[names[i] for i in side] for side in text] for text in texts]
                wanted = figures([w[0] for w in words], [w[1] for w in words], scheme)
                out.write("tags " + " ".join(names) + "\n")
                for truth, said in texts:
                    out.write("truth " + " ".join(map(str, truth)) + "\nsaid " + " ".join(map(str, said)) + "\n")
                out.write("want " + " ".join(f"{k} {v:.17g}" for k, v in wanted.items()) + "\n")
                count += 1
    print(count, "cases")


if __name__ == "__main__":
    main()
