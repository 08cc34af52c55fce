"""What a study holds, as text: the same as dump_study() in tests/hpo/study_dump.h prints. Used by make_study_db.py and
check_storage.py."""
import json

from optuna.distributions import CategoricalDistribution, IntDistribution


def number(value):
    return "%.17g" % value


def scalar(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "float " + number(value)
    return json.dumps(value)


def distribution(d):
    if isinstance(d, CategoricalDistribution):
        return "choices " + " | ".join(scalar(c) for c in d.choices)
    kind = "int" if isinstance(d, IntDistribution) else "float"
    return f"{kind} {number(d.low)} {number(d.high)} step {number(d.step or 0)} log {int(d.log)}"


def attributes(indent, word, attrs):
    return [f"{indent}{word} {key} = {json.dumps(attrs[key])}" for key in sorted(attrs, key=lambda k: k.encode())]


def dump(study):
    out = [f"study {study.study_name}", "directions " + " ".join(d.name for d in study.directions)]
    out += attributes("", "user", study.user_attrs)
    out += attributes("", "system", study._storage.get_study_system_attrs(study._study_id))
    for t in study.trials:
        out.append(f"trial {t.number} {t.state.name}")
        for time in (t.datetime_start, t.datetime_complete):
            out.append("  time " + (str(round(time.astimezone().timestamp() * 1000000)) if time else "-1"))
        for value in t.values or []:
            out.append("  value " + number(value))
        for name, value in t.params.items():
            d = t.distributions[name]
            out.append(f"  param {name} {number(d.to_internal_repr(value))} {distribution(d)}")
        for step in sorted(t.intermediate_values):
            out.append(f"  report {step} {number(t.intermediate_values[step])}")
        for name, value in sorted(t.constraints.items()):
            out.append(f"  constraint {name} {number(value)}")
        rung = 0
        while f"completed_rung_{rung}" in t.system_attrs:
            out.append(f"  rung {number(t.system_attrs[f'completed_rung_{rung}'])}")
            rung += 1
        out += attributes("  ", "user", t.user_attrs) + attributes("  ", "system", t.system_attrs)
    return "\n".join(out) + "\n"
