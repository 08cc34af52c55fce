#!/usr/bin/env python3
"""Figures of the order of a query's documents, with ties: nDCG of scikit-learn's ndcg_score, MAP of its label_ranking_average_precision_score, the
others by definition, each document at the last place of its equals. make_ranking_vectors.py > queries.json (scikit-learn 1.9.1, numpy)."""
import json
import os

import numpy as np
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score


def places(score):
    return np.array([int((score >= s).sum()) for s in score])


def figures(score, relevance):
    relevant, at = relevance > 0, places(score)
    if not relevant.any():
        return dict.fromkeys(["mrr", "mrr_10", "map", "ndcg", "ndcg_5", "ndcg_10", "recall_1", "recall_5", "recall_10", "recall_100"], 0.0)
    ndcg = lambda k: 1.0 if len(score) == 1 else ndcg_score([relevance], [score], k=k)
    best = at[relevant].min()
    out = {"mrr": 1 / best, "mrr_10": 1 / best if best <= 10 else 0.0,
           "map": label_ranking_average_precision_score([relevant.astype(int)], [score]) if len(score) > 1 else 1.0,
           "ndcg": ndcg(None), "ndcg_5": ndcg(5), "ndcg_10": ndcg(10)}
    for k in (1, 5, 10, 100):
        out[f"recall_{k}"] = float((at[relevant] <= k).sum() / relevant.sum())
    return {k: float(v) for k, v in out.items()}


def main():
    random = np.random.default_rng(5)
    cases = []
    for case in range(120):
        n = int(random.choice([1, 2, 3, 5, 6, 10, 11, 25, 130]))
        levels = int(random.choice([1, 2, 4, 1000]))  # few levels: many ties
        score = (random.integers(0, levels, n) - levels // 2) / 8
        grades = [[0, 1], [0, 0.25, 0.5, 1], [0], [1], [0, 0, 0, 0, 0, 0, 1]][case % 5]
        relevance = random.choice(grades, n)
        cases.append({"score": score.tolist(), "relevance": relevance.tolist(), "expect": figures(score, relevance)})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "queries.json"), "w", encoding="utf-8") as f:
        json.dump({"cases": cases}, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
