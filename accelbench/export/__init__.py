"""What a command found, written for programs: JSON, a Markdown table, or JUnit XML that a CI server shows."""
