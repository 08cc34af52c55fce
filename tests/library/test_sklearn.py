#!/usr/bin/env python3
"""The estimators in scikit-learn's hands: score, probabilities, clone, pickle, pipelines, a grid search in two processes, and what may not be fitted."""
# ctest: sanitize=leave

import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import wheel_site

try:
    import numpy
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
except ImportError:
    print("skipped: no scikit-learn")
    sys.exit(77)

SOURCE = Path(os.environ["SOURCE_DIR"])
TRAINER = SOURCE / "tests/vectors/trainer"
folder = tempfile.TemporaryDirectory(prefix="ftengine-sklearn-")
os.environ.update(XDG_CACHE_HOME=f"{folder.name}/cache", FTENGINE_LEDGER_DIR=f"{folder.name}/ledger")
wheel_site.use()

from ftengine import FtengineClassifier, FtengineRegressor  # noqa: E402 - which are those of ftengine.sklearn


def rows(name):
    with open(TRAINER / name, encoding="utf-8") as lines:
        return [list(column) for column in zip(*(line.rstrip("\n").split("\t") for line in list(lines)[1:]))]


TEXTS, LABELS = rows("train.tsv")
NEW, TRUE = rows("validation.tsv")
SMALL = {"model": TRAINER / "model", "learning_rate": 3e-3, "epochs": 12, "threads": 1, "options": {"max_length": 24, "hidden_dropout": 0}}


class Estimators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fitted = FtengineClassifier(**SMALL).fit(TEXTS, LABELS)

    def test_classifier(self):
        c = self.fitted
        self.assertTrue(is_classifier(c) and not is_regressor(c))
        self.assertEqual(list(c.classes_), ["food", "music", "travel"])
        self.assertGreater(c.score(NEW, TRUE), 0.7)
        probabilities = c.predict_proba(NEW)
        self.assertEqual(probabilities.shape, (len(NEW), 3))
        numpy.testing.assert_allclose(probabilities.sum(axis=1), 1)
        numpy.testing.assert_array_equal(c.classes_[probabilities.argmax(axis=1)], c.predict(NEW))
        numpy.testing.assert_array_equal(numpy.vstack([c.predict_proba([t]) for t in NEW[:5]]), probabilities[:5])

    def test_labels_of_any_kind(self):
        for names in ({"food": 30, "music": -1, "travel": 2}, {"food": True, "music": False, "travel": False}):
            c = FtengineClassifier(**SMALL).fit(numpy.array(TEXTS, dtype=object), [names[label] for label in LABELS])
            self.assertEqual(list(c.classes_), sorted(set(names.values())))
            self.assertGreater(c.score(NEW, [names[label] for label in TRUE]), 0.7)

    def test_order_of_classes_is_no_matter_of_names(self):
        same = FtengineClassifier(**SMALL).fit(TEXTS, [{"food": 0, "music": 1, "travel": 2}[label] for label in LABELS])
        numpy.testing.assert_array_equal(same.predict_proba(NEW), self.fitted.predict_proba(NEW))

    def test_pickle_and_clone(self):
        again = pickle.loads(pickle.dumps(self.fitted))
        numpy.testing.assert_array_equal(again.predict_proba(NEW), self.fitted.predict_proba(NEW))
        path = Path(folder.name) / "fitted.pickle"
        path.write_bytes(pickle.dumps(self.fitted))
        script = f"import pickle; print(pickle.load(open({str(path)!r}, 'rb')).predict({NEW[:3]!r}).tolist())"
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/").stdout
        self.assertEqual(said.strip(), str(self.fitted.predict(NEW[:3]).tolist()))
        empty = clone(self.fitted)
        self.assertEqual(empty.get_params(), self.fitted.get_params())
        with self.assertRaises(NotFittedError):
            empty.predict(NEW)
        numpy.testing.assert_array_equal(empty.fit(TEXTS, LABELS).predict_proba(NEW), self.fitted.predict_proba(NEW))

    def test_grid_search_and_pipeline(self):
        search = GridSearchCV(FtengineClassifier(**SMALL), {"learning_rate": [1e-6, 3e-3]}, cv=2, n_jobs=2).fit(TEXTS, LABELS)
        self.assertEqual(search.best_params_, {"learning_rate": 3e-3})
        pipeline = make_pipeline(FunctionTransformer(lambda texts: [text.lower() for text in texts]), clone(self.fitted))
        self.assertGreater(pipeline.fit(TEXTS, LABELS).score(NEW, TRUE), 0.7)

    def test_class_weights(self):
        options = {**SMALL, "epochs": 1}
        plain = FtengineClassifier(**options).fit(TEXTS, LABELS).predict_proba(NEW)
        ones = FtengineClassifier(class_weights={"food": 1.0}, **options).fit(TEXTS, LABELS).predict_proba(NEW)
        heavy = FtengineClassifier(class_weights={"music": 50.0}, **options).fit(TEXTS, LABELS).predict_proba(NEW)
        numpy.testing.assert_allclose(plain, ones, atol=1e-6)  # weighted, its loss is added up in another way
        self.assertGreater(heavy[:, 1].mean(), plain[:, 1].mean())

    def test_regressor(self):
        numbers = [float(label == "food") for label in LABELS]
        options = {**SMALL, "epochs": 25}
        r = FtengineRegressor(**options).fit(TEXTS, numbers)
        self.assertTrue(is_regressor(r) and not is_classifier(r))
        self.assertGreater(r.score(TEXTS, numbers), 0.5)

    def test_what_is_refused(self):
        c = FtengineClassifier(**SMALL)
        for texts, labels, text in ((TEXTS[:3], ["a", "a", "a"], "one class"), (TEXTS[:3], [0.1, 0.2, 0.3], "Unknown label type"),
                                    (TEXTS[:3], ["a", "b"], "inconsistent"), ([], [], "0 sample"), (TEXTS[:3], None, "None")):  # fmt: skip
            with self.assertRaisesRegex(ValueError, text):
                c.fit(texts, labels)
        with self.assertRaisesRegex(TypeError, "no str"):
            c.fit([1, 2, 3], ["a", "b", "a"])
        with self.assertRaises(ValueError):
            FtengineRegressor(**SMALL).fit(TEXTS[:2], [1.0, float("nan")])


if __name__ == "__main__":
    unittest.main()
