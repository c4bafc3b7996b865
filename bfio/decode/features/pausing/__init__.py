"""Requests that rest for a step: they keep worker, slot and memory, and emit nothing.

For the step they are set aside, so that what measures, completes and grows sees only what runs;
afterwards they are taken back as they were, one step later. The phases of a step
(`bfio.decode.machine.phases`) know nothing of it, and compiled runs have nobody who rests.
"""
