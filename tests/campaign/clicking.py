"""Commands of the campaign's own: clicks into a log of the service, a check of it, a mirror of a folder, and a command
again and again."""

import json
from collections import Counter
from pathlib import Path

SHOWN = [f"d{number}" for number in range(5)]
DONE = "done"  # the file that ends a repetition


def log(argv):
    """Log 30 clicks into a file, as the service does; a full file is replaced by a new one."""
    from rerank_plugin.service.click_log import Click, ClickLog

    written = ClickLog(argv[0], 6000)
    for number in range(30):
        written.append(Click("made", f"query {number}", tuple(SHOWN), "d2", 3, f"session {number}", 1.5))
    written.close()


def check(argv):
    """Every click in a log is whole, once what a kill left was removed; the service does that when it starts."""
    from rerank_plugin.service.click_log import HEADER, ClickLog

    if Path(argv[0]).exists():
        ClickLog(argv[0], 6000).close()
    for path in sorted(Path().glob("made*.tsv")):
        content = path.read_bytes()
        lines = content.removeprefix(HEADER).decode().splitlines()
        assert content.startswith(HEADER) and content.endswith(b"\n"), f"{path} does not begin or end with a line"
        assert all(line.count("\t") == HEADER.count(b"\t") for line in lines), f"{path} has a line that was cut"
        shown = Counter(line.partition("\t")[0] for line in lines)
        assert all(count % len(SHOWN) == 0 for count in shown.values()), f"{path} has a click that is not whole"


def repeat(argv):
    """Run a command until the file `DONE` is there, and twice at least; its N in the arguments counts the times.

    Its statuses, and the last lines of those that were refused, are a line of JSON.
    """
    from tests.campaign.children import run_quietly

    ended = []
    while len(ended) < 2 or not Path(DONE).exists():
        status, err = run_quietly([part.replace("N", str(len(ended))) for part in argv])
        ended.append([status, err.strip().splitlines()[-1:] if status else []])
    print(json.dumps(ended))


def sync(argv):
    """Mirror a folder, which is served meanwhile."""
    from rerank_plugin.pubmed.__main__ import main
    from tests.pubmed.faulty_server import serving

    with serving(argv[0]) as server:
        main(["sync", "--base-url", server.url, "--mirror", argv[1], "--rate", "1000"])


OWN = {"sync-from": sync, "log-clicks": log, "check-clicks": check, "repeat": repeat}
