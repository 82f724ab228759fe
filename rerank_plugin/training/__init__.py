"""Training: pairs, losses, the trainer and its log."""
