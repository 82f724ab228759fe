// Calls of the service. An error response is thrown as a ServiceError.

const TOKEN = "rerank_plugin token";

export class ServiceError extends Error {
  constructor(status, message, retryAfter = 0, field = "") {
    super(message);
    this.field = field; // the parameter at fault
    this.status = status;
    this.retryAfter = retryAfter; // seconds
  }
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function tokenHeader() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** Send a body to a path, even while the page closes. Errors are ignored: the page does not need the answer. */
export function send(path, body) {
  const headers = { ...tokenHeader(), "Content-Type": "application/json" };
  fetch(`v1/${path}`, { method: "POST", headers, body: JSON.stringify(body), keepalive: true }).catch(() => {});
}

/** The JSON of a path with parameters {name: value or list of values}; empty values are not sent. */
export async function get(path, parameters = {}, signal = undefined) {
  const search = new URLSearchParams();
  for (const [name, values] of Object.entries(parameters))
    for (const value of [values].flat()) if (value !== "" && value !== undefined) search.append(name, value);
  let response;
  try {
    response = await fetch(`v1/${path}?${search}`, { headers: tokenHeader(), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "The service does not answer. Is it running?");
  }
  const body = await response.json().catch(() => ({ error: "The service's answer is not valid JSON." }));
  if (!response.ok) throw new ServiceError(response.status, body.error, Number(response.headers.get("Retry-After")), body.field);
  return body;
}

/** The text of a file that the service makes of a body. */
export async function file(path, body) {
  const headers = { ...tokenHeader(), "Content-Type": "application/json" };
  const response = await fetch(`v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new ServiceError(response.status, (await response.json()).error, Number(response.headers.get("Retry-After")));
  return response.text();
}

export const indexPath = (index, rest) => `${encodeURIComponent(index)}/${rest}`;
