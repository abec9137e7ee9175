"""Result of a command as a document in JSON, Markdown, JUnit XML or as a terminal table."""
