"""The bundled sample collection and its generator."""

from pathlib import Path

FOLDER = Path(__file__).parent / "data"  # the bundled sample, a BEIR folder
