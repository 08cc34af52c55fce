"""This project's search as a sampler of Optuna, for any objective:

    import optuna
    from ftengine.optuna import Sampler
    optuna.create_study(sampler=Sampler(seed=7)).optimize(objective, n_trials=1000)

What it suggests is a function of its options, the seed, the trial's number and the trials that have ended or run: the same seed gives the same
study, also after a stop and in another process.
"""

from __future__ import annotations

import json
import math
import os
import threading
import weakref
from ctypes import Structure, byref, c_byte, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p, sizeof
from ctypes import POINTER
from typing import Any, Callable, Mapping, Optional, Sequence

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.samplers._base import _process_constraints_after_trial
from optuna.trial import FrozenTrial, TrialState

from ._library import Engine, strings
from ._options import table, words_of

__all__ = ["Sampler"]

_CONSTRAINTS = "constraints"
_RUNNING, _COMPLETE, _PRUNED, _FAIL, _WAITING = (int(state) for state in
                                                 (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.WAITING))  # fmt: skip


class _Trial(Structure):
    _fields_ = [
        ("size", c_size_t), ("number", c_int64), ("state", c_int), ("parameter_count", c_int), ("parameters", POINTER(c_int)),
        ("parameter_values", POINTER(c_double)), ("value_count", c_int), ("values", POINTER(c_double)), ("constraint_count", c_int),
        ("constraints", POINTER(c_double)), ("step", c_int64), ("reported", c_double),
    ]  # fmt: skip


_FUNCTIONS = {
    "new": [c_void_p, c_int, POINTER(c_byte), c_int, POINTER(c_char_p), POINTER(c_void_p)], "close": [c_void_p],
    "parameter": [c_void_p, c_char_p, c_char_p, POINTER(c_int)], "tell": [c_void_p, POINTER(_Trial)],
    "draw": [c_void_p, c_int64, POINTER(c_int), POINTER(POINTER(c_int)), POINTER(POINTER(c_double))],
    "suggest": [c_void_p, c_int64, c_int, POINTER(c_double)],
}  # fmt: skip


def _key(name: str, distribution: BaseDistribution) -> Any:
    """What tells a parameter with its range from others; quicker than a distribution's own hash."""
    if isinstance(distribution, CategoricalDistribution):
        return name, repr(distribution.choices)
    d: Any = distribution
    return name, d.__class__, d.low, d.high, d.step, d.log


def _text(distribution: BaseDistribution) -> bytes:
    """As Optuna writes it. Choices that are no scalars are told apart by their place."""
    attributes = dict(distribution._asdict())
    if isinstance(distribution, CategoricalDistribution):
        attributes["choices"] = [c if c is None or type(c) in (bool, int, float, str) else f"choice {i}" for i, c in enumerate(distribution.choices)]
    return json.dumps({"name": distribution.__class__.__name__, "attributes": attributes}).encode()


def _external(distribution: BaseDistribution, value: float) -> Any:
    if isinstance(distribution, FloatDistribution):
        low, high = distribution.low, distribution.high
        return low if value < low else high if value > high else value
    return int(value) if isinstance(distribution, IntDistribution) else distribution.to_external_repr(value)


def _violations(trial: FrozenTrial) -> dict[str, float]:
    """Constraints by name; those of a constraints_func are called by their place."""
    found: dict[str, float] = {}
    for key, value in trial.system_attrs.items():
        if key == _CONSTRAINTS:
            found.update({str(i): float(v) for i, v in enumerate(value or ())})
        elif key.startswith(_CONSTRAINTS + ":"):
            found[key[len(_CONSTRAINTS) + 1 :]] = float(value)
    return found


def _close(engine: Engine, handle: c_void_p) -> None:
    if engine.lib.ftengine_sampler_close(handle) >= 0:  # busy: the program ends while a thread still uses it
        engine.close()


class _Mirror:
    """A study as libftengine knows it. Only what is new is told."""

    def __init__(self, words: Sequence[str], maximize: Sequence[bool]):
        self.engine, self.handle = Engine(), c_void_p()
        lib = self.engine.lib
        self.calls = {name: getattr(lib, f"ftengine_sampler_{name}") for name in _FUNCTIONS}
        self._tell, self._draw, self._suggest = self.calls["tell"], self.calls["draw"], self.calls["suggest"]
        for name, arguments in _FUNCTIONS.items():
            self.calls[name].restype, self.calls[name].argtypes = c_int, arguments
        directions = (c_byte * len(maximize))(*maximize)
        self._check(self.calls["new"](self.engine.handle, len(maximize), directions, len(words), strings(words), byref(self.handle)))
        self.close = weakref.finalize(self, _close, self.engine, self.handle)
        self.objectives = len(maximize)
        self.count = 0  # trials that were told
        self.open: dict[int, set[str]] = {}  # of them, those that have not ended, with the parameters that were told
        self.waiting: set[int] = set()
        self.parameters: list[tuple[str, BaseDistribution]] = []
        self._numbers: dict[Any, int] = {}
        self._constraints: dict[str, int] = {}
        self._drawn: dict[str, tuple[int, BaseDistribution]] = {}  # of the latest trial that was drawn
        # What calls write to and read from, made once: a call takes a microsecond, and ctypes' objects would take several.
        self._value, self._count = c_double(), c_int()
        self._parameters, self._values = POINTER(c_int)(), POINTER(c_double)()
        self._out = byref(self._count), byref(self._parameters), byref(self._values)
        self._told = _Trial(size=sizeof(_Trial))
        self._by_value, self._by_told = byref(self._value), byref(self._told)
        self._make_room(8)

    def _make_room(self, count: int) -> None:
        """For so many parameters of a trial that is told."""
        self._room, self._ids, self._numbers_of = count, (c_int * count)(), (c_double * count)()
        self._told.parameters, self._told.parameter_values = self._ids, self._numbers_of

    def _check(self, code: int) -> None:
        if code != 0:
            raise self.engine.error(code)

    def number(self, name: str, distribution: BaseDistribution) -> int:
        key = _key(name, distribution)
        number = self._numbers.get(key)
        if number is None:
            out = c_int()
            self._check(self.calls["parameter"](self.handle, name.encode(), _text(distribution), byref(out)))
            number = self._numbers[key] = out.value
            while len(self.parameters) <= number:
                self.parameters.append((name, distribution))
        return number

    # ---- what is told

    def _ended(self, told: _Trial, trial: FrozenTrial, state: int) -> None:
        values = trial.values if state in (_COMPLETE, _PRUNED) else None
        if values is not None and True in map(math.isnan, values):
            values = None
        if state == _PRUNED and self.objectives > 1:
            values = None
        if state == _COMPLETE and values is None:
            told.state = _FAIL
        if values is not None:
            told.value_count, told.values = len(values), (c_double * len(values))(*values)
        if state == _PRUNED and trial.last_step is not None:
            told.step, told.reported = max(trial.last_step, 0), trial.intermediate_values[trial.last_step]
        violations = _violations(trial)
        if violations:
            for name in violations:
                self._constraints.setdefault(name, len(self._constraints))
            row = [0.0] * len(self._constraints)
            for name, violation in violations.items():
                row[self._constraints[name]] = violation
            told.constraint_count, told.constraints = len(row), (c_double * len(row))(*row)

    def tell(self, trial: FrozenTrial) -> None:
        number, state, params = trial.number, int(trial.state), trial.params
        known = self.open.get(number)
        if known is None:
            if number < self.count:
                return
            new = list(params)
        else:
            new = [] if len(params) == len(known) else [name for name in params if name not in known]
            if not new and (state == _WAITING or state == _RUNNING and number not in self.waiting):
                return
        told = self._told
        told.number, told.state, told.step, told.parameter_count = number, state, -1, len(new)
        told.value_count = told.constraint_count = 0
        if new:
            if len(new) > self._room:
                self._make_room(2 * len(new))
            distributions = trial.distributions
            for i, name in enumerate(new):
                distribution = distributions[name]
                self._ids[i], self._numbers_of[i] = self.number(name, distribution), distribution.to_internal_repr(params[name])
        ended = state not in (_RUNNING, _WAITING)
        if ended:
            self._ended(told, trial, state)
        code = self._tell(self.handle, self._by_told)
        if code != 0:
            raise self.engine.error(code)
        if number >= self.count:
            self.count = number + 1
        if state == _WAITING:
            self.waiting.add(number)
        elif self.waiting:
            self.waiting.discard(number)
        if ended:
            if known is not None:
                del self.open[number]
        elif known is None:
            self.open[number] = set(new)
        else:
            known.update(new)

    def catch_up(self, trials: Sequence[FrozenTrial]) -> None:
        for number in list(self.open):
            self.tell(trials[number])
        for i in range(self.count, len(trials)):
            self.tell(trials[i])

    # ---- what is asked

    def drawn(self, number: int) -> dict[str, BaseDistribution]:
        code = self._draw(self.handle, number, *self._out)
        if code != 0:
            raise self.engine.error(code)
        self._drawn = {}
        for which in self._parameters[: self._count.value]:
            name, distribution = self.parameters[which]
            self._drawn[name] = which, distribution
        return {name: drawn[1] for name, drawn in self._drawn.items()}

    def suggest(self, number: int, name: str, distribution: BaseDistribution) -> Any:
        drawn = self._drawn.get(name)
        which = drawn[0] if drawn is not None and drawn[1] is distribution else self.number(name, distribution)
        code = self._suggest(self.handle, number, which, self._by_value)
        if code != 0:
            raise self.engine.error(code)
        return _external(distribution, self._value.value)


class Sampler(BaseSampler):
    """The sampler of `ftengine tune`.

    kind: tpe, gp (a Gaussian process, one objective), cmaes (CMA-ES, one objective), auto (gp for up to 250 trials of up to 20 parameters,
    else tpe), random or quasi_random (also called qmc).
    seed: None takes one at random. constraints_func: as for Optuna's samplers; Trial.set_constraint is heard, too. options: those of [study] that
    are about suggesting, by their names or Optuna's: startup_trials, candidates, group, constant_liar, bandwidth, ...

    Several threads may share one (n_jobs), and several processes a study: values differ from trial to trial by its number, so nothing has to be
    seeded anew. With Optuna's Hyperband it learns from the trials of all brackets."""

    def __init__(self, kind: str = "tpe", *, seed: Optional[int] = None,
                 constraints_func: Optional[Callable[[FrozenTrial], Sequence[float]]] = None, **options: Any):  # fmt: skip
        self.kind = kind
        self.seed = int.from_bytes(os.urandom(4), "little") if seed is None else int(seed)
        self.constraints_func = constraints_func
        self.options = dict(options)
        given: dict[str, Any] = {"study.sampler": kind, "study.seed": self.seed}
        for name, value in options.items():
            full = f"study.{name}"
            given[full if full in table() else name] = value
        self._words = words_of(given)
        self._renew()
        _Mirror(self._words, [False]).close()  # what cannot be meant is said here

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._mirror: Optional[_Mirror] = None
        self._study: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("_lock", "_mirror", "_study"):
            del state[name]
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew()

    def __repr__(self) -> str:
        return f"Sampler({self.kind!r}, seed={self.seed})"

    def _of(self, study: Any, trial: FrozenTrial, all_of_it: bool) -> _Mirror:
        """What is known of the study, with this trial in it; all_of_it: with all that has happened."""
        storage, mirror = study._storage, self._mirror
        if mirror is None or self._study[0] is not storage or self._study[1] != study._study_id:
            mirror = None
        if mirror is not None and not all_of_it and trial.number in mirror.open:
            mirror.tell(trial)
            return mirror
        trials = storage.get_all_trials(study._study_id, deepcopy=False)  # Hyperband shows a study with gaps
        if mirror is None or mirror.count > len(trials):
            mirror = self._mirror = _Mirror(self._words, [direction.name == "MAXIMIZE" for direction in study.directions])
            self._study = (storage, study._study_id)
        mirror.catch_up(trials)
        if trial.number in mirror.open:
            mirror.tell(trial)
        return mirror

    def infer_relative_search_space(self, study: Any, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        with self._lock:
            return self._of(study, trial, True).drawn(trial.number)

    def sample_relative(self, study: Any, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        if not search_space:
            return {}
        with self._lock:
            mirror = self._of(study, trial, False)
            return {name: mirror.suggest(trial.number, name, distribution) for name, distribution in search_space.items()}

    def sample_independent(self, study: Any, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        with self._lock:
            return self._of(study, trial, False).suggest(trial.number, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Nothing: no two trials have one number."""

    def after_trial(self, study: Any, trial: FrozenTrial, state: TrialState, values: Optional[Sequence[float]]) -> None:
        if self.constraints_func is not None:
            _process_constraints_after_trial(self.constraints_func, study, trial, state)
