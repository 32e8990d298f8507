"""Who may import whom: the layers of the design, held by reading the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"agentbox": ROOT / "agentbox", "agentbox_contracts": ROOT / "contracts" / "agentbox_contracts"}
DRIVERS = ("sqlite3", "aiosqlite", "asyncpg", "httpx", "opentelemetry.sdk", "rich", "prometheus_client")

CONTRACTS = "agentbox_contracts"
MANIFEST = ("agentbox.manifest", "agentbox.manifest_schema", "agentbox._manifest_", "agentbox._toml_")

# Who (a module or the beginning of its name) → what of ours it may import. The first match counts.
ALLOWED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("agentbox_contracts", (CONTRACTS,)),
    ("agentbox.context", (CONTRACTS,)),
    ("agentbox.metrics", ()),
    ("agentbox.federation", (CONTRACTS,)),
    ("agentbox.plugins", (CONTRACTS,)),
    ("agentbox.manifest_schema", (CONTRACTS, *MANIFEST, "agentbox.plugins")),
    ("agentbox.manifest", (CONTRACTS, *MANIFEST)),
    ("agentbox._manifest_", (CONTRACTS, *MANIFEST)),
    ("agentbox._toml_", ("agentbox._toml_",)),
    ("agentbox.dispatch", (CONTRACTS, "agentbox.context", "agentbox.metrics")),
    (
        "agentbox.resolver",
        (
            CONTRACTS,
            "agentbox.manifest",
            "agentbox.plugins",
            "agentbox.dispatch",
            "agentbox.federation",
            "agentbox.metrics",
        ),
    ),
    ("agentbox.recovery", (CONTRACTS, "agentbox.resolver", "agentbox.manifest")),
    ("agentbox._announcing_", (CONTRACTS, "agentbox.resolver", "agentbox.metrics", "agentbox._announcing_")),
    (
        "agentbox.announcing",
        (CONTRACTS, "agentbox.__version__", "agentbox.resolver", "agentbox.manifest", "agentbox._announcing_"),
    ),
    ("agentbox.telemetry", (CONTRACTS, "agentbox.manifest", "agentbox.metrics")),
    (
        "agentbox.app",
        (
            CONTRACTS,
            "agentbox.__version__",
            "agentbox.announcing",
            "agentbox.resolver",
            "agentbox.federation",
            "agentbox.manifest",
            "agentbox.metrics",
            "agentbox.recovery",
            "agentbox.telemetry",
        ),
    ),
    ("agentbox.sync", (CONTRACTS, "agentbox.app", "agentbox.manifest")),
    ("agentbox.work", (CONTRACTS, "agentbox.runs.spec")),
    ("agentbox.runs", ("agentbox_contracts.errors", "agentbox.plugins", "agentbox.runs")),
    ("agentbox.testing", (CONTRACTS, "agentbox")),
    ("agentbox._testing_", (CONTRACTS, "agentbox")),
    ("agentbox.grading", (CONTRACTS, "agentbox.manifest", "agentbox._grading_", "agentbox._testing_open")),
    ("agentbox._grading_", (CONTRACTS, "agentbox.__version__")),
    ("agentbox.adapters", (CONTRACTS, "agentbox.adapters._")),
    ("agentbox.host", (CONTRACTS, "agentbox")),
    ("agentbox.cli", (CONTRACTS, "agentbox")),
    ("agentbox.__main__", ("agentbox.cli",)),
    ("agentbox", ("agentbox.app",)),
)
ON_TOP = {"agentbox.cli": ("agentbox.cli", "agentbox.__main__"), "agentbox.host": ("agentbox.host", "agentbox.cli")}


@attrs.frozen
class Import:
    """One import: who, where, and which module or name."""

    module: str
    path: Path
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.module} imports {self.target}"


def modules() -> Iterator[tuple[str, Path]]:
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *(part for part in parts if part != "__init__"))), path


def imports_in(module: str, path: Path, source: str) -> Iterator[Import]:
    """Every import of *source*, also inside functions. `from a import b` counts as `a.b`."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (Import(module, path, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            yield from (Import(module, path, node.lineno, f"{base}.{alias.name}") for alias in node.names)


def all_imports() -> list[Import]:
    return [found for module, path in modules() for found in imports_in(module, path, path.read_text("utf-8"))]


def begins(name: str, prefix: str) -> bool:
    """Whether *name* is *prefix*, is inside it, or, for a prefix that ends in `_`, begins with it."""
    return name == prefix or name.startswith(prefix if prefix.endswith("_") else f"{prefix}.")


def is_ours(target: str) -> bool:
    return any(begins(target, package) for package in PACKAGES)


def allowed(found: Import) -> bool:
    if found.module.startswith("agentbox.adapters."):
        # The slot's own helpers stand beside the adapter, and an adapter module may be one file of several.
        slot = ".".join(found.module.split(".")[:3])
        if begins(found.target, slot) and not slot.startswith("agentbox.adapters._"):
            return True
    for top, users in ON_TOP.items():
        if begins(found.target, top) and not any(begins(found.module, user) for user in users):
            return False
    rule = next(targets for module, targets in ALLOWED if begins(found.module, module))
    return any(begins(found.target, target) for target in rule)


def test_every_import_points_inwards() -> None:
    offenders = [str(found) for found in all_imports() if is_ours(found.target) and not allowed(found)]
    assert not offenders, "\n" + "\n".join(offenders)


def test_every_module_has_a_rule() -> None:
    named = {module for module, _ in ALLOWED} - {"agentbox"}
    homeless = [
        str(path.relative_to(ROOT))
        for module, path in modules()
        if module != "agentbox" and not any(begins(module, name) for name in named)
    ]
    assert not homeless, f"say in {Path(__file__).name} what these may import: {homeless}"


def test_contracts_use_attrs_msgspec_and_the_standard_library() -> None:
    known = {*sys.stdlib_module_names, "attrs", "attr", "msgspec", "agentbox_contracts"}
    tested_with = {"pytest", "pytest_asyncio", "hypothesis"}
    offenders = [
        str(found)
        for found in all_imports()
        if begins(found.module, CONTRACTS)
        and (top := found.target.split(".")[0]) not in known
        and not (top in tested_with and begins(found.module, f"{CONTRACTS}.suites"))
    ]
    assert not offenders, "\n" + "\n".join(offenders)


def test_only_telemetry_knows_the_opentelemetry_sdk() -> None:
    offenders = [
        str(found)
        for found in all_imports()
        if begins(found.target, "opentelemetry.sdk") and found.module != "agentbox.telemetry"
    ]
    assert not offenders, "\n" + "\n".join(offenders)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("agentbox_contracts.beads", "import agentbox"),
        ("agentbox.dispatch", "from agentbox import resolver"),
        ("agentbox.resolver", "from agentbox.adapters.beads import off"),
        ("agentbox.resolver", "def f():\n    from agentbox.adapters.beads.off import Adapter"),
        ("agentbox.app", "from agentbox.cli import main"),
        ("agentbox.adapters.beads.local_sqlite", "from agentbox.adapters.pods import off"),
        ("agentbox.adapters.beads.local_sqlite", "from agentbox.app import App"),
        ("agentbox.adapters.beads.local_sqlite", "from ..memory import off"),
        ("agentbox.adapters._sqlite", "from agentbox.adapters.beads import off"),
        ("agentbox.runs.spec", "from agentbox import app"),
    ],
)
def test_a_wrong_import_is_seen(module: str, source: str) -> None:
    (found,) = imports_in(module, ROOT / "x.py", source)
    assert is_ours(found.target)
    assert not allowed(found), str(found)


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_agentbox_imports_no_driver() -> None:
    assert not loaded_after("import agentbox").intersection(DRIVERS)


def test_the_app_imports_no_store_before_one_is_chosen() -> None:
    chosen_later = set(DRIVERS) - {"prometheus_client"}
    assert not loaded_after("from agentbox import open_app").intersection(chosen_later)
