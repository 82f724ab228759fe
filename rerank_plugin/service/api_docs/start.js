// The policy of the service forbids scripts inside pages, so this is a file of its own.
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
