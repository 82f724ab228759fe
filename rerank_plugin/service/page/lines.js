// Lines between the same documents of both sides.

import { byId, svgElement } from "./dom.js";

export function drawLines() {
  const picture = byId("lines");
  const frame = picture.getBoundingClientRect();
  const rows = (side) => new Map([...byId(side).querySelectorAll("[data-docid]")].map((row) => [row.dataset.docid, row]));
  const height = (row) => {
    const box = row.getBoundingClientRect();
    return box.top + Math.min(box.height / 2, 40) - frame.top;
  };
  const right = rows("side-right");
  const lines = [];
  for (const [docid, row] of rows("side-left")) {
    if (!right.has(docid)) continue;
    const [from, to, half] = [height(row), height(right.get(docid)), frame.width / 2];
    const way = Math.abs(to - from) < 8 ? "same" : to < from ? "up" : "down";
    const d = `M0 ${from}C${half} ${from} ${half} ${to} ${frame.width} ${to}`;
    lines.push(svgElement("path", { d, class: way, "data-line": docid }));
  }
  picture.replaceChildren(...lines);
}

/** Show which line and rows are of the document that the pointer or the focus is at. */
export function followDocument(event) {
  const docid = event.target.closest?.("[data-docid]")?.dataset.docid;
  for (const one of byId("sides").querySelectorAll("[data-docid], [data-line]"))
    one.classList.toggle("at", (one.dataset.docid ?? one.dataset.line) === docid);
}
