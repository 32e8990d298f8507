"""Every code is raised by what it is for, at the right place, and explained in the docs."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from agentbox.manifest import CODES, InvalidManifest, Manifest, Problem, load, parse
from agentbox_contracts.contract import Settings

CLIENT = '[federation]\nmode = "client"\n'
URL = 'external_url = "http://host:7070"\n'
FOUR_OFF = '[adapters]\nbeads = "off"\npods = "off"\nmemory = "off"\nevents = "off"\n'


@attrs.frozen
class Case:
    """A manifest with one problem, and the line of that problem."""

    code: str
    line: int | None
    text: str
    environ: dict[str, str] = attrs.field(factory=dict)


CASES = {
    "external in standalone mode": Case("E001", 2, '[adapters]\nbeads = "external"'),
    "external without a URL": Case(
        "E001", 4, CLIENT + '[adapters]\nbeads = "external"\nevents = "off"\npods = "off"\nmemory = "off"'
    ),
    "orchestrator external in standalone mode": Case("E001", 2, '[adapters]\norchestrator = "external"'),
    "beads external-pg without a DSN": Case("E002", 2, '[adapters]\nbeads = "external-pg"'),
    "external-pg with a blank variable": Case("E002", 2, '[adapters]\nbeads = "external-pg"', {"AGENTBOX_PG_DSN": ""}),
    "external-pg with conninfo not enabled": Case(
        "E002",
        2,
        '[adapters]\nbeads = "external-pg"\n[integrations.ruvector_external]\nenabled = false\nconninfo = "env:X"',
    ),
    "empty bridge command": Case(
        "E003", 4, '[adapters]\norchestrator = "stdio-bridge"\n[orchestrator.stdio-bridge]\ncommand = []'
    ),
    "blank bridge command": Case(
        "E003", 4, '[adapters]\norchestrator = "stdio-bridge"\n[orchestrator.stdio-bridge]\ncommand = " "'
    ),
    "bridge variable without words": Case(
        "E003", None, '[adapters]\norchestrator = "stdio-bridge"', {"AGENTBOX_BRIDGE": "  "}
    ),
    "bridge variable with an open quote": Case(
        "E003", None, '[adapters]\norchestrator = "stdio-bridge"', {"AGENTBOX_BRIDGE": "python 'x"}
    ),
    "all off without saying so": Case("E004", 2, '[adapters]\nbeads = "off"\nmemory = "off"\nevents = "off"'),
    "all off in client mode": Case("E004", 2, FOUR_OFF + CLIENT + URL),
    "external events without a URL": Case(
        "E005", 2, '[adapters]\nevents = "external"\nbeads = "off"\npods = "off"\nmemory = "off"\n' + CLIENT
    ),
    "local adapter in client mode": Case("W012", 5, CLIENT + URL + '[adapters]\nmemory = "embedded"'),
    "no orchestrator": Case("W030", 2, '[adapters]\norchestrator = "off"'),
    "metrics on the port of the host": Case("E013", 2, "[observability]\nmetrics_port = 7070"),
    "both ports written": Case("E013", 4, "[host]\nport = 9000\n[observability]\nmetrics_port = 9000"),
    "unknown section": Case("E016", 1, "[adapter]"),
    "unknown key outside of sections": Case("E016", 1, "beeds = 1"),
    "unknown key": Case("E016", 2, '[federation]\nmod = "client"'),
    "unknown slot": Case("E016", 2, '[adapters]\nbeeds = "off"'),
    "unknown slot in a range": Case("E016", 2, '[federation.accepts]\nbeeds = ">=1"'),
    "unknown key in an inline table": Case("E016", 2, "[federation]\naccepts = { beeds = '>=1' }"),
    "unknown integration": Case("E016", 1, "[integrations.ruvektor]"),
    "setting outside of its adapter's table": Case("E016", 2, '[beads]\npath = "x"'),
    "broken syntax": Case("E017", 1, "[adapters"),
    "repeated key": Case("E017", 3, "[host]\nport = 1\nport = 2"),
    "byte order mark": Case("E017", 1, "\ufeff[adapters]"),
    "deep nesting": Case("E017", None, "a = " + "[" * 5000),
    "endless number": Case("E017", None, "a = " + "1" * 5000),
    "adapter that is no text": Case("E019", 2, "[adapters]\nbeads = 3"),
    "number for a switch": Case("E019", 2, "[integrations.ruvector_external]\nenabled = 1"),
    "adapter's table that is no table": Case("E019", 2, "[beads]\nlocal-sqlite = 1"),
    "engine with a fraction": Case("E019", 2, "[engines.claude-code]\nheat = 0.5"),
    "secret that is no text": Case("E019", 2, "[federation]\ntoken = 3"),
    "wrong choice": Case("E020", 2, '[observability]\nlog_level = "loud"'),
    "wrong slot": Case("E020", 2, '[health]\nrequired = ["beads", "bead"]'),
    "negative duration": Case("E020", 2, "[adapters_policy]\ndeadline_seconds = -1"),
    "endless duration": Case("E020", 2, "[adapters_policy]\ndeadline_seconds = inf"),
    "port out of range": Case("E020", 2, "[host]\nport = 65536"),
    "unknown adapter": Case("E021", 2, '[adapters]\nbeads = "sqlte"'),
    "empty adapter": Case("E021", 2, '[adapters]\nbeads = ""'),
    "adapter of another slot": Case("E021", 2, '[adapters]\nbeads = "embedded"'),
    "table of an unknown adapter": Case("E021", 1, "[beads.sqlite]"),
    "secret by value": Case("E022", 2, '[federation]\ntoken = "hunter2"'),
    "secret without a name": Case("E022", 2, '[federation]\ntoken = "env:"'),
    "conninfo with a password": Case(
        "E022", 2, "[integrations.ruvector_external]\nconninfo = 'postgresql://me:hunter2@db/x'"
    ),
    "conninfo with a password in words": Case(
        "E022", 2, "[integrations.ruvector_external]\nconninfo = 'host=db password=hunter2'"
    ),
    "URL with a password": Case("E022", 2, "[federation]\nexternal_url = 'http://me:hunter2@host'"),
    "version without a sign": Case("E023", 2, '[federation.accepts]\nbeads = "1.0"'),
    "range whose second clause is wrong": Case("E023", 2, '[federation.accepts]\nbeads = ">=9,x"'),
    "empty range": Case("E023", 2, '[federation.accepts]\nbeads = ""'),
    "URL of another scheme": Case("E024", 2, '[federation]\nexternal_url = "ftp://host"'),
    "URL without a host": Case("E024", 2, '[observability]\notlp_endpoint = "http://"'),
    "URL with a wrong port": Case("E024", 2, '[federation]\nexternal_url = "http://host:x"'),
    "URL with an open bracket": Case("E024", 2, '[federation]\nexternal_url = "http://[::1"'),
    "empty state path": Case("E025", 2, '[state]\npath = ""'),
    "state path with NUL": Case("E025", 2, '[state]\npath = "a\\u0000b"'),
    "state path is a file": Case("E025", 2, '[state]\npath = "/dev/null"'),
    "state variable is a file": Case("E025", None, "", {"AGENTBOX_STATE": "/dev/null"}),
    "state below a file": Case("E025", 2, '[state]\npath = "/dev/null/x"'),
    "home folder unknown": Case("E025", 2, '[state]\npath = "~/x"'),
    "adapter under both names": Case("E026", 2, "[pods.local-solid]\n[pods.local-solid-rs]"),
    "target over ssh": Case("E027", 2, '[targets.far]\nenvironment = "ssh:host"'),
    "unknown environment": Case("E027", 2, '[targets.far]\nenvironment = "podman:x"'),
    "container without a name": Case("E027", 2, '[targets.far]\nenvironment = "docker:"'),
    "environment with a line end": Case("E027", 2, '[targets.far]\nenvironment = "local\\n"'),
    "target without an environment": Case("E028", 1, "[targets.far]"),
}


def problems(case: Case) -> tuple[Problem, ...]:
    try:
        return parse(case.text, environ=case.environ).warnings
    except InvalidManifest as invalid:
        return invalid.problems


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_problem_has_its_code_and_its_place(case: Case) -> None:
    (problem,) = problems(case)

    assert (problem.code, problem.line) == (case.code, case.line)
    assert problem.message


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_message_repeats_a_secret(case: Case) -> None:
    assert "hunter2" not in "".join(str(problem) for problem in problems(case))


def test_a_file_that_cannot_be_read_is_e018(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest) as caught:
        load(tmp_path / "missing.toml", environ={})

    assert [problem.code for problem in caught.value.problems] == ["E018"]


def test_every_code_is_raised_by_a_test() -> None:
    assert {case.code for case in CASES.values()} | {"E018", "W029"} == set(CODES)


def test_every_code_is_explained_in_the_docs() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()

    assert [code for code, meaning in CODES.items() if f"| `{code}` | {meaning} |" not in docs] == []


def test_all_four_off_is_a_warning_when_all_four_say_so() -> None:
    (warning,) = parse(FOUR_OFF, environ={}).warnings

    assert (warning.code, warning.severity) == ("E004", "warning")


def test_all_four_off_is_a_warning_when_the_mode_says_so() -> None:
    text = '[adapters]\nbeads = "off"\nmemory = "off"\nevents = "off"\n[federation]\nmode = "standalone"'

    (warning,) = parse(text, environ={}).warnings

    assert (warning.code, warning.severity) == ("E004", "warning")


@pytest.mark.parametrize(
    ("extra", "environ"),
    [
        ("", {"AGENTBOX_PG_DSN": "postgresql://db"}),
        ('[memory.external-pg]\ndsn = "env:MY_DSN"', {}),
        ('[integrations.ruvector_external]\nenabled = true\nconninfo = "postgresql://ruvector@db:5432/ruvector"', {}),
        ('[integrations.ruvector_external]\nconninfo = "file:dsn"', {}),
    ],
    ids=["variable", "own table", "conninfo", "conninfo by reference"],
)
def test_a_dsn_may_come_from_each_of_its_places(extra: str, environ: dict[str, str]) -> None:
    manifest = parse(f'[adapters]\nmemory = "external-pg"\n{extra}', environ=environ)

    assert manifest.adapters["memory"].impl == "external-pg"


def test_events_may_have_a_url_of_their_own() -> None:
    text = '[adapters]\nbeads = "off"\npods = "off"\nmemory = "off"\n[events.external]\nurl = "http://x"\n' + CLIENT

    assert parse(text, environ={}).adapters["events"].impl == "external"


@pytest.mark.parametrize(
    ("command", "words"), [("''", "is empty"), ("' '", "is empty"), ("[]", "is empty"), ('"sh -c \'x"', "can be read")]
)
def test_a_bridge_command_is_called_empty_only_when_it_is(command: str, words: str) -> None:
    text = f'[adapters]\norchestrator = "stdio-bridge"\n[orchestrator.stdio-bridge]\ncommand = {command}'
    (problem,) = problems(Case("E003", 4, text))
    assert (problem.code, words in problem.message) == ("E003", True)


def test_a_bridge_command_may_be_left_out() -> None:
    assert parse('[adapters]\norchestrator = "stdio-bridge"', environ={}).warnings == ()


def test_a_setting_that_is_missing_is_e028() -> None:
    @attrs.frozen(kw_only=True)
    class Needy(Settings):
        size: int

    manifest: Manifest = parse("[beads.local-sqlite]", environ={})

    with pytest.raises(InvalidManifest, match=r"manifest:1:1: E028 size in \[beads.local-sqlite\] is missing"):
        manifest.settings("beads", "local-sqlite", Needy)
