// The ranking on one side: its name, its stage times, and its hits with their rank changes.

import { element, withSpans } from "./dom.js";
import { judge, judgment } from "./judgements.js";
import { retraction, summary } from "./stored.js";

const SNIPPET_LENGTH = 260; // code points
const STAGES = { first_stage_ms: "first stage", features_ms: "features", model_ms: "model", rest: "rest" };

/** The elements of a ranking. `open(docid)` opens a document. */
export function rankingView(answer, open) {
  const name = answer.reranker === "none" ? answer.first_stage : answer.reranker;
  const late = answer.reranker !== "none" && !answer.reranked;
  return [
    element("h2", { class: "name" }, name, element("small", {}, ` ${answer.total} candidates`)),
    timings(answer.timings),
    late
      ? element("p", { class: "notice" }, "Not re-ranked before the deadline: this is the first-stage ranking.")
      : null,
    answer.candidates.length
      ? element("ol", { class: "hits" }, answer.candidates.map((hit) => hitView(hit, answer, open)))
      : element("p", { class: "notice" }, "No document matches. Try other words, or fewer filters."),
  ].filter(Boolean);
}

function timings(times) {
  const spent = times.first_stage_ms + times.features_ms + times.model_ms;
  const stages = { ...times, rest: Math.max(times.total_ms - spent, 0) };
  const label = (stage) => `${STAGES[stage]} ${stages[stage].toFixed(1)} ms`;
  const parts = Object.keys(STAGES).map((stage) => {
    const part = element("span", { class: `stage ${stage}` });
    part.style.flexGrow = stages[stage];
    return part;
  });
  const labels = Object.keys(STAGES).map((stage) => element("li", { class: stage }, label(stage)));
  return element(
    "div",
    { class: "timings" },
    element("div", { class: "bar", "aria-hidden": "true" }, parts),
    element("ul", { "aria-label": `Stage times, ${times.total_ms.toFixed(1)} ms in total` }, labels),
  );
}

function hitView(hit, answer, open) {
  const title = hit.title || "No title";
  const abstract = hit.doc?.abstract ?? hit.doc?.contents ?? "";
  const stored = { ...hit.doc, ...hit.doc?.metadata }; // BEIR and others nest metadata
  const highlights = (field) => hit.highlights.filter((highlight) => highlight.field === field);
  return element(
    "li",
    { "data-docid": hit.docid },
    element("span", { class: "rank" }, String(hit.rank)),
    element(
      "div",
      {},
      element(
        "h3",
        { dir: "auto", class: hit.title ? null : "untitled" },
        element("button", { class: "open", "aria-haspopup": "dialog", click: () => open(hit.docid) },
          retraction(stored), hit.title ? marks(title, highlights("title")) : title),
      ),
      summary(stored, hit.docid),
      element("p", { class: "snippet", dir: "auto" }, snippet(abstract, highlights("abstract"))),
      element("div", { class: "below" },
        answer.reranker === "none" ? null : rankChange(hit),
        element("span", { class: "score" }, hit.score.toFixed(3)),
        judgmentButtons(answer, hit.docid, title)),
    ),
  );
}

const marks = (text, spans) => withSpans(text, spans, (_, part) => element("mark", {}, part));

/** The part of an abstract that begins at a word shortly before its first match. */
function snippet(text, highlights) {
  const points = Array.from(text);
  const near = (highlights[0]?.start ?? 0) - 60;
  const start = near > 0 ? Math.min(points.indexOf(" ", near) + 1 || near, highlights[0].start) : 0;
  const end = Math.min(start + SNIPPET_LENGTH, points.length);
  const inside = highlights.filter((highlight) => highlight.end <= end);
  const shifted = inside.map((highlight) => ({ start: highlight.start - start, end: highlight.end - start }));
  return [start ? "… " : "", ...marks(points.slice(start, end).join(""), shifted), end < points.length ? " …" : ""];
}

function rankChange(hit) {
  const change = hit.first_stage_rank - hit.rank;
  const direction = change > 0 ? "up" : change < 0 ? "down" : "same";
  const sign = change ? `${change > 0 ? "▲" : "▼"} ${Math.abs(change)}` : "=";
  const text = change ? `${direction} ${Math.abs(change)}, from rank ${hit.first_stage_rank}` : "same rank";
  return element("span", { class: `move ${direction}`, title: text }, element("span", { "aria-hidden": "true" }, sign),
    element("span", { class: "visually-hidden" }, text));
}

/** Buttons for relevant and not relevant; pressing a pressed button removes the judgment. */
export function judgmentButtons(answer, docid, title) {
  const { index, query } = answer;
  const button = (relevance, sign, name) =>
    element("button", {
      type: "button", class: "judge", "data-judge": docid, "data-relevance": relevance,
      "aria-pressed": String(judgment(index, query.text, docid) === relevance),
      "aria-label": `${name}: ${title}`, title: name,
      click: () => {
        const pressed = judgment(index, query.text, docid) === relevance;
        judge(index, query.text, docid, pressed ? undefined : relevance);
        showJudgments(index, query.text);
      },
    }, sign);
  return element("span", { class: "judging" }, button(1, "✓", "Relevant"), button(0, "✕", "Not relevant"));
}

function showJudgments(index, query) {
  for (const button of document.querySelectorAll("[data-judge]")) {
    const pressed = judgment(index, query, button.dataset.judge) === Number(button.dataset.relevance);
    button.setAttribute("aria-pressed", String(pressed));
  }
}
