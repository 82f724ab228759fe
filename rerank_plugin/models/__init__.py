"""The models, a folder each, and the checkpoints they are kept in. Importing this needs neither Java nor torch."""
