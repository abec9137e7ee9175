"""Verdicts on the claims of published studies, from stored runs.

`paper` reads a study's TOML file. `observations` selects the measured points of a claim, `pairs` compares their times,
and a predicate of `rules` (or of `cores`) combines the comparisons into a `verdict`. `judging` does so for every claim;
`terminal_claims` and `claims_page` print the result.
"""
