"""The packaged library: problems unchanged, solutions checked, bounds derived, no forgeries."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from bfio.library import KINDS, VERSION, Entry, Origin, Status, entries, entry, sources, verify
from bfio.library.kind import CLOSED_FORM, canonical, digest_of
from bfio.library.kinds import Latency, written_prices
from bfio.library.store import DATA, BestKnown
from bfio.testing.instances import latency_problem
from formulations.errors import InputError
from formulations.hindsight_latency import PriceCertificate, certified_bound

ALL = entries()
#: What a version froze: how many problems, and a digest of their names and digests.
FROZEN = {1: (298, "7ce9ebfdc93ca21e"), 2: (326, "784d3dd5f1c082b8")}
#: Most bytes of the library in the repository.
MOST_BYTES = 5 * 2**20


def test_every_problem_and_solution_is_what_it_says() -> None:
    """Digests of the problems, feasibility and objectives of the solutions, no contradiction."""
    assert [(v.name, v.faults) for e in ALL if not (v := verify(e, bounds=False)).is_sound] == []


@pytest.mark.parametrize("version", FROZEN)
def test_a_version_is_frozen(version: int) -> None:
    """No problem of a version is ever changed, renamed or dropped; a later one adds behind it."""
    count, digest = FROZEN[version]
    text = canonical({e.name: e.digest for e in ALL[:count]})
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest
    assert FROZEN[VERSION][0] == len(ALL)


def _samples() -> list[Entry]:
    """Return a small entry of each kind and kind of certificate."""
    found: dict[tuple[str, str], Entry] = {}
    for e in ALL:
        if e.best is not None and e.best.certificate != CLOSED_FORM:
            found.setdefault((e.kind_name, e.best.certificate), e)
    return list(found.values())


@pytest.mark.parametrize("e", _samples(), ids=lambda e: e.name)
def test_a_bound_of_each_kind_is_derived_again(e: Entry) -> None:
    """By the verifier of its kind, from the problem data."""
    verdict = verify(e)
    assert verdict.faults == ()
    assert verdict.is_certified


@pytest.mark.deep
def test_every_bound_is_derived_again() -> None:
    """What `bfio library verify` does."""
    assert [(v.name, v.faults) for e in ALL if not (v := verify(e)).is_certified] == []


def test_all_kinds_and_statuses_are_there() -> None:
    """Open ones are the point; every source is given on with its licence."""
    assert {e.kind_name for e in ALL} == set(KINDS)
    assert {e.status for e in ALL if e.kind_name == "step"} == set(Status)
    assert {e.source for e in ALL} == set(sources())
    assert {source.licence for source in sources().values()} == {"MIT", "CC-BY-4.0", "Apache-2.0"}
    for source in sources().values():
        assert source.licence == "MIT" or (DATA / "LICENSES" / f"{source.licence}.txt").is_file()


def test_steps_cover_what_a_step_can_ask() -> None:
    """Sizes, windows, information, memory, speeds, required requests, objectives."""
    steps = [e for e in ALL if e.kind_name == "step"]
    shapes = {(p.num_workers, p.num_steps) for p in (e.problem for e in steps)}
    assert {(g, h) for g in (2, 16, 32, 64) for h in (1, 21, 81)} <= shapes
    for name in ("token_capacity", "token_time", "required", "admit"):
        assert sum(getattr(e.problem, name) is not None for e in steps) >= 8
    assert len({e.problem.objective for e in steps}) == 3
    assert len({e.family for e in steps}) >= 20


def test_no_problem_is_there_twice() -> None:
    """Each is another one."""
    documents = [(e.kind_name, e.digest) for e in ALL]
    assert len(set(documents)) == len(documents)


def test_the_library_is_small() -> None:
    """And it holds no file that no entry names."""
    files = [path for path in DATA.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    names = {f"{e.name}.json.xz" for e in ALL}
    assert {p.name for p in files if p.parent.name == "problems"} == names
    assert {p.name for p in files if p.parent.name == "certificates"} <= names


def test_values_of_continuous_programs_are_fractions() -> None:
    """A fluid optimum is exact."""
    values = [e.best.objective for e in ALL if e.kind_name == "fluid-margin" and e.best]
    assert any(isinstance(value, Fraction) for value in values)


def test_documents_are_those_of_the_problems() -> None:
    """A digest of the library is that of `--write` and of `ProblemData`."""
    for name in ("step-4x8-synthetic-8-w1-h20-memory", "latency-at-once-n6-m20-c"):
        e = entry(name)
        assert e.problem.digest() == e.digest == digest_of(e.problem.to_mapping())


def test_an_unknown_name_is_told_with_a_near_one() -> None:
    """One line."""
    with pytest.raises(InputError, match="the library has no such entry; did you mean step-2x4"):
        entry("step-2x4-synthetic-4-w1-h00")


def test_prices_of_tokens_are_read_as_written() -> None:
    """They prove the same bound, which is more than that by areas."""
    problem = latency_problem(4, [(0, 3, 1), (0, 3, 1)])
    prices = PriceCertificate(8, {}, {0: 2})
    bound = Latency().certified_bound(problem, written_prices(prices))
    assert bound == certified_bound(problem, prices) == 3


NOBODY = Origin("nobody", "0")
KNOWN = [e for e in entries() if e.best is not None]


@cache
def _small(kind: str, certificate: str | None = None) -> Entry:
    """Return a small entry of a kind with a certificate that is more than a word."""
    fitting = [
        e
        for e in KNOWN
        if e.kind_name == kind
        and certificate in (None, _known(e).certificate)
        and (certificate or _known(e).certificate != CLOSED_FORM)
    ]
    return min(fitting, key=lambda e: len(str(e.certificate)))


def _known(e: Entry) -> BestKnown:
    assert e.best is not None
    return e.best


def _step() -> Entry:
    return _small("step", "sums")


def _forged(e: Entry, **changes: Any) -> Entry:
    return replace(e, best=replace(_known(e), **changes))


def _without(e: Entry, field: str) -> dict[str, Any]:
    return {**_known(e).solution, field: _known(e).solution[field][:-1]}


def _swapped() -> Entry:
    """Let the first admitted request wait."""
    e = _step()
    assignment = list(_known(e).solution["assignment"])
    first = next(i for i, worker in enumerate(assignment) if worker is not None)
    assignment[first] = None
    return _forged(e, solution={"assignment": assignment})


FORGERIES: dict[str, Callable[[], Entry]] = {
    "digest": lambda: replace(_step(), digest="0" * 16),
    "objective": lambda: _forged(_step(), objective=_known(_step()).objective - 1),
    "solution": _swapped,
    "shape": lambda: _forged(_step(), solution=_without(_step(), "assignment")),
    "worker": lambda: _forged(
        _step(), solution={"assignment": [99] * len(_known(_step()).solution["assignment"])}
    ),
    "bound beyond": lambda: _forged(_step(), bound=_known(_step()).bound + 1),
    "claim beyond": lambda: _forged(_step(), claim=_known(_step()).bound + 1, claimed_by=NOBODY),
    "latency": lambda: _forged(_small("latency"), objective=_known(_small("latency")).bound - 1),
    "throughput": lambda: _forged(
        _small("fluid-decode"), objective=_known(_small("fluid-decode")).bound + 1
    ),
    "thresholds": lambda: _forged(
        _small("wait"), solution={"thresholds": [1] * len(_known(_small("wait")).solution)}
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_entry_is_refused(name: str) -> None:
    """By the digest, the checker or a contradiction; as it was, it is sound."""
    forged = FORGERIES[name]()
    assert verify(entry(forged.name)).is_sound
    assert not verify(forged).is_sound


@dataclass(frozen=True)
class Forged(Entry):
    """An entry with another certificate."""

    another: Mapping[str, Any] = field(default_factory=dict)

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The other one."""
        return self.another


def _with(e: Entry, certificate: Mapping[str, Any], bound: Any) -> Entry:
    """Return an entry with this certificate and bound."""
    known = replace(_known(e), bound=bound, certificate=str(certificate.get("kind")))
    parts = {part.name: getattr(e, part.name) for part in fields(e)}
    return Forged(**{**parts, "best": known}, another=certificate)


def _forged_certificates(e: Entry) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield certificates and bounds that prove nothing, or less than they say."""
    kind, bound = e.kind, _known(e).bound
    certificate = dict(e.certificate or {})
    tighter = bound + 1 if kind.minimised else bound - 1
    yield certificate, tighter
    yield {**certificate, "bound": tighter} if "bound" in certificate else certificate, tighter
    yield {**certificate, "kind": "trust-me"}, bound
    yield {**certificate, "kind": None}, bound
    for name, value in certificate.items():
        if isinstance(value, list | tuple) and value:
            yield {**certificate, name: [*value[:-1]]}, tighter
            yield {**certificate, name: []}, tighter
            yield {**certificate, name: ["x"]}, bound
            yield {**certificate, name: [5]}, tighter
            yield {**certificate, name: [[-1]]}, bound
            yield {**certificate, name: None}, bound
    if len(certificate) > 1:
        yield {"kind": certificate["kind"]}, tighter
        yield {**certificate, "price_scale": 0, "scale": 0}, bound


@pytest.mark.parametrize(
    ("kind", "certificate"),
    [
        ("step", "sums"),
        ("step", "enumeration"),
        ("step", "every-assignment"),
        ("step", "interval"),
        ("latency", None),
        ("makespan", CLOSED_FORM),
        ("fluid-stages", None),
        ("fluid-margin", None),
        ("nested-wait", None),
    ],
)
def test_a_forged_certificate_is_refused(kind: str, certificate: str | None) -> None:
    """What it would prove is not believed; each is one line, none an exception."""
    e = _small(kind, certificate)
    assert verify(_with(e, dict(e.certificate or {}), _known(e).bound)).is_certified
    forged = list(_forged_certificates(e))
    assert len(forged) >= 4
    for document, bound in forged:
        verdict = verify(_with(e, document, bound))
        assert not verdict.is_sound, document
        assert not verdict.is_certified
        assert all("\n" not in fault for fault in verdict.faults)


def test_the_certificate_of_another_problem_proves_nothing() -> None:
    """Prices are prices of these requests."""
    one, *_, other = [e for e in KNOWN if e.kind_name == "fluid-stages"]
    document = dict(other.certificate or {})
    assert not verify(_with(one, document, _known(one).bound)).is_sound
