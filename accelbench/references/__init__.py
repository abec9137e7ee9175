"""Is my number normal? What others measured on the same card or CPU, beside what was measured here."""
