"""What remains of a run: its tables with room to spare while it goes on, frozen when it ends."""

from collections.abc import Mapping

import numpy as np

from bfio.common.engine_choice import Engine
from bfio.wait.instance import StageInstance
from bfio.wait.logs import SpanLog
from bfio.wait.machine.state import (
    BATCH,
    COMPLETED,
    EVICTED,
    NONE,
    REVEALED,
    ROWS,
    Course,
    Presence,
    with_rows,
)
from bfio.wait.run import EventLog, Evictions, StageBatches, StageRun, StageVerdict
from formulations.arrays import IntArray, frozen, frozen_columns


def with_room(course: Course, there: Presence) -> tuple[Course, Presence]:
    """Return the same with more rows where `bfio.wait.machine.phases.has_room` misses some."""
    counters = course.counters
    present = int(counters[REVEALED] - counters[COMPLETED])
    batches = with_rows(course.batches, int(counters[BATCH]) + 1)
    spans = with_rows(there.spans, int(counters[ROWS]) + present)
    evictions = with_rows(there.evictions, int(counters[EVICTED]) + present)
    return course._replace(batches=batches), there._replace(spans=spans, evictions=evictions)


def span_log(course: Course, there: Presence) -> SpanLog:
    """Return all spans, those that were still open when the run ended included."""
    i = np.flatnonzero(there.last_batch != NONE)
    first, count = there.first_batch[i], there.last_batch[i] - there.first_batch[i] + 1
    still_open = np.column_stack((i, first, there.first_stage[i], count))
    closed = there.spans[: course.counters[ROWS]]
    return SpanLog(*frozen_columns(np.concatenate((closed, still_open))))


def finished_run(
    instance: StageInstance,
    policy: str,
    course: Course,
    ended: int,
    evictions: IntArray,
    log: EventLog,
    engine: Engine,
    statistics: Mapping[str, object] | None = None,
) -> StageRun:
    """Freeze what happened into a `StageRun`."""
    verdict = list(StageVerdict)[ended - 1]
    duration = None if course.ending.duration == NONE else course.ending.duration
    if duration is not None and verdict is not StageVerdict.STOPPED:
        verdict = StageVerdict.HORIZON
    return StageRun(
        instance=instance,
        policy=policy,
        verdict=verdict,
        duration=duration,
        batches=StageBatches(*frozen_columns(course.batches[: course.counters[BATCH]])),
        prefilled=frozen(course.prefilled),
        first_token=frozen(course.first_token),
        completion=frozen(course.completion),
        evictions=Evictions(*frozen_columns(evictions[: course.counters[EVICTED]])),
        log=log,
        statistics=statistics or {},
        engine=engine,
    )
