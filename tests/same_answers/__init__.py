"""The same commands before and after a change: a fixed list, and a comparison of their answers."""
