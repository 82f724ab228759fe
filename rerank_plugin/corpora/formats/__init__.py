"""The formats, one a file, each ending with its registration."""
