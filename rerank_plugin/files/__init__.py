"""Files: runs, atomic outputs, arrays, string tables, checksums, reports and pictures."""
