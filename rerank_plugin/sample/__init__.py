"""The bundled sample collection and its generator."""
