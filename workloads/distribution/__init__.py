"""Training on several devices and in several processes, by the engines that the frameworks have.

A strategy says how the replicas of a model learn together; it is an axis of the workloads that can be distributed. Each
is one file of this folder, named as the axis names it, with one class that says for which backends it is and where it
trains. The `batch` of a point is that of all replicas together (`scaling=strong`), or that of each (`scaling=weak`).
"""
