"""Files and what is said about them: records, run files, folders that appear whole, arrays, string tables, the JVM."""
