"""``python -m tests.fuzz``: make inputs, run them, and report violated promises."""

import argparse
import json
import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.fuzz import generator, process
from tests.fuzz.case import Case, load
from tests.fuzz.minimise import minimised
from tests.fuzz.oracle import Finding, findings
from tests.fuzz.second_opinion import disagreements

#: Where findings are written.
_OUT = Path("out") / "fuzz"
_TELL_EVERY = 500
FOUND = Path(__file__).with_name("found")


def main() -> int:
    """Return 1 if something was found."""
    args = _arguments()
    process.warm_up(with_kernels=args.inputs > _TELL_EVERY)
    with process.quiet_collector():
        cases = _cases(args)
        return _report(cases, minimise=args.minimise)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="cases to repeat, as kept")
    parser.add_argument("--found", action="store_true", help="repeat the cases of found/")
    parser.add_argument("--inputs", type=int, default=0, metavar="N", help="inputs to make")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="index of the first")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all inputs (0)")
    parser.add_argument("--minimise", action="store_true", help="cut findings down")
    return parser.parse_args()


def _cases(args: argparse.Namespace) -> Iterator[tuple[str, Case]]:
    for name in [*args.files, *(sorted(FOUND.glob("*.json")) if args.found else [])]:
        yield str(name), load(Path(name))
    for index in range(args.first, args.first + args.inputs):
        yield f"{args.seed}-{index}", generator.make(args.seed, index)


def _report(cases: Iterable[tuple[str, Case]], *, minimise: bool) -> int:
    """Run cases, print each cause when it is first found, and print counts at the end."""
    causes: Counter[str] = Counter()
    statuses: Counter[int] = Counter()
    seconds: dict[str, float] = defaultdict(float)
    slow: list[str] = []
    began = time.perf_counter()
    for name, case in cases:
        outcome, found = _tried(case)
        statuses[outcome.status] += 1
        seconds[case.argv[0] if case.argv else ""] += outcome.wall_s
        if outcome.interrupt_s is not None:
            slow.append(f"{name}: {_shown(case)}")
        if statuses.total() % _TELL_EVERY == 0:
            print(f"{statuses.total()} inputs, {time.perf_counter() - began:.0f} s", flush=True)
        for finding in found:
            causes[finding.cause] += 1
            if causes[finding.cause] == 1:
                _tell(name, case, finding, minimise=minimise)
    for line in slow:
        print(f"took longer than {process.SOFT_SECONDS:g} s and was interrupted: {line}")
    total = time.perf_counter() - began
    by_command = ", ".join(f"{name} {s:.0f}" for name, s in sorted(seconds.items(), key=_second))
    print(f"{statuses.total()} inputs in {total:.0f} s; statuses {dict(statuses)}; {by_command} s")
    for cause, count in causes.most_common():
        print(f"{count} x {cause}")
    return int(bool(causes))


def _second(item: tuple[str, float]) -> float:
    return -item[1]


def _tried(case: Case) -> tuple[process.Outcome, list[Finding]]:
    outcome = process.run(case)
    return outcome, [*findings(case, outcome), *disagreements(case, outcome)]


def _tell(name: str, case: Case, finding: Finding, *, minimise: bool) -> None:
    """Write a case to a file; print the finding and the command that reproduces it."""
    if minimise:
        case = minimised(case, lambda c: finding.cause in {f.cause for f in _tried(c)[1]})
    _OUT.mkdir(parents=True, exist_ok=True)
    path = _OUT / f"{Path(name).stem}.json"
    document = {"why": f"{finding.promise}: {finding.detail}", **case.to_document()}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{finding.promise}: {finding.detail}\n  bfio {_shown(case)}")
    print(f"  {Path(sys.executable).name} -m tests.fuzz {path}", flush=True)


def _shown(case: Case) -> str:
    return shlex.join(word if len(word) < 60 else f"{word[:50]}..." for word in case.argv)


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main())
