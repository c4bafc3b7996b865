"""Run a policy on the decode engine, and describe the run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from enum import Enum
from fractions import Fraction
from math import inf
from typing import Any

from bfio.common.kernel_groups import Engine
from bfio.common.metrics import MetricTable
from bfio.common.options import LOOK_AHEAD, spelled_out
from bfio.decode.cluster import Cluster
from bfio.decode.compatibility import INTERPRETED, Asked, check_together, first_clash
from bfio.decode.drift import Drift
from bfio.decode.energy_model import EnergyModel
from bfio.decode.engine import Interpreted, check_run, with_margin
from bfio.decode.machine.kernel import KernelTask
from bfio.decode.measured import measured_part
from bfio.decode.metrics import METRICS, measure, measure_steady, measured_of
from bfio.decode.observers import Observer, ProgressObserver, Watching
from bfio.decode.option_kinds import Pairs
from bfio.decode.options import RunOptions
from bfio.decode.policy import Policy, max_pauses_of
from bfio.decode.policy_registry import (
    ChosenPolicy,
    all_options,
    check_options_are_read,
    check_policy,
    choose,
)
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.run import Run, RunPart
from bfio.decode.settings import LIMITS
from bfio.prediction import registry as predictors
from bfio.prediction.predictor import LengthSource, Predictor
from bfio.workloads.workload import Workload
from formulations.errors import InputError, check_kind
from formulations.problem_data import member

#: Sums of loads below this are exact as floats, so the compiled mean load equals the exact one.
EXACT_FLOAT = 2**53


@spelled_out(RunOptions, all_options)
def simulate(
    workload: Workload,
    policy: str | Policy,
    cluster: Cluster | None = None,
    *,
    engine: str = "auto",
    observers: Sequence[Observer] = (),
    keep_trajectory: bool = True,
    stop: Callable[[], bool] | None = None,
    history: Workload | None = None,
    options: RunOptions | None = None,
    **policy_options: object,
) -> Run:
    """Simulate one policy on one workload.

    Parameters
    ----------
    workload : Workload
        The requests.
    policy : str or callable
        A name of `bfio.decode.policy_registry` with options of its own (``"br-h:horizon=40"``), a
        ``module:function``, or any callable from `DecodeState` to an assignment.
    cluster : Cluster, optional
        The machine; by default 16 workers of 72 slots.
    engine : {"auto", "compiled", "reference"}
        ``compiled`` executes the whole run of a built-in policy as machine code; ``reference``
        interprets the run in Python. Both give the same run. ``auto`` selects the compiled engine
        if this supports the run and saves time (`bfio.common.kernel_groups`).
    observers : sequence of Observer
        Called after each step.
    keep_trajectory : bool
        Keep the load and the running requests of every worker at every step.
    stop : callable, optional
        Called before each step; the run ends if the answer is True.
    history : Workload, optional
        Past requests for named predictors that learn; by default those of the workload.
    options : RunOptions, optional
        Options of the run. Each field may also be given as a keyword argument.
    **policy_options
        Options of the policy, such as ``horizon`` and ``gamma`` of `br-h`. Options after its name
        take precedence. A user's policy has the option ``horizon``: the look-ahead that the policy
        sees, unless its attribute ``horizon`` is larger.

    Returns
    -------
    Run
        The record; `describe_run` turns it into metrics.

    Raises
    ------
    InputError
        If an option is unknown, invalid or not read in this run; if the policy returns an invalid
        answer or stalls; or if the engine is ``compiled`` and does not support this run.
    """
    check_arguments(workload, policy, cluster, "simulate(workload, policy, cluster)")
    watching = Watching(observers, keep_trajectory, stop)
    machine, asked = cluster or Cluster(), options or RunOptions()
    check_kind(asked, RunOptions, "options", "options=RunOptions(...)")
    chosen = choose(policy, policy_options)
    check_options_are_read([chosen], policy_options, asked, machine)
    run = _run(workload, chosen, machine, engine, watching, history, asked)
    measured = measured_part(workload, run.cluster, run.options)
    # To save memory, replace the engine's copies of arrays by the arrays of the workload.
    emitted = workload.output_tokens if run.is_drained else run.emitted_tokens
    prompts = workload.prompt_tokens
    return replace(run, measured=measured, prompt_tokens=prompts, emitted_tokens=emitted)


def _run(
    workload: Workload,
    policy: ChosenPolicy,
    machine: Cluster,
    engine: str,
    watching: Watching,
    history: Workload | None,
    asked: RunOptions,
) -> Run:
    """Run a policy with its options; see `simulate`."""
    engine = member(Engine, engine, "engine")
    history = workload.history if history is None else history
    if history is not None:
        check_kind(history, Workload, "history", "history=workload")
    name, spec, in_force = policy.name, policy.spec, policy.in_force(asked, machine)
    whole = Asked(name, spec, machine, asked, pauses=spec.pauses)
    check_together(whole)
    made = policy.make()
    steps, asked = policy.look_ahead(made), with_margin(made, asked)
    # A policy without a look-ahead option may still set its own look-ahead.
    if policy.is_own or (LOOK_AHEAD not in policy.table and steps > 0):
        in_force[LOOK_AHEAD] = steps
    whole = whole._replace(options=asked, steps=steps, pauses=max_pauses_of(made) is not None)
    check_together(whole)
    unknown, found = first_clash(whole, INTERPRETED), None
    if (
        engine != "reference"
        and unknown is None
        and can_compile(spec, asked.predictor, watching.observers)
    ):
        task = KernelTask(workload, machine, asked, policy.options, made, history)
        found = _run_compiled(spec, task, steps, watching, engine)
    if found is None:
        if engine == "compiled":
            if policy.is_own:
                raise _not_compiled(f"{name}, a policy of your own")
            what = "these options" if unknown is None else unknown.what
            raise _not_compiled(f"policy {name} with {what}")
        run = Interpreted(workload, made, name, steps, machine, asked, watching, history)
        found = run.run()
    return replace(
        found, policy_options=in_force, predictor_options=predictors.in_force(asked.predictor)
    )


def check_arguments(workload: object, policy: object, cluster: object, form: str) -> None:
    """Check the argument types of a run; ``form`` is the intended call, for messages."""
    check_kind(workload, Workload, "workload", form)
    check_policy(policy, may_be_class=False)
    if cluster is not None:
        check_kind(cluster, Cluster, "cluster", form)


def can_compile(
    spec: PolicySpec, predictor: str | Predictor = "none", observers: Sequence[Observer] = ()
) -> bool:
    """Return whether the compiled engine supports a policy, its predictor and its observers."""
    return (
        spec.kernel is not None
        and predictors.lengths_of(predictor) is not LengthSource.ASKED
        and all(isinstance(observer, ProgressObserver) for observer in observers)
    )


def _run_compiled(
    spec: PolicySpec, task: KernelTask, steps: int, watching: Watching, engine: str
) -> Run | None:
    """Run the compiled engine; return None if compiling saves no time or is not exact."""
    from bfio.decode.machine.whole_run import pays, run_compiled, supports

    if not supports(spec, task.options):
        return None
    most = check_run(task.workload, task.cluster, task.options, steps)
    if task.cluster.mean_time_s > 0 and most >= EXACT_FLOAT:
        return None
    if engine == "auto" and not pays(spec, task.workload, task.cluster, task.options):
        return None
    return run_compiled(spec, task, watching)


def _not_compiled(what: str) -> InputError:
    return InputError("engine", f"the compiled engine cannot run {what}", 'use engine="auto"')


def describe_run(
    run: Run,
    label: str | None = None,
    energy_model: EnergyModel | None = None,
    table: MetricTable[RunPart] = METRICS,
    measured: Run | None = None,
) -> dict[str, Any]:
    """Return the JSON document of a run: metrics, whole and measured, and all options.

    Parameters
    ----------
    run : Run
        The run.
    label : str, optional
        Name of the policy in the document.
    energy_model : EnergyModel, optional
        Constants of the energy metrics.
    table : MetricTable
        The metrics.
    measured : Run, optional
        The run with the measured part, if the requests were repeated.
    """
    measured = measured or run
    repeat = measured.num_requests // max(run.num_requests, 1)
    return {
        "policy": label or run.policy,
        **measure(run, energy_model, table),
        **describe_part(measured, energy_model, table, repeat),
        "steady": measure_steady(run, energy_model, table=table),
        "proven_share": proven_share(run.statistics),
        **second_proven_share(run.statistics),
        "statistics": dict(run.statistics),
        "wall_s": run.wall_s,
        "decide_s": run.decide_s,
        "options": plain_options(
            run.cluster,
            run.options,
            energy_model or EnergyModel(),
            policy=run.policy_options,
            predictor=run.predictor_options,
        )
        | {name: run.statistics[name] for name in LIMITS if name in run.statistics},
    }


def describe_part(
    run: Run, energy_model: EnergyModel | None, table: MetricTable[RunPart], repeat: int = 1
) -> dict[str, Any]:
    """Return the measured part of a run, with every metric over it and its interval."""
    part, found = run.measured, measured_of(run, energy_model)
    if part is None:
        return {"measured_part": None, "measured": None}
    told = asdict(part) | {"mser_steps": None, "repeat": repeat}
    if found is None:
        return {"measured_part": told, "measured": None}
    told["mser_steps"] = part.mser_steps(run)
    measured = {
        **table.measure(found),
        "half_widths": table.half_widths(found),
        "proven_share": proven_share(run.statistics),
        **second_proven_share(run.statistics),
    }
    return {"measured_part": told, "measured": measured}


def proven_share(statistics: Mapping[str, object]) -> float | None:
    """Return the share of solved steps whose optimum was proven; None if no step was solved."""
    proven, unproven = statistics.get("proven_steps"), statistics.get("unproven_steps")
    if not isinstance(proven, int) or not isinstance(unproven, int) or proven + unproven == 0:
        return None
    return proven / (proven + unproven)


def second_proven_share(statistics: Mapping[str, object]) -> dict[str, float]:
    """Return the share of steps with a proven secondary optimum, if there is one."""
    proven, solved = statistics.get("second_proven_steps"), statistics.get("steps")
    if not isinstance(proven, int) or not isinstance(solved, int) or solved == 0:
        return {}
    return {"second_proven_share": proven / solved}


def plain_options(
    cluster: Cluster,
    options: RunOptions,
    energy: EnergyModel,
    *,
    policy: Mapping[str, object],
    predictor: Mapping[str, object],
) -> dict[str, Any]:
    """Return every option of a run in a form for JSON.

    Options of the policy and the predictor have their values in force, see `Run`.
    """
    owners = (cluster, options, energy)
    fixed = {entry.name: getattr(owner, entry.name) for owner in owners for entry in fields(owner)}
    # A policy without look-ahead sees only the current step.
    named = {n: _plain(value) for n, value in {LOOK_AHEAD: 0, **policy, **fixed}.items()}
    return named | {"predictor_options": {n: _plain(v) for n, v in predictor.items()}}


def _plain(value: object) -> object:
    match value:
        case Drift():
            return {"increments": list(value.increments), "reading": value.reading.value}
        case Pairs():
            values = ((entry.name, getattr(value, entry.name)) for entry in fields(value))
            return {name: entry for name, entry in values if entry not in (None, inf)}
        case Enum():
            return value.value
        case Fraction():
            return str(value)
        case _:
            return value
