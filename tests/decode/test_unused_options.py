"""Unused options are refused, and a policy reads every option it declares."""

from dataclasses import fields
from typing import Any

import pytest

from bfio.cli.main import main
from bfio.common.options import names_of, options_of
from bfio.decode.cluster import Cluster
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import all_options, built_in, check_options_are_read, choose
from bfio.testing.states import make_state
from formulations.errors import InputError

SMALL = ["--requests", "30", "--workers", "2", "--slots", "4"]
USUAL = RunOptions(), Cluster()


def watched(options: Any) -> tuple[Any, set[str]]:
    """Return options that note which of them are read, by the names that users write."""
    owner, seen = type(options), set[str]()
    called = {entry.field: entry.name for entry in options_of(owner)}

    class Watched(owner):  # type: ignore[misc,valid-type]
        def __getattribute__(self, name: str) -> object:
            if name in {entry.name for entry in fields(owner)}:
                seen.add(called.get(name, name))
            return super().__getattribute__(name)

    made = object.__new__(Watched)
    for entry in fields(owner):
        object.__setattr__(made, entry.name, getattr(options, entry.name))
    return made, seen


@pytest.mark.parametrize(
    "policy",
    [
        *built_in(),
        "bf-io:second=age",
        "bf-io:second=window",
        "pausing:base=power-of-2",
        "pausing:base=program",
        "pausing:pausing_method=exact",
    ],
)
def test_a_policy_reads_what_it_declares(policy: str) -> None:
    """Every option that is in force with these; kernels read them from the same object."""
    chosen = choose(policy)
    options, seen = watched(chosen.options)
    made = chosen.spec.factory(options)
    if chosen.name == "bf-io":
        # It reads most of them where it decides.
        made(make_state([3, 5], [1, 1], [2, 4, 4]))
    own = names_of(type(chosen.options))
    assert {name for name in chosen.in_force() if name in own} <= seen
    cached = choose(policy).in_force(RunOptions(), Cluster(prefix_cache=512))
    assert seen <= {*cached, "router"} | {"second_horizon", "slack", "second_proof", "time_limit"}


def test_options_that_are_read_beside_others() -> None:
    """As they are declared."""
    second = {"slack", "second_proof", "second_horizon"}
    assert not second & {*choose("bf-io").in_force()}
    assert second & {*choose("bf-io:second=age").in_force()} == second - {"second_horizon"}
    assert second <= {*choose("bf-io:second=window").in_force()}
    assert {"base", "max_pauses", "threshold"} <= {*choose("pausing").in_force()}
    assert "choices" in choose("pausing:base=power-of-2").in_force()
    assert "threshold" not in choose("pausing:base=fcfs").in_force()
    assert "benefit" not in choose("br-0").in_force()
    assert "benefit" in choose("br-0").in_force(RunOptions(), Cluster(prefix_cache=512))
    assert "key" not in choose("br-0").in_force(RunOptions(dispatch="immediate"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policies", "given", "message"),
    [
        (["fcfs"], {"gamma": "1/2"}, r"^gamma: fcfs reads no such option; .*bf-io, br-h"),
        (["fcfs", "jsq"], {"cap_threshold": 9}, "add a policy with this option: throttled"),
        (["bf-io"], {"slack": 3}, "slack: changes nothing without second; leave it out"),
        (["fcfs", "bf-io"], {"second_proof": 9}, "second_proof: changes nothing without second"),
        (["bf-io:slack=3"], {}, "policy bf-io:slack=3: slack: changes nothing without sec"),
        (["bf-io:second=age:second-horizon=3"], {}, "changes nothing without second=window"),
        (["bf-io"], {"second": "now", "second_horizon": 3}, "nothing without second=window"),
        (["br-0"], {"slack": 3}, "slack: br-0 reads no such option; .* with this option: bf-io"),
        (["br-0"], {"benefit": 3}, "benefit: changes nothing without prefix_cache"),
        # One that is given is read, be it what it would be anyway.
        (["fcfs"], {"threshold": 7}, "threshold: fcfs reads no such option"),
        (["pausing:base=fcfs"], {"threshold": 7}, "threshold: pausing:base=fcfs reads no such"),
    ],
)
def test_without_effect(policies: list[str], given: dict[str, object], message: str) -> None:
    """The option and who would read it are named."""
    with pytest.raises(InputError, match=message):
        check_options_are_read([choose(p, given) for p in policies], given, *USUAL)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("fcfs:gamma=1/2", "policy fcfs:gamma=1/2: gamma: fcfs reads no such option"),
        ("power-of-2:horizon=3", "horizon: power-of-2 reads no such option"),
        ("br-0:cap-threshold=3", "cap_threshold: br-0 reads no such option"),
        ("pausing:base=program:key=product", "key: pausing reads no such option"),
        ("br-h:gamma=2", "policy br-h:gamma=2: gamma: 2 is out of range; use 0 < gamma <= 1"),
    ],
)
def test_behind_a_name(policy: str, message: str) -> None:
    """Text, option and rule are named."""
    with pytest.raises(InputError, match=message):
        choose(policy)


@pytest.mark.parametrize(
    ("policies", "given"),
    [
        (["fcfs", "br-h"], {"gamma": "1/2", "horizon": 3}),
        (["throttled:cap-threshold=9"], {}),
        (["bf-io:objective=gap:gamma=1/2:horizon=2"], {}),
        (["bf-io", "bf-io:second=age"], {"slack": 3}),
        (["bf-io:second-horizon=3"], {"second": "window"}),
        (["pausing"], {"threshold": 3, "base": "br-0"}),
        (["fcfs"], {"threshold": None}),
    ],
)
def test_with_effect(policies: list[str], given: dict[str, object]) -> None:
    """One policy that reads an option is enough; None asks for nothing."""
    check_options_are_read([choose(p, given) for p in policies], given, *USUAL)


def test_every_option_is_told_apart_by_its_policies() -> None:
    """No policy lists one twice, and each has a help text."""
    for tables in all_options().values():
        assert all(
            entry.help and entry.kind.check for entry in tables.values() if entry.name != "base"
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--policies", "fcfs", "--gamma", "0.5", "--no-plots"], "--gamma: fcfs"),
        (["simulate", "--policy", "jsq", "--choices", "3"], "--choices: jsq"),
        (["simulate", "--policy", "bf-io", "--slack", "3"], "--slack: changes nothing"),
        (["simulate", "--policy", "jsq:choices=3"], "choices: jsq reads no such option"),
        (["gap", "--policy", "fcfs", "--cap-threshold", "3", "--no-plots"], "--cap-threshold"),
    ],
)
def test_commands(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """Before anything runs, in one line."""
    assert main([*arguments, *SMALL]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert shown.err.count("\n") == 1
