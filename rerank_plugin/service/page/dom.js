// Makes elements. Texts become text nodes, so nothing in a document is read as markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An element with attributes (those that are functions are listeners; null and false are left out) and children. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svgElement(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** The text with the places [{start, end}], counted in code points, made into elements by `marked(place, text)`. */
export function withPlaces(text, places, marked) {
  const points = Array.from(text);
  const parts = [];
  let end = 0;
  for (const place of places) {
    parts.push(points.slice(end, place.start).join(""), marked(place, points.slice(place.start, place.end).join("")));
    end = place.end;
  }
  return [...parts, points.slice(end).join("")];
}
