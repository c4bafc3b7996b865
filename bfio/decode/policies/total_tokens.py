"""Total tokens: as `minimum-tokens`, and the output that is not in a report yet counts."""

from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.reports import ReportedTokens, reports_kernel

#: Reports ride on streamed output, every so many tokens in the measurement of the source.
REPORT_EVERY = 60

SPEC = PolicySpec(
    name="total-tokens",
    factory=lambda options: ReportedTokens(options.report_every or REPORT_EVERY, growth=1),
    summary="minimum-tokens, and a token per step and request since the report (--report-every)",
    source="sglang issue 16080, pull request 25235",
    dispatch=BOTH_DISPATCHES,
    kernel=reports_kernel(REPORT_EVERY, growth=1),
    defaults={"report_every": REPORT_EVERY},
    reads=lambda options: ("report_every",),
)
