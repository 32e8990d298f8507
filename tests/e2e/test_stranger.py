"""A stranger's machine: a fresh environment with the wheel and the suite, and an adapter in another folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "howto" / "external_memcached"

pytestmark = pytest.mark.timeout(600)


def run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTBOX_", "PYTEST_"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0 or not check, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh environment's programs."""
    folder = tmp_path_factory.mktemp("stranger")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, cwd=ROOT)
    (wheel,) = folder.glob("agentbox-*.whl")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    programs = folder / "venv" / "bin"
    pip = (programs / "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    run(*pip, f"{wheel}[suite]", "hatchling", "editables", cwd=folder)
    return programs


def install(fresh: Path, package: Path) -> None:
    run(fresh / "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "-e", package, cwd=package)


def test_the_wheel_answers_from_any_folder(fresh: Path, tmp_path: Path) -> None:
    told = run(fresh / "agentbox", "status", "--json", cwd=tmp_path).stdout
    assert json.loads(told)["state"] == "healthy"


def test_a_new_adapter_is_told_what_is_to_do(fresh: Path, tmp_path: Path) -> None:
    run(fresh / "agentbox", "new-adapter", "beads", "external-nothing", cwd=tmp_path)
    install(fresh, tmp_path / "agentbox-beads-external-nothing")
    done = run(fresh / "agentbox", "contract", "beads", "--impl", "external-nothing", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "create_epic is to be written" in done.stdout
    assert done.stdout.splitlines()[-1] == "beads external-nothing is not conformant"


@contextmanager
def server(programs: Path) -> Iterator[int]:
    """The memcached-like server of the example."""
    command = [programs / "python", EXAMPLE / "tests" / "server.py", "0"]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().strip().rpartition(":")[2].split()[-1])
        finally:
            process.kill()


def test_the_finished_example_is_graded_by_one_command(fresh: Path, tmp_path: Path) -> None:
    package = tmp_path / "external_memcached"
    shutil.copytree(EXAMPLE, package, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    install(fresh, package)
    with server(fresh) as port:
        manifest = tmp_path / "agentbox.toml"
        manifest.write_text((package / "agentbox.toml").read_text().replace("11211", str(port)))
        words = ("contract", "beads", "--manifest", manifest, "--json", "--junit", "report.xml")
        done = run(fresh / "agentbox", *words, cwd=tmp_path)
    (report,) = json.loads(done.stdout)
    assert report["grade"] == "conformant without keys, sync"
    assert report["versions"]["agentbox-beads-external-memcached"]
    assert (tmp_path / "report.xml").exists()


def test_the_examples_own_tests_pass(fresh: Path, tmp_path: Path) -> None:
    package = tmp_path / "external_memcached"
    shutil.copytree(EXAMPLE, package, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    install(fresh, package)
    done = run(fresh / "python", "-m", "pytest", "-q", "-k", "not Contract and not ExternalMemcached", cwd=package)
    assert " passed" in done.stdout
