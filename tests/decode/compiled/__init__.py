"""Tests of the compiled engine against the readable one."""
