"""The command a user types: plan, runner, worker, store, report, compare."""

__version__ = "0.2.0"
