"""Which methods run on which problems, with which options: read from `grids/<experiment>.yaml`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from covshift.exceptions import MissingExtraError
from covshift.experiments.contract import Draw, Fitted, Spec

__all__ = ["Experiment", "choose", "found", "load_experiment", "load_yaml", "method_function", "problem_function"]

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Experiment:
    """Methods x problems x seeds 0..trials-1."""

    name: str
    methods: tuple[Spec, ...]
    problems: tuple[Spec, ...]
    trials: int

    def settings(self) -> dict[str, Any]:
        """What decides the numbers, as JSON."""
        return {
            "experiment": self.name,
            "trials": self.trials,
            "methods": {s.name: {"file": s.file, **s.options} for s in self.methods},
            "problems": {s.name: {"file": s.file, **s.options} for s in self.problems},
        }


def found(kind: str) -> list[str]:
    """File names, without ending, of all methods or all problems ("methods" or "problems")."""
    return sorted(path.stem for path in (HERE / kind).glob("*.py") if not path.stem.startswith("_"))


def method_function(file: str) -> Callable[..., Fitted]:
    """`fit` of a method's file."""
    return _module("methods", file).fit


def problem_function(file: str) -> Callable[..., Draw]:
    """`draw` of a problem's file."""
    return _module("problems", file).draw


def _module(kind: str, file: str) -> ModuleType:
    return importlib.import_module(f"covshift.experiments.{kind}.{file}")


def load_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as a dict; the error names the extra where YAML is not installed."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError(
            "the experiments' settings are YAML files, and PyYAML is not installed: pip install 'covshift[reproduce]'"
        ) from error
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def load_experiment(
    name: str,
    *,
    trials: int | None = None,
    methods: Sequence[str] | None = None,
    problems: Sequence[str] | None = None,
) -> Experiment:
    """The experiment as its YAML file says, or the part of it that is asked for.

    Parameters
    ----------
    name : "toy", "benchmark" or "panel"
    trials : seeds 0..trials-1; None: the file's number
    methods, problems : printed names, or names of files that the YAML file does not mention; None: all of the file
    """
    grid = load_yaml(HERE / "grids" / f"{name}.yaml")
    known_methods = [_spec(key, value) for key, value in grid["methods"].items()]
    known_problems = [s for key, value in grid["problems"].items() for s in _members(_spec(key, value))]
    return Experiment(
        name=name,
        methods=choose("method", methods, known_methods, found("methods")),
        problems=choose("data set", problems, known_problems, _single_problems()),
        trials=int(grid["trials"]) if trials is None else trials,
    )


def choose(what: str, names: Iterable[str] | None, known: Sequence[Spec], files: Sequence[str]) -> tuple[Spec, ...]:
    """The specs of these names, in the order of `known`; a file that `known` does not use goes by its own name."""
    if names is None:
        return tuple(known)
    used = {spec.file for spec in known}
    candidates = [*known, *(Spec(file, file) for file in files if file not in used)]
    options = [spec.name for spec in candidates]
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in options:
            near = [option for option in options if option.startswith(name)]
            near = near or difflib.get_close_matches(name, options, n=1, cutoff=0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown {what} {name!r}{hint} (there are {', '.join(map(repr, options))})")
    return tuple(spec for spec in candidates if spec.name in wanted)


def _spec(name: str, value: Mapping[str, Any] | None) -> Spec:
    options = {key: _number_grid(v) for key, v in (value or {}).items()}
    return Spec(name, options.pop("file", name), options)


def _single_problems() -> list[str]:
    return [file for file in found("problems") if not hasattr(_module("problems", file), "members")]


def _members(spec: Spec) -> list[Spec]:
    """A file with `members()` stands for all of them; they get their name as an option."""
    module = _module("problems", spec.file)
    if not hasattr(module, "members"):
        return [spec]
    return [
        replace(spec, name=name, options={"name": name, **spec.options}, columns=columns)
        for name, columns in module.members().items()
    ]


def _number_grid(value: Any) -> Any:
    """`{logspace: [-3, 0, 7]}` and `{geomspace: [.1, 2, 9]}` as lists of numbers; everything else as it is."""
    makers: dict[str, Callable[..., np.ndarray]] = {"logspace": np.logspace, "geomspace": np.geomspace}
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in makers:
        ((kind, (low, high, count)),) = value.items()
        return [float(f"{number:.12g}") for number in makers[kind](low, high, count)]
    return value
