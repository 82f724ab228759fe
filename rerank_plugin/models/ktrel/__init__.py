"""KTRel ([K] 3): the module and what scores from its encodings."""
