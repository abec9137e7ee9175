"""Training on several devices and in several processes, with the frameworks' own engines.

A strategy defines how the replicas of a model are kept in sync; it is an axis of the distributed workloads. Each
strategy is one module of this package, named as the axis value, with one class that declares its backends and layouts.
The `batch` of a point is the global batch (`scaling=strong`) or the batch per replica (`scaling=weak`).
"""
