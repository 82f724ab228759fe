// Creates elements. Texts become text nodes, so nothing in a document is parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An element with children and attributes: a function is a listener; null and false are omitted. */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svgElement(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** The parts of a text, with `mark(span, part)` for each of the spans [{start, end}], which count code points. */
export function withSpans(text, spans, mark) {
  const points = Array.from(text);
  const parts = [];
  let end = 0;
  for (const span of spans) {
    parts.push(points.slice(end, span.start).join(""), mark(span, points.slice(span.start, span.end).join("")));
    end = span.end;
  }
  return [...parts, points.slice(end).join("")];
}

export const marked = (_, part) => element("mark", {}, part);

/** The options of a select, whose value is then set. */
export function setOptions(select, names, value, label = (name) => name) {
  select.replaceChildren(...names.map((name) => element("option", { value: name }, label(name))));
  select.value = value;
}

/** A menu: a fold with buttons, which closes when one is used, with Escape, and when the focus leaves it. */
export function menu(name, ...children) {
  const close = (event) => {
    if (event.type === "keydown" ? event.key === "Escape" : !fold.contains(event.relatedTarget)) fold.open = false;
  };
  const fold = element("details", { class: "menu", keydown: close, focusout: close },
    element("summary", {}, name), element("div", { class: "items", click: (event) => {
      if (event.target.tagName === "BUTTON") fold.open = false;
    } }, children));
  return fold;
}

export const number = (count) => count.toLocaleString("en");
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
