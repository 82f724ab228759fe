// Values that the inputs of filters suggest, with the numbers of documents that have them.

import { get, indexPath } from "./api.js";
import { byId, element } from "./dom.js";

const PAUSE = 150; // milliseconds after the last key

let waiting;

/** The attributes of an input that suggests values of a filter; `index` gives the name of the chosen index. */
export function valueInput(field, index) {
  const fill = async (event) => {
    const begins = event.target.value.split(";").at(-1).trim();
    const before = event.target.value.slice(0, event.target.value.length - begins.length);
    const answer = await get(indexPath(index(), "values"), { field, begins }).catch(() => ({ values: [] }));
    byId("values").replaceChildren(...answer.values.map(({ value, documents }) =>
      element("option", { value: before + value }, documents.toLocaleString())));
  };
  const later = (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(fill, PAUSE, event);
  };
  return { list: "values", autocomplete: "off", focus: fill, input: later };
}
