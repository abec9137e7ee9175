"""Analysis of records: roofline, scaling, bottleneck, time course; pure functions without measurements."""
