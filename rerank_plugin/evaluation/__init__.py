"""Measures, significance tests and reports.

* `measures`: names of measures, and the providers that compute them
* `graded`: NDCG with gain 2^rel - 1, and ERR
* `values`: the value of each measure for each judged query
* `significance`: the paired t-test with Bonferroni correction, and the agreement of two runs
* `evaluation`: several runs together
* `report`: table, Markdown, CSV, JSON
* `marks`: the table of [D18] with its significance marks
* `letters`: the significance letters of [P], and its table 1
* `many_runs`: many runs before and after re-ranking, [P] table 2 and figure 3
* `document_pairs`: pairs of documents with different labels, [P] table 3 and figure 4
* `subsets`: parts of the judged queries
* `fusing`: fused runs, and the tuning of their weights
* `run_names`, `subset_options`: what the options of the command mean
"""
