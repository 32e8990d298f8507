"""`python -m tests.bench [NAME…]`: run all bars, or those whose name begins with a NAME; exit 1 when one is missed."""

from __future__ import annotations

import sys

from tests.bench import agents, claims, dispatched, events, host, memory, postgres, ready, shows, startup
from tests.bench._measure import Bench, Measured

BENCHES: tuple[Bench, ...] = (
    *dispatched.BENCHES,
    *claims.BENCHES,
    *shows.BENCHES,
    *ready.BENCHES,
    *startup.BENCHES,
    *events.BENCHES,
    *host.BENCHES,
    *postgres.BENCHES,
    *memory.BENCHES,
    *agents.BENCHES,
)

HEAD = f"{'name':14} {'ratio':>7} {'bar':>8}  {'':5}  {'subject':>11} {'reference':>11}  what"


def main(names: list[str]) -> int:
    """Run what *names* choose and print a line for each."""
    unknown = [name for name in names if not any(bench.name.startswith(name) for bench in BENCHES)]
    if unknown:
        print(f"no bench {', '.join(unknown)}; there are {', '.join(bench.name for bench in BENCHES)}", file=sys.stderr)
        return 2
    chosen = [bench for bench in BENCHES if not names or any(bench.name.startswith(name) for name in names)]
    print(HEAD, flush=True)
    missed = 0
    for bench in chosen:
        measured = bench.measure()
        missed += not bench.holds(measured)
        print(_line(bench, measured), flush=True)
    return 1 if missed else 0


def _line(bench: Bench, measured: Measured) -> str:
    sign = "≤" if bench.bound == "at_most" else "≥"
    verdict = "ok" if bench.holds(measured) else "short"
    return (
        f"{bench.name:14} {bench.ratio(measured):7.2f} {sign + format(bench.bar, 'g'):>8}  {verdict:5}  "
        f"{measured.subject * 1e6:8,.1f} µs {measured.reference * 1e6:8,.1f} µs  {bench.what}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
