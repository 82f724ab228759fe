"""The papers' experiments on any judged collection: what is run, in which order, and the page that is written of it."""
