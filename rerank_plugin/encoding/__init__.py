"""What models make of an index: encodings, judged queries, the adapted encoder; and its updates, which keep them."""
