"""Places of indexes: a kind that is registered opens, an unknown one is refused."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.locations import OPENERS, Opener, named_location, open_index
from rerank_plugin.options import location_of
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.search import arguments


class CountingIndex(Index):
    """Counts the searches."""

    searches = 0

    def search(self, first_stage, query, depth):
        CountingIndex.searches += 1
        return super().search(first_stage, query, depth)


@dataclass(frozen=True)
class Counted:
    """The kind of location ``counted://FOLDER``."""

    address: str = "here"

    @classmethod
    def parse(cls, url):
        return Path(url.removeprefix("counted://")), cls()

    def open(self, folder):
        return CountingIndex(folder)


def test_an_index_opens_as_its_place_says(index_folder, monkeypatch):
    OPENERS.built_in()
    monkeypatch.setitem(OPENERS.entries, "counted", Opener("counted", f"{__name__}:Counted", "counted", "any"))
    with Searcher(f"counted://{index_folder}") as searcher, Searcher(index_folder) as here:
        assert searcher.search("heart attack") == here.search("heart attack") != []
    assert CountingIndex.searches == 1
    assert location_of(arguments().parse_args(["--counted", "there"])) == Counted("there")


def test_other_places_are_refused_or_are_folders():
    with pytest.raises(InputError, match=r"unknown kind of location 'rai'.*ray"):
        open_index("rai://auto/folder")
    with pytest.raises(InputError, match="no index at ray:/folder"):
        open_index("./ray:/folder")
    assert named_location("ray://host:1/a%20b")[0] == Path("/a b") and named_location(Path("a")) is None
