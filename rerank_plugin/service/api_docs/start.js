// A separate file, since the service's content security policy forbids inline scripts. Addresses are relative: a proxy
// may serve the page below a path of its own.
const ROOT = new URL("..", document.location);

fetch(new URL("openapi.json", ROOT))
  .then((response) => response.json())
  .then((document) => {
    const spec = { ...document, servers: [{ url: ROOT.pathname.replace(/\/$/, "") || "/" }] };
    SwaggerUIBundle({ spec, dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
  });
