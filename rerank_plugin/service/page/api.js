// Calls of the service. An answer that is an error is thrown as a Refusal.

const TOKEN = "rerank_plugin token";

export class Refusal extends Error {
  constructor(status, message, seconds = 0) {
    super(message);
    this.status = status;
    this.seconds = seconds;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function access() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** Send a body to a path, also while the page is left. What is refused is not needed for the page. */
export function send(path, body) {
  const headers = { ...access(), "Content-Type": "application/json" };
  fetch(`v1/${path}`, { method: "POST", headers, body: JSON.stringify(body), keepalive: true }).catch(() => {});
}

/** The JSON of a path with parameters {name: value or list of values}; empty values are left out. */
export async function get(path, parameters = {}, signal = undefined) {
  const asked = new URLSearchParams();
  for (const [name, values] of Object.entries(parameters))
    for (const value of [values].flat()) if (value !== "" && value !== undefined) asked.append(name, value);
  let answer;
  try {
    answer = await fetch(`v1/${path}?${asked}`, { headers: access(), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The service does not answer. Is it running?");
  }
  const body = await answer.json().catch(() => ({ error: "The service's answer cannot be read." }));
  if (!answer.ok) throw new Refusal(answer.status, body.error, Number(answer.headers.get("Retry-After")));
  return body;
}

export const indexPath = (index, rest) => `${encodeURIComponent(index)}/${rest}`;
