"""Delta ([D18] 3): the module, its fast paths, and the weights that come with the package."""
