// One side: its name, its stages' times, and the documents with how far each moved.

import { element, withPlaces } from "./dom.js";
import { judge, judgement } from "./judgements.js";
import { retraction, summary } from "./stored.js";

const SNIPPET = 260; // code points
const STAGES = { first_stage_ms: "first stage", features_ms: "features", model_ms: "model", rest: "rest" };

/** The elements of a side. `open(docid)` opens a document. */
export function side(answer, open) {
  const name = answer.reranker === "none" ? answer.first_stage : answer.reranker;
  const late = answer.reranker !== "none" && !answer.reranked;
  return [
    element("h2", { class: "name" }, name, element("small", {}, ` ${answer.total} candidates`)),
    timings(answer.timings),
    late
      ? element("p", { class: "notice" }, "Not re-ranked within the deadline: this is the first stage's order.")
      : null,
    answer.candidates.length
      ? element("ol", { class: "hits" }, answer.candidates.map((one) => hit(one, answer, open)))
      : element("p", { class: "notice" }, "No document matches. Try other words, or fewer filters."),
  ].filter(Boolean);
}

function timings(times) {
  const spent = times.first_stage_ms + times.features_ms + times.model_ms;
  const all = { ...times, rest: Math.max(times.total_ms - spent, 0) };
  const said = (stage) => `${STAGES[stage]} ${all[stage].toFixed(1)} ms`;
  const parts = Object.keys(STAGES).map((stage) => {
    const part = element("span", { class: `stage ${stage}` });
    part.style.flexGrow = all[stage];
    return part;
  });
  const labels = Object.keys(STAGES).map((stage) => element("li", { class: stage }, said(stage)));
  return element(
    "div",
    { class: "timings" },
    element("div", { class: "bar", "aria-hidden": "true" }, parts),
    element("ul", { "aria-label": `Times of ${times.total_ms.toFixed(1)} ms in all` }, labels),
  );
}

function hit(one, answer, open) {
  const title = one.title || "No title";
  const abstract = one.doc?.abstract ?? one.doc?.contents ?? "";
  const stored = { ...one.doc, ...one.doc?.metadata }; // where BEIR and others keep it
  const places = (field) => one.highlights.filter((place) => place.field === field);
  return element(
    "li",
    { "data-docid": one.docid },
    element("span", { class: "rank" }, String(one.rank)),
    element(
      "div",
      {},
      element(
        "h3",
        { dir: "auto", class: one.title ? null : "untitled" },
        element("button", { class: "open", "aria-haspopup": "dialog", click: () => open(one.docid) },
          retraction(stored), one.title ? marks(title, places("title")) : title),
      ),
      summary(stored, one.docid),
      element("p", { class: "snippet", dir: "auto" }, snippet(abstract, places("abstract"))),
      element("div", { class: "below" },
        answer.reranker === "none" ? null : movement(one),
        element("span", { class: "score" }, one.score.toFixed(3)),
        judging(answer, one.docid, title)),
    ),
  );
}

const marks = (text, places) => withPlaces(text, places, (_, part) => element("mark", {}, part));

/** The abstract from the word a little before its first match. */
function snippet(text, places) {
  const points = Array.from(text);
  const near = (places[0]?.start ?? 0) - 60;
  const first = near > 0 ? Math.min(points.indexOf(" ", near) + 1 || near, places[0].start) : 0;
  const last = Math.min(first + SNIPPET, points.length);
  const inside = places.filter((place) => place.end <= last);
  const moved = inside.map((place) => ({ start: place.start - first, end: place.end - first }));
  return [first ? "… " : "", ...marks(points.slice(first, last).join(""), moved), last < points.length ? " …" : ""];
}

function movement(one) {
  const by = one.first_stage_rank - one.rank;
  const way = by > 0 ? "up" : by < 0 ? "down" : "same";
  const said = by ? `${by > 0 ? "▲" : "▼"} ${Math.abs(by)}` : "=";
  const text = by ? `${way} ${Math.abs(by)}, from rank ${one.first_stage_rank}` : "did not move";
  return element("span", { class: `move ${way}`, title: text }, element("span", { "aria-hidden": "true" }, said),
    element("span", { class: "unseen" }, text));
}

/** Two buttons; pressing the pressed one takes the judgement back. */
export function judging(answer, docid, title) {
  const { index, query } = answer;
  const button = (relevance, sign, name) =>
    element("button", {
      type: "button", class: "judge", "data-judge": docid, "data-relevance": relevance,
      "aria-pressed": String(judgement(index, query.text, docid) === relevance),
      "aria-label": `${name}: ${title}`, title: name,
      click: () => {
        const taken = judgement(index, query.text, docid) === relevance;
        judge(index, query.text, docid, taken ? undefined : relevance);
        showJudgements(index, query.text);
      },
    }, sign);
  return element("span", { class: "judging" }, button(1, "✓", "Relevant"), button(0, "✕", "Not relevant"));
}

function showJudgements(index, query) {
  for (const button of document.querySelectorAll("[data-judge]")) {
    const pressed = judgement(index, query, button.dataset.judge) === Number(button.dataset.relevance);
    button.setAttribute("aria-pressed", String(pressed));
  }
}
