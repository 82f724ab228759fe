// The list of a search: how many were found, its hits, its pages.

import { counted, element, marked, number, withSpans } from "./dom.js";
import { abstractOf, metadataOf, retraction, summary } from "./metadata.js";
import { decisionButtons, decisionOf } from "./screening.js";
import { addressOf } from "./state.js";

const SNIPPET_LENGTH = 320; // code points

/** How many documents a list has, and of how many. */
export function foundText(answer, state) {
  if (state.screen === "undecided") return `${number(answer.total)} undecided`;
  if (answer.matches !== null)
    return `${number(answer.matches)} found${answer.total < answer.matches ? `, ${number(answer.total)} of them ranked` : ""}`;
  const isComplete = answer.total < answer.depth && !answer.first_stage.startsWith("hybrid"); // which finds by meaning, too
  return isComplete ? `${number(answer.total)} found` : `Best ${number(answer.total)}`;
}

/** The elements of a list; `open(event, docid)` opens a document. */
export function listView(answer, state, open) {
  const late = answer.reranker !== "none" && !answer.reranked;
  const first = (Number(state.page) - 1) * Number(state.hits) + 1;
  return [
    late ? element("p", { class: "notice" }, "Not re-ranked before the deadline: this is the first-stage ranking.") : null,
    answer.candidates.length
      ? element("ol", { class: "hits", start: first }, answer.candidates.map((hit) => hitView(hit, state, open)))
      : element("p", { class: "notice" }, emptyText(answer, state)),
    pager(answer.total, state),
  ].filter(Boolean);
}

function emptyText(answer, state) {
  if (Number(state.page) > 1 && answer.total) return "The list ends before this page.";
  if (state.screen === "undecided") return "All documents of this search are decided.";
  return "No document matches. Try other words, or fewer filters.";
}

/** A hit of a list or of a side; `below` are the elements below its snippet. */
export function hitView(hit, state, open, below = null) {
  const title = hit.title || "No title";
  const stored = metadataOf(hit.doc ?? {});
  const highlights = (field) => hit.highlights.filter((highlight) => highlight.field === field);
  const decision = state.screen ? decisionOf(state.index, hit.docid) : undefined;
  const address = addressOf({ ...state, doc: hit.docid });
  return element("li", { "data-docid": hit.docid, "data-title": title, "data-decision": decision ?? null },
    element("span", { class: "rank", "aria-hidden": "true" }, String(hit.rank)),
    element("div", {},
      element("h3", { dir: "auto", class: hit.title ? null : "untitled" },
        element("a", { class: "open", href: address, "aria-haspopup": "dialog", click: (event) => open(event, hit.docid) },
          retraction(stored), hit.title ? withSpans(title, highlights("title"), marked) : title)),
      summary(stored, hit.docid),
      element("p", { class: "snippet", dir: "auto" }, snippet(abstractOf(stored), highlights("abstract"))),
      below ?? (state.screen ? element("div", { class: "below" }, decisionButtons(state.index, hit.docid, title)) : null)));
}

/** The part of an abstract that begins at a word shortly before its first match. */
function snippet(text, highlights) {
  const points = Array.from(text);
  const near = (highlights[0]?.start ?? 0) - 60;
  const start = near > 0 ? Math.min(points.indexOf(" ", near) + 1 || near, highlights[0].start) : 0;
  const end = Math.min(start + SNIPPET_LENGTH, points.length);
  const inside = highlights.filter((highlight) => highlight.end <= end);
  const shifted = inside.map((highlight) => ({ start: highlight.start - start, end: highlight.end - start }));
  return [start ? "… " : "", ...withSpans(points.slice(start, end).join(""), shifted, marked), end < points.length ? " …" : ""];
}

function pager(total, state) {
  const page = Number(state.page);
  const pages = Math.ceil(total / Number(state.hits));
  if (pages < 2 || state.screen === "undecided") return null;
  const link = (name, to) => (to < 1 || to > pages ? null
    : element("a", { href: addressOf({ ...state, page: String(to) }), "data-page": to, rel: to > page ? "next" : "prev" }, name));
  return element("nav", { class: "pager", "aria-label": "Pages" },
    link("First", page > 2 ? 1 : 0), link("Previous", page - 1),
    element("span", {}, `Page ${number(page)} of ${number(pages)}`), link("Next", page + 1));
}

/** How a query was read, with a button that reads it as plain words, and one that asks for a text to rank by. */
export function readAs(answer, state, actions) {
  const text = `${answer.read_as}: ${counted(answer.matches, "document")}.`;
  return element("div", { class: "understood" },
    element("p", {}, "Read as ", element("b", { dir: "auto" }, text)),
    element("button", { type: "button", id: "plain", click: actions.plain }, "Search as plain words"),
    element("button", { type: "button", id: "ask-rank", click: actions.rankBy }, state.rank ? `Ranked by “${state.rank}”` : "Rank by a question"));
}
