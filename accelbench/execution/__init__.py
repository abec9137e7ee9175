"""The way from the plan to the records: the processes that measure, and the store that they write to."""
