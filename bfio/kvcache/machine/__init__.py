"""The machine of a run: its state, the phases around a decision, and what built-in policies start.

Phases are plain Python functions. `bfio.kvcache.engine` calls them around any policy;
`bfio.kvcache.machine.whole_run` compiles them together with the admission of built-in policies.
"""
