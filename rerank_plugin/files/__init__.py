"""Files: records, run files, atomic outputs, arrays, string tables, logging, and the start of the JVM."""
