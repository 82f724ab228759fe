// The open document: title, source and abstract with the words of the query marked, similar articles, and, folded, why
// it is in the list.

import { get, indexPath } from "./api.js";
import { element, marked, withSpans } from "./dom.js";
import { explanationView } from "./explanation.js";
import { abstractOf, abstractView, headings, metadataOf, retraction, source, summary, texts } from "./metadata.js";
import { decisionButtons } from "./screening.js";
import { addressOf, asked } from "./state.js";

const SIMILAR = 5;

/** The contents of the dialog for the document `state.doc`.
 *
 * `pipeline` {first_stage, reranker} is of the list it was opened from, null without a query; `explained` opens the
 * explanation; `found`, if it is given, gets the document. */
export async function documentView(state, pipeline, { explained = false, buttons = [] } = {}) {
  const { index, doc: docid, query, syntax } = state;
  const { doc, highlights } = await get(indexPath(index, `doc/${encodeURIComponent(docid)}`), { query, query_syntax: query && syntax });
  const stored = metadataOf(doc ?? {});
  const title = stored.title || "No title";
  const abstract = abstractOf(stored);
  const spans = (field) => highlights.filter((highlight) => highlight.field === field);
  const [original, other] = [texts(stored.original_title), texts(stored.other_abstract).join(" ")];
  const view = [
    element("h2", { id: "document-title", dir: "auto", tabindex: "-1" },
      retraction(stored), withSpans(title, spans("title"), marked)),
    original.length ? element("p", { class: "details", dir: "auto" }, original) : null,
    ...source(stored, docid, index),
    element("div", { class: "below" }, state.screen ? decisionButtons(index, docid, title) : null, ...buttons(title)),
    abstract ? abstractView(abstract, spans("abstract"), marked) : element("p", { class: "abstract" }, "No abstract"),
    other ? element("details", { class: "why", open: !abstract }, element("summary", {}, "Abstract in other words or languages"), abstractView(other)) : null,
    pipeline && query ? why(state, pipeline, explained) : null,
    headings(stored, index),
    similar(state),
  ];
  return { title, view: view.filter(Boolean) };
}

/** The folded explanation, which is asked for when it is first opened. */
function why(state, pipeline, open) {
  const content = element("div", {}, "Explaining …");
  const load = async () => {
    if (!fold.open || fold.dataset.asked) return;
    fold.dataset.asked = "yes";
    try {
      const parameters = { ...asked(state), ...pipeline, docid: state.doc };
      content.replaceChildren(...explanationView(await get(indexPath(state.index, "explain"), parameters)));
    } catch (error) {
      delete fold.dataset.asked;
      content.replaceChildren(element("p", { role: "alert" }, error.message));
    }
  };
  const fold = element("details", { class: "why", open, toggle: load }, element("summary", {}, "Why is it in the list?"), content);
  return fold;
}

/** The section of similar articles; it stays empty for an index without encodings. */
function similar(state) {
  const section = element("section", { class: "similar", hidden: true }, element("h3", {}, "Similar articles"));
  const parameters = { docid: state.doc, hits: SIMILAR, fields: "title,authors,journal,date,types,languages,retracted,notices,metadata" };
  const row = ({ docid, title, doc }) => {
    const stored = metadataOf(doc);
    const address = addressOf({ ...state, doc: docid, side: "" });
    return element("li", {}, element("a", { href: address, "data-similar": docid, dir: "auto" }, retraction(stored), title || "No title"),
      summary(stored, docid));
  };
  get(indexPath(state.index, "similar"), parameters).then(({ candidates }) => {
    if (!candidates.length) return;
    section.append(element("ul", {}, candidates.map(row)));
    section.hidden = false;
  }, () => {});
  return section;
}
