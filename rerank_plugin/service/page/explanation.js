// The open document: why it moved, its words shaded by what they add, what the score is made of, and the match matrix.

import { element, withPlaces } from "./dom.js";
import { matrixOf } from "./matrix.js";
import { judging } from "./results.js";
import { headings, retraction, source } from "./stored.js";

const FEATURES = 8;

/** The contents of the dialog of an explanation. */
export function explanation(found) {
  return [
    element("h2", { id: "document-title", dir: "auto", tabindex: "-1" },
      retraction(found.metadata), found.title ? shaded(found, "title") : "No title"),
    ...source(found.metadata, found.docid),
    element("p", { class: "details" },
      `Ranked by ${found.reranker} at ${found.rank}, before at ${found.first_stage_rank} `,
      judging(found, found.docid, found.title || "No title")),
    element("p", { class: "sentence" }, found.sentence),
    element("p", { class: "abstract", dir: "auto" }, found.abstract ? shaded(found, "abstract") : "No abstract"),
    found.unread
      ? element("p", { class: "details" }, `The reranker does not read the last ${found.unread} words.`)
      : null,
    headings(found.metadata),
    element("h3", {}, "What the score is made of"),
    madeOf(found),
    ...(found.matrix[0]?.length ? [element("h3", {}, `Match matrix: ${found.matrix_name}`), matrixOf(found)] : []),
  ].filter(Boolean);
}

/** Words shaded by their contribution; where that is not known, by their similarity to the query. */
function shaded(found, field) {
  const weight = (word) => word.contribution ?? word.similarity ?? 0;
  const most = Math.max(...found.document_words.map((word) => Math.abs(weight(word))), 1e-9);
  const words = found.document_words.filter((word) => word.field === field && Math.abs(weight(word)) > most / 50);
  return withPlaces(found[field], words, (word, text) => {
    const value = weight(word);
    const closest = found.query_words[word.closest];
    const like = closest ? `, like “${closest.text}”` : "";
    const mark = element("mark", { class: value < 0 ? "minus" : "plus", title: `${signed(value)}${like}` }, text);
    mark.style.setProperty("--share", Math.abs(value) / most);
    return mark;
  });
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;

function madeOf(found) {
  const words = (field) => found.document_words.filter((word) => word.field === field);
  const sum = (field) => words(field).reduce((all, word) => all + (word.contribution ?? 0), 0);
  const features = [...found.features].sort((one, other) => Math.abs(other.contribution) - Math.abs(one.contribution));
  const rest = features.slice(FEATURES).reduce((all, one) => all + one.contribution, 0);
  const parts = [
    ["base", found.base],
    ...(found.adds_up ? [["words of the title", sum("title")], ["words of the abstract", sum("abstract")]] : []),
    ...features.slice(0, FEATURES).map((one) => [`${one.name} = ${Number(one.value).toFixed(3)}`, one.contribution]),
    ...(features.length > FEATURES ? [[`${features.length - FEATURES} more features`, rest]] : []),
  ];
  const most = Math.max(...parts.map(([, value]) => Math.abs(value)), 1e-9);
  const rows = parts.map(([name, value]) => {
    const bar = element("span", { class: `amount ${value < 0 ? "minus" : "plus"}` });
    bar.style.width = `${(100 * Math.abs(value)) / most}%`;
    return element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "number" }, signed(value)),
      element("td", { class: "drawn", "aria-hidden": "true" }, bar));
  });
  const how = found.exact ? "" : ` (within ${found.error.toFixed(4)}, by integrated gradients)`;
  const total = element("tr", { class: "total" }, element("th", { scope: "row" }, `score${how}`),
    element("td", { class: "number" }, signed(found.score)), element("td"));
  return element("table", { class: "made-of" }, element("tbody", {}, rows, total));
}
