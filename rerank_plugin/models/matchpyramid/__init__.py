"""MatchPyramid: the module and its fast path."""
