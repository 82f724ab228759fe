"""The index folder: Lucene index, forward index, candidates, collection statistics, stored encodings."""
