"""The numbers of host cores by which a law of cores can be told; the law itself is
`accelbench.profiling.analysis.cores_law`.

Who only asks for them, before anything is measured, need not load the law's numerical libraries.
"""

MIN_COUNTS = 3
"""The least number of core counts: two points fit any law."""
