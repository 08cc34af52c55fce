#!/usr/bin/env python3
"""All of scikit-learn's own checks of an estimator, on FtengineClassifier and FtengineRegressor, and the list of those that fail, with reasons: another
one that fails, and one that has come to pass, is told. The checks know tables of numbers alone, so a row is made a text, a number a word; what they say
of columns is asked too, and fails by nature. Run as a program with --table it prints every check."""
# ctest: label=full_size sanitize=leave

import os
import sys
import tempfile
import unittest
import warnings
from collections import Counter
from pathlib import Path

import wheel_site

try:
    import numpy
    import sklearn
    from sklearn.utils.estimator_checks import check_estimator
except ImportError:
    print("skipped: no scikit-learn")
    sys.exit(77)
if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 6):
    print(f"skipped: scikit-learn {sklearn.__version__} does not tell what failed")
    sys.exit(77)

SOURCE = Path(os.environ["SOURCE_DIR"])
folder = tempfile.TemporaryDirectory(prefix="ftengine-sklearn-")
os.environ.update(XDG_CACHE_HOME=f"{folder.name}/cache", FTENGINE_LEDGER_DIR=f"{folder.name}/ledger")
wheel_site.use()

from ftengine.sklearn import FtengineClassifier, FtengineRegressor  # noqa: E402

WORDS = "apple bake bass bridge cello coast drum ferry flute garlic hotel island lemon museum opera train".split()
SMALL = {"model": SOURCE / "tests/vectors/trainer/model", "learning_rate": 3e-3, "epochs": 8, "threads": 1,
         "options": {"max_length": 16, "hidden_dropout": 0, "attention_dropout": 0, "classifier_dropout": 0}}  # fmt: skip


class Rows:
    """What the checks know are tables: a row is a text, a number a word. All else is the estimator's own."""

    validated = True  # whether the checks of columns are asked, too

    @staticmethod
    def _texts(X):
        array = None if hasattr(X, "toarray") else numpy.asarray(X)
        if array is None or array.ndim != 2 or array.dtype.kind in "USc":
            return FtengineClassifier._texts(X)
        places = numpy.clip(numpy.nan_to_num(array.astype(float)) * 2 + 8, 0, 15).astype(int)
        return FtengineClassifier._texts([" ".join(WORDS[place] for place in row) for row in places])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array = True, False
        tags.no_validation = not self.validated
        return tags


class ClassifierOfRows(Rows, FtengineClassifier):
    pass


class RegressorOfRows(Rows, FtengineRegressor):
    pass


class ClassifierOfFreeRows(ClassifierOfRows):
    validated = False


class RegressorOfFreeRows(RegressorOfRows):
    validated = False


COLUMNS = "a text has no columns to count"
EXCEPTIONS = {
    "check_n_features_in": COLUMNS,
    "check_n_features_in_after_fitting": COLUMNS,
    "check_fit2d_predict1d": COLUMNS,
    "check_fit1d": "texts are one-dimensional",
    "check_complex_data": "a text is no number: there are no complex ones",
    "check_estimators_nan_inf": "a text is no number: it cannot be infinite",
    "check_estimators_empty_data_messages": COLUMNS + "; no texts at all are refused",
    "check_classifiers_train": COLUMNS + ": another number of them is no error; passes with the tag no_validation",
}


def results(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_estimator(estimator, on_fail=None, on_skip=None)



class Checks(unittest.TestCase):
    def hold(self, rows, free):
        for kind, estimator, expected in (("rows", rows, set(EXCEPTIONS)), ("without columns", free, set())):
            found = results(estimator)
            failed = {result["check_name"]: repr(result["exception"])[:300] for result in found if result["status"] == "failed"}
            asked = {result["check_name"] for result in found}
            self.assertEqual(set(failed) - expected, set(), f"{kind}: {failed}")
            self.assertEqual((expected & asked) - set(failed), set(), f"{kind}: these pass now")
            self.assertGreater(len(found), 40)
            print(f"{type(estimator).__name__}: {dict(Counter(result['status'] for result in found))} of {len(found)}")

    def test_classifier(self):
        self.hold(ClassifierOfRows(**SMALL), ClassifierOfFreeRows(**SMALL))

    def test_regressor(self):
        self.hold(RegressorOfRows(**SMALL), RegressorOfFreeRows(**SMALL))

    def test_as_they_are(self):
        for estimator in (FtengineClassifier(**SMALL), FtengineRegressor(**SMALL)):
            self.assertEqual([result["status"] for result in results(estimator)], ["passed"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        for estimator in (ClassifierOfRows(**SMALL), RegressorOfRows(**SMALL), ClassifierOfFreeRows(**SMALL), RegressorOfFreeRows(**SMALL)):
            for result in results(estimator):
                print(type(estimator).__name__, result["status"], result["check_name"], repr(result["exception"])[:200] if result["exception"] else "", flush=True)
    else:
        unittest.main()
