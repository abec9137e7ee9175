"""What implements the benchmark `forked`: each module does something else as it is imported."""
