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

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
}

/** Send a body to a path, even while the page closes. Errors are ignored: the page does not need the answer. */
export function send(path, body) {
  fetch(`v1/${path}`, { method: "POST", headers: headers(), body: JSON.stringify(body), keepalive: true }).catch(() => {});
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(`v1/${path}`, { headers: headers(), ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "The service does not answer. Is it running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({ error: "The service's answer is not valid JSON." }));
  throw new ServiceError(response.status, body.error, Number(response.headers.get("Retry-After")), body.field);
}

const isSent = (value) => value !== "" && value !== undefined && value !== null;

/** The JSON of a path with parameters {name: value or list of values}; empty values are not sent. */
export async function get(path, parameters = {}, signal = undefined) {
  const search = new URLSearchParams();
  for (const [name, values] of Object.entries(parameters))
    for (const value of [values].flat()) if (isSent(value)) search.append(name, value);
  return (await call(`${path}?${search}`, { signal })).json();
}

/** The answer to a body, in which empty values are left out; its method `json` or `text` reads it. */
export function post(path, body, signal = undefined) {
  return call(path, { method: "POST", body: JSON.stringify(body), signal });
}

/** The parameters of a search as in a body. */
export function searchBody({ query, ...parameters }) {
  return { query: [query], ...Object.fromEntries(Object.entries(parameters).filter(([, value]) => isSent(value))) };
}

export const indexPath = (index, rest) => `${encodeURIComponent(index)}/${rest}`;
