"""Prefix caches: which blocks of prompts each worker keeps, the one used last the longest.

A worker has a table of as many places as it keeps blocks. Each place stands in two lists: that of
its bucket, by which a block is found, and that of all places in order of their last use. Finding,
using and dropping a block take the same time however many are kept.

A request that starts uses the first blocks of its prompt, the last of them first: what is dropped
is then the end of a prompt before its beginning, without which nothing of it counts.
"""
