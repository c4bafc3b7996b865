"""The policy that tunes itself: it rehearses its settings on a model of the run at hand.

A *setting* (`bfio.decode.adaptive.memory`) says how the two-stage heuristic of BalanceRoute
looks ahead. Now and then every setting is played through on a *twin* of the machine: the requests
that run keep their prompts, workers and ages, and get lengths drawn from those of the run so far
(`bfio.decode.adaptive.rehearsal`); requests to come are drawn from the same. The setting with the
least imbalance, rehearsals before counted half as much each time, decides from then on
(`bfio.decode.adaptive.rehearsal`).
"""
