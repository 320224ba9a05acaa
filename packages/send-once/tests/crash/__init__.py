"""Crash proof: a process is killed, or its disk refuses, at every system call of a ledger operation."""
