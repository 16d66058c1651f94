"""Who may import whom, what is public, and what `import covshift` must not load."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import covshift

PACKAGE = Path(covshift.__file__).parent
GROUND = {"exceptions", "_checks"}
# What each part may import besides itself; a part that is not listed here may not exist.
ALLOWED = {
    "exceptions": set(),
    "_checks": {"exceptions"},
    "blocks": GROUND,
    "losses": GROUND,
    "basis": GROUND,
    "_split": GROUND,
    "_learner": GROUND,
    "ratio": GROUND | {"basis", "blocks", "_split", "_learner"},
    "theory": GROUND | {"losses", "basis"},
    "weighting": GROUND | {"losses", "basis", "blocks", "ratio", "_split", "_learner", "theory"},
    "onestep": GROUND | {"losses", "basis", "blocks", "ratio", "_split", "_learner", "theory"},
    "selection": GROUND | {"losses", "ratio", "weighting", "onestep", "_split", "_learner"},
    "model_selection": GROUND | {"selection"},
    "datasets": GROUND,
    "diagnostics": GROUND,
    "nn": GROUND | {"losses"},
    "plots": GROUND,
}
# May import anything, and nothing else imports them.
LEAVES = {"experiments", "cli", "__main__", "__init__"}
NEVER_IMPORTED = {"nn", "plots", "experiments", "cli", "__main__"}
OPTIONAL = {"torch", "matplotlib", "pandas", "dask", "yaml", "polars", "pyarrow", "safetensors", "skops"}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(tree: ast.AST, path: Path):
    """(full module name, whether at module level) of every import; relative ones are resolved."""
    top = {id(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)}
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    checking = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    package = ["covshift", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if id(node) not in top or id(node) in checking:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module or ""]))
            # `from covshift import x` may name a part
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "covshift" else [module]
        for name in names:
            yield name, id(node) not in inside


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_directions(path):
    part = part_of(path)
    if part in LEAVES and part != "__init__":
        return
    for name, _ in imports(ast.parse(path.read_text()), path):
        pieces = name.split(".")
        if pieces[0] != "covshift" or len(pieces) == 1:
            continue
        other = pieces[1]
        if other == part or not ((PACKAGE / other).exists() or (PACKAGE / f"{other}.py").exists()):
            continue
        assert other not in NEVER_IMPORTED, f"{path.name} imports covshift.{other}, which nothing may import"
        if part == "__init__":
            continue
        assert part in ALLOWED, f"covshift/{part} has no line in the list of allowed directions"
        assert other in ALLOWED[part], f"{part} may not import {other} ({path.relative_to(PACKAGE)})"


def test_the_list_has_no_line_for_what_is_gone():
    parts = {part_of(path) for path in modules()} | {"diagnostics", "plots"}  # diagnostics, plots: not written yet
    assert set(ALLOWED) - parts == set()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_optional_packages_are_not_imported_at_module_level(path):
    if part_of(path) == "nn" or path.is_relative_to(PACKAGE / "experiments" / "images"):
        return  # these need torch, and nothing imports them before it is asked for
    for name, at_top in imports(ast.parse(path.read_text()), path):
        assert not (at_top and name.split(".")[0] in OPTIONAL), f"{path.name} imports {name} at module level"


def public_packages():
    return ["covshift"] + [
        f"covshift.{module.name}"
        for module in pkgutil.iter_modules([str(PACKAGE)])
        if not module.name.startswith("_") and module.name not in ("cli", "nn", "experiments")
    ]


@pytest.mark.parametrize("name", public_packages())
def test_all_is_what_there_is(name):
    module = importlib.import_module(name)
    if not hasattr(module, "__all__"):
        assert not [n for n in vars(module) if n[0].isupper()], f"{name} shows names but has no __all__"
        return
    names = module.__all__
    assert all(isinstance(n, str) for n in names)
    assert len(set(names)) == len(names)
    assert [n for n in names if not hasattr(module, n)] == []
    assert [n for n in names if n.startswith("_") and n != "__version__"] == []


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_loads_nothing_optional_beyond_scikit_learn():
    """scikit-learn may load pandas of its own accord, so it is loaded first and only the difference counts."""
    code = (
        "import sys, sklearn, scipy.optimize, scipy.special, scipy.linalg, scipy.spatial, scipy.stats\n"
        "import sklearn.base, sklearn.model_selection, sklearn.svm, sklearn.linear_model, sklearn.pipeline\n"
        "before = set(sys.modules); import covshift\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    loaded = set(run(code).split())
    assert "covshift" in loaded
    assert loaded & OPTIONAL == set()


def test_importing_the_package_changes_no_global_state():
    code = (
        "import numpy as np, sklearn, warnings, os\n"
        "state, config = np.random.get_state()[1].copy(), sklearn.get_config()\n"
        "filters, errors, threads = list(warnings.filters), np.geterr(), {k: v for k, v in os.environ.items()}\n"
        "import covshift\n"
        "assert (np.random.get_state()[1] == state).all()\n"
        "assert sklearn.get_config() == config and np.geterr() == errors\n"
        "assert {k: v for k, v in os.environ.items()} == threads\n"
        "assert list(warnings.filters) == filters\n"
        "print('unchanged')\n"
    )
    assert run(code).split() == ["unchanged"]


def test_no_default_is_an_object_that_could_be_shared():
    """Defaults of estimators are None, strings, numbers, booleans or tuples of those."""
    plain = (type(None), str, int, float, bool)
    for name in covshift.__all__:
        thing = getattr(covshift, name)
        if not isinstance(thing, type) or not hasattr(thing, "_get_param_names"):
            continue
        signature = thing.__init__.__defaults__ or ()
        named = (thing.__init__.__kwdefaults__ or {}).values()
        for default in (*signature, *named):
            parts = default if isinstance(default, tuple) else (default,)
            assert all(isinstance(part, plain) for part in parts), f"{name}: default {default!r}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_sources_hold_no_leftovers(path):
    text = path.read_text()
    for word in (
        "TODO",
        "FIXME",
        "raise NotImplementedError",
        "noqa",
        "type: ignore",
        "np.random.seed",
        "except Exception",
    ):
        assert word not in text, f"{word} in {path.relative_to(PACKAGE)}"
    assert len(text.splitlines()) < 600
