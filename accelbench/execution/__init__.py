"""Execution of a run: plan, schedule, worker processes, ranks and the run store."""
