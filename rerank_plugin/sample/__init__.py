"""The bundled collection: the program that makes it, and its files."""
