#!/usr/bin/env python3
"""Answers from logits, and SQuAD's figures, straight from their published definitions: texts.jsonl and answers.jsonl.

    python tests/vectors/questions/make_answer_vectors.py

texts.jsonl: {"said", "truth", "exact", "f1_1", "f1_2"}: one answer against another, of version 1.1 and of 2.0. Where torchmetrics is installed its
SQuAD metric (which takes empty texts as 2.0 does) has to agree on all of them.
answers.jsonl: questions {"context", "answers": [text], "windows": [{"spans": [[begin, end] in bytes, or null], "logits": [[start, end]]}], "n_best",
"max_length", "text", "odds", "found": [[text, probability]]} and, of every run of them that ends so, {"figures": {threshold: {...}}}: the metrics of
these questions where no answer is said of odds above the threshold.
"""

import collections
import json
import math
import os
import random
import re
import string

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = (
    "the a an The A An cat Cat cats, U.S. don't 1,234.5 é É É\u0301 ΑΣ ΣΑΣ Σ İstanbul ß ẞ a\u0301 the-cat (a) «the» a_b _a an1 の 東京 thé "
    "\u00a0 \u2003 \u3000 . , ' \u2019 🙂 x\u0301 the\u0301 A. … ½ ² Ⅻ x\u200by \u0085 \u001c ǅ ﬁ"
).split(" ")


def plain(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def overlap(said, truth, version):
    said, truth = plain(said).split() if said else [], plain(truth).split() if truth else []
    if version == 2 and (not said or not truth):
        return float(said == truth)
    same = sum((collections.Counter(said) & collections.Counter(truth)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(said), same / len(truth)
    return 2 * precision * recall / (precision + recall)


def equal(said, truth):
    return float(plain(said) == plain(truth))


def texts(rng, out):
    rows = [(w, v) for w in WORDS for v in ("", "the", "a cat", w.lower(), w.upper())]
    for _ in range(700):
        said = [rng.choice(WORDS) for _ in range(rng.randint(0, 6))]
        truth = [w for w in said if rng.random() < 0.7] + [rng.choice(WORDS) for _ in range(rng.randint(0, 2))]
        rng.shuffle(truth)
        rows.append((rng.choice(["", " "]).join(said) if rng.random() < 0.2 else " ".join(said), " ".join(truth)))
    for said, truth in rows:
        out.write(json.dumps({"said": said, "truth": truth, "exact": equal(said, truth), "f1_1": overlap(said, truth, 1),
                              "f1_2": overlap(said, truth, 2)}) + "\n")
    try:
        from torchmetrics.text import SQuAD
    except ImportError:
        print("torchmetrics is not there: not compared")
        return
    for said, truth in rows:
        metric = SQuAD()
        metric.update([{"prediction_text": said, "id": "x"}], [{"answers": {"answer_start": [0], "text": [truth]}, "id": "x"}])
        got = metric.compute()
        assert abs(float(got["exact_match"]) / 100 - equal(said, truth)) < 1e-6, (said, truth)
        assert abs(float(got["f1"]) / 100 - overlap(said, truth, 2)) < 1e-5, (said, truth, got)
    print(f"{len(rows)} pairs as torchmetrics has them")


def largest(column, n):
    """Rows by logit, the largest first, of equal ones the last first."""
    return sorted(range(len(column)), key=lambda i: (-column[i], -i))[:n]


def find(question):
    """What run_qa makes of a question's windows: candidates of each window, the score of row 0, all by score."""
    candidates, none = [], math.inf
    context = question["context"].encode()
    for window in question["windows"]:
        logits = np.array(window["logits"], dtype=np.float32)
        none = min(none, float(logits[0, 0] + logits[0, 1]))
        for s in largest(logits[:, 0], question["n_best"]):
            for e in largest(logits[:, 1], question["n_best"]):
                a, b = window["spans"][s], window["spans"][e]
                if a is None or b is None or e < s or e - s + 1 > question["max_length"] or b[1] <= a[0]:
                    continue
                candidates.append((context[a[0] : b[1]].decode(), float(logits[s, 0] + logits[e, 1])))
    return candidates, none


def decide(question):
    candidates, none = find(question)
    listed = sorted(candidates + [("", none)], key=lambda c: -c[1])
    kept = listed[: question["n_best"]]
    if not any(text == "" for text, _ in kept):
        kept.append(("", none))
    top = max(score for _, score in kept)
    weights = [math.exp(score - top) for _, score in kept]
    best = next((c for c in kept if c[0] != ""), None)
    question["text"] = best[0] if best else None
    question["odds"] = none - (best[1] if best else 0.0)
    question["found"] = [[text, w / sum(weights)] for (text, _), w in zip(kept, weights)]


def figures(questions, version, threshold):
    rows = []
    for q in questions:
        truths = [a for a in q["answers"] if plain(a)] if version == 2 else q["answers"]
        truths = truths or [""]
        said = q["text"] if q["text"] is not None else "empty"
        best = max(equal(said, t) for t in truths), max(overlap(said, t, version) for t in truths)
        none = max(equal("", t) for t in truths), max(overlap("", t, 2) for t in truths)
        rows.append((bool(q["answers"]), best, none if threshold is not None and q["odds"] > threshold else best, q["odds"]))
    mean = lambda values: sum(values) / len(values) if values else None  # noqa: E731
    out = {"exact_match": mean([r[2][0] for r in rows]), "answer_f1": mean([r[2][1] for r in rows])}
    if version == 1:
        return out
    out["has_answer_exact"] = mean([r[2][0] for r in rows if r[0]])
    out["has_answer_f1"] = mean([r[2][1] for r in rows if r[0]])
    out["no_answer_exact"] = mean([r[2][0] for r in rows if not r[0]])
    for k, name in ((0, "best_exact"), (1, "best_f1")):
        # Every threshold that says no answer of none but the n questions of the lowest odds, n from 0 on; 0 where n is 0.
        order = sorted(range(len(rows)), key=lambda i: rows[i][3])
        scores = [sum(rows[i][1][k] if rows[i][0] else 0.0 for i in order[:n]) + sum(not rows[i][0] for i in order[n:]) for n in range(len(rows) + 1)]
        n = max(range(len(rows) + 1), key=lambda i: (round(scores[i], 9), -i))
        out[name], out[name + "_threshold"] = scores[n] / len(rows), rows[order[n - 1]][3] if n else 0.0
    return out


def question(rng, without):
    words = [rng.choice(["the", "fox", "São", "東京", "a", "cat", "dog.", "ran", "İ"]) for _ in range(rng.randint(1, 14))]
    context, spans, at = " ".join(words), [], 0
    for word in words:
        size = len(word.encode())
        spans.append([at, at + size])
        at += size + 1
    windows = []
    step = rng.randint(2, 6)
    for first in range(0, len(spans), step):
        own = [None] * rng.randint(2, 4) + spans[first : first + step + 2] + [None]
        ties = rng.random() < 0.2
        logits = [[round(rng.gauss(0, 2), 0 if ties else 6) for _ in range(2)] for _ in own]
        windows.append({"spans": own, "logits": [[float(np.float32(x)) for x in row] for row in logits]})
        if first + step + 2 >= len(spans):
            break
    q = {"context": context, "windows": windows, "n_best": rng.choice([1, 3, 20]), "max_length": rng.choice([1, 3, 30])}
    decide(q)
    answers = []
    if not without:
        for _ in range(rng.randint(1, 3)):
            b = rng.randrange(len(words))
            answers.append(rng.choice([q["text"] or "x", " ".join(words[b : b + 3]), "The " + words[b], "a"]))
    q["answers"] = answers
    return q


def main():
    rng = random.Random(17)
    with open(os.path.join(HERE, "texts.jsonl"), "w", encoding="utf-8") as out:
        texts(rng, out)
    with open(os.path.join(HERE, "answers.jsonl"), "w", encoding="utf-8") as out:
        for version in (1, 2, 2, 2):
            questions = [question(rng, version == 2 and rng.random() < 0.4) for _ in range(60)]
            if version == 2:
                questions[0]["answers"] = []
            for q in questions:
                out.write(json.dumps(q, separators=(",", ":")) + "\n")
            thresholds = [None] if version == 1 else [None, 0.0, -1.5, 2.25]
            out.write(json.dumps({"figures": {str(t): figures(questions, version, t) for t in thresholds}}) + "\n")


if __name__ == "__main__":
    main()
