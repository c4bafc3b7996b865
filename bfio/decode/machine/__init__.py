"""The decode machine: one state of arrays, the phases of a step, and the loop of compiled runs.

The phases are plain Python functions. `bfio.decode.engine` calls them for any policy, without
compiling. `bfio.decode.machine.whole_run` compiles them with the kernel of a built-in policy into
one loop. `bfio.decode.features` holds the parts that only some runs use.
"""
