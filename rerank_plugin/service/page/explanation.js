// Why a document is in the list: in words, and behind a fold in numbers: its words shaded by contribution, the parts of the
// score, the match matrix.

import { element, withSpans } from "./dom.js";
import { matchMatrix } from "./matrix.js";
import { abstractView } from "./metadata.js";

const SHOWN_FEATURES = 8;

/** The elements that explain an answer of /explain. */
export function explanationView(explanation) {
  return [element("p", { class: "sentence" }, inWords(explanation.words)),
    element("details", { class: "numbers" }, element("summary", {}, "In numbers"), numbers(explanation))];
}

/** Where the words of the query are: "The title has statins; the abstract has cancer; it has no word like aspirin." */
function inWords({ title, abstract, neither }) {
  const list = (words) => new Intl.ListFormat("en").format(words.map((word) => `“${word}”`));
  const parts = [
    title.length ? `the title has ${list(title)}` : "",
    abstract.length ? `the abstract has ${list(abstract)}` : "",
    neither.length ? `${list(neither)} ${neither.length > 1 ? "are" : "is"} in neither title nor abstract` : "",
  ].filter(Boolean);
  if (!title.length && !abstract.length) return "It has none of the query’s words: its other words are close in meaning, or stand in its headings.";
  const text = parts.join("; ");
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

function numbers(explanation) {
  const ranks = explanation.reranker === "none"
    ? `Rank ${explanation.rank} by the first stage.`
    : `Rank ${explanation.rank} by ${explanation.reranker}, rank ${explanation.first_stage_rank} by the first stage.`;
  const reranked = explanation.reranker !== "none";
  return [
    element("p", { class: "ranks" }, reranked ? `${ranks} ${explanation.sentence}` : ranks),
    reranked ? element("p", { class: "shaded", dir: "auto" }, shaded(explanation, "title", withSpans)) : null,
    reranked && explanation.abstract ? shaded(explanation, "abstract", abstractView) : null,
    explanation.unread
      ? element("p", { class: "details" }, `The reranker does not read the last ${explanation.unread} words.`)
      : null,
    element("h3", {}, "Parts of the score"),
    scoreTable(explanation),
    ...(explanation.matrix[0]?.length
      ? [element("h3", {}, `Match matrix: ${explanation.matrix_name}`), matchMatrix(explanation)]
      : []),
  ].filter(Boolean);
}

/** Words shaded by contribution or, if the model has no contributions, by similarity to the query; in a `view` of a
 * text with spans. */
function shaded(explanation, field, view) {
  const weight = (word) => word.contribution ?? word.similarity ?? 0;
  const words = explanation.document_words;
  const largest = Math.max(...words.map((word) => Math.abs(weight(word))), 1e-9);
  const visible = words.filter((word) => word.field === field && Math.abs(weight(word)) > largest / 50);
  return view(explanation[field], visible, (word, text) => {
    const value = weight(word);
    const closest = explanation.query_words[word.closest];
    const like = closest ? `, like “${closest.text}”` : "";
    const mark = element("mark", { class: value < 0 ? "minus" : "plus", title: `${signed(value)}${like}` }, text);
    mark.style.setProperty("--share", Math.abs(value) / largest);
    return mark;
  });
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;

function scoreTable(explanation) {
  const words = (field) => explanation.document_words.filter((word) => word.field === field);
  const sum = (field) => words(field).reduce((total, word) => total + (word.contribution ?? 0), 0);
  const features = [...explanation.features].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
  const rest = features.slice(SHOWN_FEATURES).reduce((total, feature) => total + feature.contribution, 0);
  const label = (feature) => `${feature.name} = ${Number(feature.value).toFixed(3)}`;
  const parts = [
    ["base", explanation.base],
    ...(explanation.adds_up ? [["words of the title", sum("title")], ["words of the abstract", sum("abstract")]] : []),
    ...features.slice(0, SHOWN_FEATURES).map((feature) => [label(feature), feature.contribution]),
    ...(features.length > SHOWN_FEATURES ? [[`${features.length - SHOWN_FEATURES} more features`, rest]] : []),
  ];
  const largest = Math.max(...parts.map(([, value]) => Math.abs(value)), 1e-9);
  const rows = parts.map(([name, value]) => {
    const bar = element("span", { class: `amount ${value < 0 ? "minus" : "plus"}` });
    bar.style.width = `${(100 * Math.abs(value)) / largest}%`;
    return element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "number" }, signed(value)),
      element("td", { class: "drawn", "aria-hidden": "true" }, bar));
  });
  const precision = explanation.exact || explanation.error < 5e-5 ? "" : ` (within ${explanation.error.toFixed(4)}, by integrated gradients)`;
  const total = element("tr", { class: "total" }, element("th", { scope: "row" }, `score${precision}`),
    element("td", { class: "number" }, signed(explanation.score)), element("td"));
  return element("table", { class: "made-of" }, element("tbody", {}, rows, total));
}
