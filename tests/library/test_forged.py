"""Forged entries that claim more than is proven are refused."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import pytest

from bfio.library import Entry, Origin, entries, entry, verify
from bfio.library.kind import CLOSED_FORM
from bfio.library.store import BestKnown

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
