"""What a command found as one document: JSON, Markdown, JUnit XML that a CI server shows, and the terminal's table."""
