"""The sections of the report: each file here declares one, as `section` (`accelbench.report.section`)."""
