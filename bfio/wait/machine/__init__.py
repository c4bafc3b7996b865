"""The machine of one engine: arrays, the phases of a batch, and the loops of compiled runs.

Phases are plain Python functions. `bfio.wait.engine` calls them as they are, around any policy;
`bfio.wait.compiled` compiles them with the decisions of first come, first served into one loop.
Threshold policies run compiled by another algorithm, `bfio.wait.machine.cohorts`, with the same
arrivals, ends, times and record.
"""
