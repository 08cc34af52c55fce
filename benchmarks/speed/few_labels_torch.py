"""The rivals of few_labels.py, a process each; a line of JSON with their accuracy and their seconds of processor time.

    few_labels_torch.py distill   --model DIRECTORY --output DIRECTORY             a static model (model2vec) of the encoder
    few_labels_torch.py model2vec --model DIRECTORY --train FILE --test FILE       a static model and logistic regression
    few_labels_torch.py vectors   --vectors FILE.npy --train FILE --test FILE      logistic regression on vectors that others made (train, then test)
    few_labels_torch.py setfit    --model DIRECTORY --train FILE --test FILE --seed N --iterations N

Seconds are of all threads: start (Python and its packages), train (from the model's files to one that predicts), judge (the test file).
"""

import argparse
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import label_names, read_tsv  # noqa: E402

MAX_LENGTH = 128


class Clock:
    """Processor seconds since the one before."""

    def __init__(self):
        self.at, self.seconds = 0.0, {}

    def lap(self, name):
        now = time.process_time()
        self.seconds[name] = now - self.at
        self.at = now


def read(options):
    train, test = read_tsv(options.train), read_tsv(options.test)
    ids = {name: i for i, name in enumerate(label_names([label for _, label in train]))}
    return [t for t, _ in train], [ids[l] for _, l in train], [t for t, _ in test], [ids[l] for _, l in test]


def share(predicted, labels):
    return sum(int(p) == l for p, l in zip(predicted, labels)) / len(labels)


def distill(options, clock):
    from model2vec.distill import distill as make

    clock.lap("start")
    model = make(model_name=options.model, device="cpu")
    model.save_pretrained(options.output)
    clock.lap("train")
    return {"dimensions": int(model.dim), "tokens": len(model.tokens)}


def regression(train, labels, test, test_labels, clock):
    from sklearn.linear_model import LogisticRegression

    head = LogisticRegression(max_iter=1000).fit(train, labels)
    clock.lap("train")
    vectors = test()
    accuracy = share(head.predict(vectors), test_labels)
    clock.lap("judge")
    return {"accuracy": accuracy}


def model2vec(options, clock):
    from model2vec import StaticModel
    import sklearn.linear_model  # noqa: F401

    clock.lap("start")
    train, labels, test, test_labels = read(options)
    model = StaticModel.from_pretrained(options.model)
    return regression(model.encode(train), labels, lambda: model.encode(test), test_labels, clock)


def vectors(options, clock):
    import numpy
    import sklearn.linear_model  # noqa: F401

    clock.lap("start")
    _, labels, _, test_labels = read(options)
    made = numpy.load(options.vectors)
    assert len(made) == len(labels) + len(test_labels)
    return regression(made[: len(labels)], labels, lambda: made[len(labels) :], test_labels, clock)


def setfit(options, clock):
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from setfit import SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression

    torch.set_num_threads(1)
    clock.lap("start")
    train, labels, test, test_labels = read(options)
    # The modules of all-MiniLM-L6-v2 as it is published.
    body = Transformer(options.model, max_seq_length=MAX_LENGTH)
    model = SetFitModel(
        model_body=SentenceTransformer(modules=[body, Pooling(body.get_embedding_dimension(), pooling_mode="mean"), Normalize()], device="cpu"),
        model_head=LogisticRegression(max_iter=1000),
    )
    with tempfile.TemporaryDirectory() as directory:
        args = TrainingArguments(
            output_dir=directory,
            batch_size=16,
            num_epochs=1,
            num_iterations=options.iterations,
            seed=options.seed,
            save_strategy="no",
            report_to="none",
            show_progress_bar=False,
        )
        Trainer(model=model, args=args, train_dataset=Dataset.from_dict({"text": train, "label": labels})).train()
    clock.lap("train")
    accuracy = share(model.predict(test), test_labels)
    clock.lap("judge")
    return {"accuracy": accuracy}


def main():
    parser = argparse.ArgumentParser()
    methods = {f.__name__: f for f in (distill, model2vec, vectors, setfit)}
    parser.add_argument("method", choices=methods)
    parser.add_argument("--model")
    parser.add_argument("--output")
    parser.add_argument("--vectors")
    parser.add_argument("--train")
    parser.add_argument("--test")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=20)
    options = parser.parse_args()
    clock = Clock()
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is none of the answer
    result = methods[options.method](options, clock)
    out.write(json.dumps(result | {"seconds": clock.seconds}) + "\n")


if __name__ == "__main__":
    main()
