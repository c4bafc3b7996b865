"""The decode machine: one state of arrays, the phases of a step, and the loop of compiled runs.

Phases are plain Python functions. `bfio.decode.engine` calls them as they are, around any policy;
`bfio.decode.machine.whole_run` compiles them with the kernel of a built-in policy into one loop.
`bfio.decode.features` has the parts that only some runs use.
"""
