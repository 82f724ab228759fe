"""Tokenizer, vocabulary and word vectors ([D18] sections 3.1 and 4.1)."""
