"""The models, a folder each, and the checkpoints they are kept in. Importing this needs neither Java nor torch.

Letters in shapes, in all of these modules: B batch, C candidates, N document words, M query words (m without padding),
U distinct words of the candidates, V vocabulary, D dimension of a word vector, F lexical features, K filters (padded to
a multiple of LANES on fast paths). A module says which others it has, or what a letter means there instead.
"""
