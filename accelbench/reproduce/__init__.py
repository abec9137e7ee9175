"""The claims of published studies, judged by stored runs: confirmed, refuted, predicted, or why it cannot be told.

A claim becomes a verdict in this order: `paper` reads the claims of a study, each with the `points` that decide it and
its rule; `evidence` finds these points in the runs that were given; `times` makes ratios of them, with intervals; one
of the `rules` weighs these; and `verdict` is what comes out. `judging` does so for all claims of a study, and
`terminal_claims` and `claims_page` show it. `measuring` is about the run of a study that has none yet.
"""
