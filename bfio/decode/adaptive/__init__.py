"""The adaptive policy: it tunes itself by rehearsing its settings on a model of the current run.

A *setting* (`bfio.decode.adaptive.memory`) defines the look-ahead of BalanceRoute's two-stage
heuristic. From time to time, candidate settings are simulated on a *twin* of the machine
(`bfio.decode.adaptive.rehearsal`). Running requests keep their prompts, workers and ages, and get
lengths drawn from those of the run so far. Future requests are drawn from the same distribution.
The setting with the least imbalance decides from then on; earlier rehearsals count with a decaying
weight.
"""
