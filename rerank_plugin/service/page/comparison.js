// Two rankings of a query side by side: a first stage and a reranker on each, joined by lines; their times; judgments.

import { get, indexPath } from "./api.js";
import { byId, element, setOptions } from "./dom.js";
import { download } from "./exports.js";
import { judge, judgment, qrels, run } from "./judgements.js";
import { drawLines, highlightDocument } from "./lines.js";
import { hitView } from "./list.js";
import { asked } from "./state.js";

export const SIDES = ["left", "right"];
const STAGES = { first_stage_ms: "first stage", features_ms: "features", model_ms: "model", rest: "rest" };

/** The pipeline of a side: `bm25,delta` is a first stage and rerankers. */
export function pipelineOf(text) {
  const [first_stage, ...rerankers] = text.split(",");
  return { first_stage, reranker: rerankers.join(",") || "none" };
}

const textOf = ({ first_stage, reranker }) => (reranker === "none" ? first_stage : `${first_stage},${reranker}`);

/** The sides that are compared unless others are chosen: BM25 alone, and the ranking of the list. */
export function defaultSides(index, state) {
  return { left: "bm25", right: textOf({ first_stage: state.stage, reranker: state.reranker }) };
}

/** Fill the selects of both sides; `change({left, right})` compares others. */
export function fillSides(index, state, change) {
  for (const side of SIDES) {
    const { first_stage, reranker } = pipelineOf(state[side]);
    const rerankers = [...new Set(["none", ...index.rerankers, reranker])]; // an address may have several in a row
    setOptions(byId(`${side}-stage`), index.first_stages, first_stage);
    setOptions(byId(`${side}-reranker`), rerankers, reranker, (name) => (name === "none" ? "no reranker" : name.replaceAll(",", ", then ")));
    for (const part of ["stage", "reranker"])
      byId(`${side}-${part}`).onchange = () => change({ [side]: textOf({ first_stage: byId(`${side}-stage`).value, reranker: byId(`${side}-reranker`).value }) });
  }
}

/** Search both sides and show them; returns their answers {left, right}. `open(event, docid, side)` opens a document. */
export async function compare(state, signal, open) {
  const answers = {};
  const { sort, hits, index } = state;
  for (const side of SIDES) // not concurrently: each search shows its own times
    answers[side] = await get(indexPath(index, "search"), { ...asked(state), ...pipelineOf(state[side]), hits, sort }, signal);
  for (const side of SIDES) {
    byId(`side-${side}`).replaceChildren(...sideView(answers[side], state, (event, docid) => open(event, docid, side)));
    byId(`run-${side}`).disabled = answers[side].shards !== null; // lacks documents
    byId(`run-${side}`).onclick = () => download(`${index}-${side}.run`, run(answers[side]));
  }
  byId("qrels").onclick = () => download(`${index}.qrels`, qrels(index));
  return answers;
}

function sideView(answer, state, open) {
  const late = answer.reranker !== "none" && !answer.reranked;
  const below = (hit) => element("div", { class: "below" }, answer.reranker === "none" ? null : rankChange(hit),
    element("span", { class: "score" }, hit.score.toFixed(3)), judgmentButtons(answer, hit.docid, hit.title || "No title"));
  return [
    element("p", { class: "candidates" }, `${answer.total} candidates`),
    timings(answer.timings),
    late ? element("p", { class: "notice" }, "Not re-ranked before the deadline: this is the first-stage ranking.") : null,
    answer.candidates.length
      ? element("ol", { class: "hits" }, answer.candidates.map((hit) => hitView(hit, { ...state, screen: "" }, open, below(hit))))
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
  return element("div", { class: "timings" }, element("div", { class: "bar", "aria-hidden": "true" }, parts),
    element("ul", { "aria-label": `Stage times, ${times.total_ms.toFixed(1)} ms in total` }, labels));
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

for (const name of ["pointerover", "focusin"]) byId("sides").addEventListener(name, highlightDocument);
addEventListener("resize", drawLines);
