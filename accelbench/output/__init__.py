"""Output to people and files: number formats, plain text, the console, atomic writes."""
