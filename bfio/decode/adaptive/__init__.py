"""The adaptive policy, which chooses its look-ahead by simulating candidates during the run.

A *setting* (`bfio.decode.adaptive.memory`) defines the look-ahead of BalanceRoute's two-stage
heuristic. From time to time, a *rehearsal* simulates candidate settings on a copy of the machine's
state, the *twin* (`bfio.decode.adaptive.rehearsal`). In the twin, running requests keep their
prompts, workers and ages. Their output lengths, and all future requests, are drawn from the
requests of the run so far. The setting with the least imbalance is used until the next rehearsal.
Scores of earlier rehearsals count with decaying weight.
"""
