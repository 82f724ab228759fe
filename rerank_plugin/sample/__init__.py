"""The bundled collection: the program that makes it, and its files."""

from pathlib import Path

FOLDER = Path(__file__).parent / "data"  # the sample that comes with the package, as a BEIR folder
