"""The models, one folder each, and their checkpoints. Importing this package needs neither Java nor torch.

Letters in shapes, in all of these modules: B batch, C candidates, N document words, M query words (m without padding),
U distinct words of the candidates, V vocabulary, D dimension of a word vector, F lexical features, K filters (padded to
a multiple of LANES on fast paths). A module's docstring explains its other letters and deviating meanings.
"""
