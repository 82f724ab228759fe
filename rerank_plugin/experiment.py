"""``rerank-plugin experiment``: says where the experiments of the papers are, outside this package."""

from rerank_plugin import options as commandline
from rerank_plugin.files.errors import InputError


def main(argv: list[str] | None = None) -> None:
    raise InputError("the experiments are in the repository: run 'python -m experiments PAPER ...' from its root")


if __name__ == "__main__":
    commandline.run(main)
