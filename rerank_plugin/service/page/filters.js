// Filters: those that are set, as chips above the list; and beside it their values, with the numbers of documents.

import { get, indexPath } from "./api.js";
import { element, number } from "./dom.js";
import { languageName } from "./metadata.js";
import { asked } from "./state.js";

const PAUSE = 150; // milliseconds after the last key
const SHOWN = 6; // values of a list before "More"
const NAMES = {
  type: "Article type", year: "Year", language: "Language", journal: "Journal", author: "Author", mesh: "MeSH heading",
  major: "Main topic", keyword: "Keyword", chemical: "Substance", subheading: "Subheading", notice: "Notice",
  entered: "Entry date", retracted: "Retracted",
};
const LISTED = ["type", "language"]; // their values are listed; those of the others are typed
const TYPED = ["author", "journal", "mesh"];
const RARE = ["major", "keyword", "chemical", "subheading", "notice", "entered"]; // behind a fold

const partsOf = (filter) => /^(AND |NOT )?([^:]*):(.*)$/s.exec(filter)?.slice(1) ?? ["", "", filter];
const isOf = (field) => (filter) => partsOf(filter)[1] === field;

/** The filters that are set. A chip excludes its value instead, or is removed; `change` is that of `filterPanel`. */
export function chips(state, change) {
  const chip = (filter) => {
    const [prefix = "", field, value] = partsOf(filter);
    const replaced = (by) => change((filters) => filters.flatMap((other) => (other === filter ? by : [other])));
    const opposite = prefix === "NOT " ? `${field}:${value}` : `NOT ${field}:${value}`;
    const text = `${prefix === "NOT " ? "not " : ""}${NAMES[field] ?? field}: ${value}`;
    return element("li", {},
      field === "retracted" ? element("span", {}, text) : element("button", { type: "button", class: "flip", click: () => replaced([opposite]),
        title: prefix === "NOT " ? "Require instead" : "Exclude instead" }, text),
      element("button", { type: "button", class: "remove", "aria-label": `Remove filter ${text}`, click: () => replaced([]) }, "✕"));
  };
  if (!state.filter.length) return [];
  return [element("ul", { class: "chips", "aria-label": "Filters that are set" }, state.filter.map(chip)),
    ...(state.filter.length > 1 ? [element("button", { type: "button", class: "clear", click: () => change(() => []) }, "Remove all")] : [])];
}

/** The panel of filters of an index; `change(update)` searches with `update(filters)` instead of those that are set then. */
export function filterPanel(state, fields, change) {
  const has = (field) => fields.includes(field);
  return [
    has("year") ? years(state, change) : null,
    ...LISTED.filter(has).map((field) => valueList(state, field, change)),
    has("retracted") ? retractions(state, change) : null,
    ...TYPED.filter(has).map((field) => typedValue(state, field, change)),
    RARE.some(has) ? element("details", {}, element("summary", {}, "More filters"), RARE.filter(has).map((field) => typedValue(state, field, change))) : null,
  ].filter(Boolean);
}

/** The groups of a new panel, with the lists of the old one until their values arrive: nothing moves below a finger. */
export function keptLists(old, groups) {
  for (const list of old.querySelectorAll("fieldset:not([hidden]) > ul")) {
    const group = groups.find(({ dataset }) => dataset.field && dataset.field === list.parentElement.dataset.field);
    group?.querySelector("ul")?.replaceChildren(...list.children);
    if (group) group.hidden = false;
  }
  return groups;
}

const group = (field, ...children) => element("fieldset", { "data-field": field }, element("legend", {}, NAMES[field]), children);

/** Parameters that count the values of a field among the documents that match all else. */
function counting(state, field) {
  const { query, query_syntax } = asked(state);
  return { field, query, query_syntax: query ? query_syntax : "", filter: state.filter.filter((filter) => !isOf(field)(filter)) };
}

function valueList(state, field, change) {
  const list = element("ul", {});
  const fieldset = group(field, list);
  fieldset.hidden = true;
  const show = (values, all) => {
    const set = state.filter.filter(isOf(field)).map((filter) => partsOf(filter)[2]);
    const shown = values.filter(({ value }, place) => all || place < SHOWN || set.includes(value));
    const item = ({ value, documents }) => {
      const filter = `${field}:${value}`;
      const isSet = state.filter.includes(filter);
      const toggle = () => change((filters) => (filters.includes(filter) ? filters.filter((other) => other !== filter) : [...filters, filter]));
      return element("li", {}, element("label", {},
        element("input", { type: "checkbox", checked: isSet, change: toggle, "data-value": filter }), element("span", {}, field === "language" ? languageName(value) : value),
        element("span", { class: "count" }, number(documents))));
    };
    const focused = list.querySelector(":focus")?.dataset.value;
    list.replaceChildren(...shown.map(item), ...(shown.length < values.length
      ? [element("li", {}, element("button", { type: "button", class: "more", click: () => show(values, true) }, `${values.length - shown.length} more`))]
      : []));
    if (focused) list.querySelector(`[data-value="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    fieldset.hidden = !values.length;
  };
  get(indexPath(state.index, "values"), { ...counting(state, field), limit: 100 }).then(({ values }) => show(values, false), () => {});
  return fieldset;
}

function years(state, change) {
  const set = state.filter.find(isOf("year")) ?? "";
  const [, first = "", dash, last = dash ? "" : first] = /^(?:AND )?year:(\d{4})?(?:(-)(\d{4})?)?$/.exec(set) ?? [];
  const input = (name, value) => element("input", { "data-filter": name, inputmode: "numeric", maxlength: 4, pattern: "\\d{4}", "aria-label": name, placeholder: name, value });
  const [from, to] = [input("From", first), input("To", last)];
  const apply = (from, to) => change((filters) => [...filters.filter((filter) => !isOf("year")(filter)),
    ...(from || to ? [`year:${from === to ? from : `${from}-${to}`}`] : [])]);
  const typed = () => {
    if (![from, to].every((input) => input.reportValidity())) return;
    for (const input of [from, to]) input.defaultValue = input.value; // it is searched for
    apply(from.value, to.value);
  };
  for (const input of [from, to]) input.addEventListener("change", typed);
  const since = (back) => element("button", { type: "button", click: () => apply(String(new Date().getFullYear() - back), "") }, `Last ${back} years`);
  return group("year", element("div", { class: "range" }, from, " to ", to), element("div", { class: "since" }, since(5), since(10)));
}

function retractions(state, change) {
  const toggle = () => change((filters) => (isSet ? filters.filter((filter) => !isOf("retracted")(filter)) : [...filters, "retracted:no"]));
  const isSet = state.filter.includes("retracted:no");
  return element("p", { class: "retractions" }, element("label", {},
    element("input", { type: "checkbox", checked: isSet, "data-value": "retracted:no", change: toggle }),
    element("span", {}, "Hide retracted articles")));
}

/** An input that adds a filter, and suggests values. */
function typedValue(state, field, change) {
  const list = element("datalist", { id: `values-${field}` });
  let waiting;
  const suggest = async ({ target }) => {
    const [, not, begins] = /^(NOT |AND )?(.*)$/s.exec(target.value);
    const answer = await get(indexPath(state.index, "values"), { ...counting(state, field), begins }).catch(() => ({ values: [] }));
    list.replaceChildren(...answer.values.map(({ value, documents }) =>
      element("option", { value: (not ?? "") + value }, number(documents))));
  };
  const later = (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(suggest, PAUSE, event);
  };
  const add = ({ target }) => {
    const [, prefix = "", value] = /^(NOT |AND )?(.*)$/s.exec(target.value.trim());
    target.value = "";
    if (value) change((filters) => [...filters, `${prefix}${field}:${value}`]);
  };
  return element("label", { class: "typed" }, NAMES[field], element("input", {
    "data-filter": field, list: list.id, autocomplete: "off", focus: suggest, input: later, change: add,
    placeholder: field === "entered" ? "2024-01.." : null }), list);
}
