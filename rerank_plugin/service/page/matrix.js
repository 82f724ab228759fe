// The match matrix as a heat map: the arrow keys move through its cells, and a line below shows the current cell.

import { element } from "./dom.js";

const SHOWN_WORDS = 40; // document words before "Show all"
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export function matchMatrix(explanation) {
  const container = element("div", { class: "matrix" });
  draw(container, explanation, bestColumns(explanation, SHOWN_WORDS));
  return container;
}

/** The columns of the document words that match best, in document order. */
function bestColumns(explanation, limit) {
  const { document_words: words, matrix } = explanation;
  const weight = (column) =>
    Math.abs(words[column].contribution ?? 0) * 1e6 + Math.max(...matrix.map((row) => row[column]));
  const columns = matrix[0].map((_, column) => column);
  return columns.sort((a, b) => weight(b) - weight(a)).slice(0, limit).sort((a, b) => a - b);
}

function draw(container, explanation, columns) {
  const { document_words: words, matrix, matrix_name: name } = explanation;
  const count = matrix[0].length;
  const largest = Math.max(...matrix.flat().map(Math.abs), 1e-9);
  const pooled = new Set(explanation.pooled.map(String));
  const reading = element("output", { class: "reading" }, "Point at a cell, or move with the arrow keys.");
  const rows = explanation.query_words.map((word, row) =>
    element("tr", {}, element("th", { scope: "row" }, word.text), columns.map((column) => {
      const value = matrix[row][column];
      const kept = pooled.has(`${row},${column}`);
      const label = `${word.text} × ${words[column].text}: ${name} ${value.toFixed(3)}${kept ? ", kept" : ""}`;
      const read = () => { reading.textContent = label; };
      const cell = element("td", { tabindex: "-1", class: `${value < 0 ? "minus" : "plus"}${kept ? " kept" : ""}`,
        "aria-label": label, mouseenter: read, focus: read });
      cell.style.setProperty("--share", Math.abs(value) / largest);
      return cell;
    })));
  rows[0]?.querySelector("td")?.setAttribute("tabindex", "0");
  const head = element("tr", {}, element("td", { class: "corner" }),
    columns.map((column) => element("th", { scope: "col" }, element("span", {}, words[column].text))));
  const grid = element("table", { role: "grid", "aria-label": `${name} of query words and document words`,
    keydown: (event) => moveFocus(event, rows) }, element("thead", {}, head), element("tbody", {}, rows));
  const more = columns.length < count
    ? element("button", { type: "button", click: () => draw(container, explanation, bestColumns(explanation, count)) },
        `Show all ${count} words`)
    : null;
  const parts = [element("div", { class: "scrolled" }, grid), reading, more];
  container.replaceChildren(...parts.filter(Boolean));
}

function moveFocus(event, rows) {
  const step = STEPS[event.key];
  if (!step || event.target.tagName !== "TD") return;
  event.preventDefault();
  const row = rows.findIndex((candidate) => candidate.contains(event.target));
  const cells = [...rows[row].querySelectorAll("td")];
  const next = rows[row + step[0]]?.querySelectorAll("td")[cells.indexOf(event.target) + step[1]];
  if (!next) return;
  event.target.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}
