"""Mark of all results of the simulated GPU, in its name and in the methods of verifications."""

MARK = "PTX interpreter, no GPU"
