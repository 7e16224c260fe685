import { base, resolve } from "/docs/document.js";
import { el } from "/docs/element.js";
import { entry, eventsView, paragraphs, schemaView } from "/docs/schema-view.js";
import { tryView } from "/docs/try-it.js";

function curl(path, method, operation) {
  const lines = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${base}${path}`];
  if (!operation.security) lines.push('-H "Authorization: Bearer $TOKEN"');
  const example = operation.requestBody?.content["application/json"].example;
  if (example) lines.push('-H "Content-Type: application/json"', `-d '${JSON.stringify(example)}'`);
  return lines.join(" \\\n  ");
}

function errorsOf(operation) {
  return Object.entries(operation.responses)
    .filter(([status]) => Number(status) >= 400)
    .flatMap(([status, response]) =>
      resolve(response)["x-codes"].map(({ code, reasons }) =>
        el(
          "div",
          { class: "error" },
          el("b", {}, status),
          el(
            "div",
            {},
            el("code", {}, code),
            reasons.length > 0 ? el("div", { class: "reasons" }, reasons.join(", ")) : undefined,
          ),
        ),
      ),
    );
}

function pathView(path) {
  const cut = path.search(/[^/{}]+(\/\{[^}]+\})?(\/[^/{}]+)*$/);
  return el("div", { class: "path" }, path.slice(0, cut), el("b", {}, path.slice(cut)));
}

/** Returns an operation's article: its text on one side, its examples and the form to try it on the other. */
export function operationView({ paths, method, operation }) {
  const [path] = paths;
  const parameters = (operation.parameters ?? []).map(resolve);
  const described = (part, title) => {
    const found = parameters.filter((parameter) => parameter.in === part);
    if (found.length === 0) return [];
    const view = { inRequest: true, seen: [] };
    const entries = found.map((p) => entry(p.name, p.schema, p.required, view, p.description));
    return [el("h4", {}, title), el("dl", {}, entries)];
  };
  const body = operation.requestBody?.content["application/json"].schema;
  const [status, success] = Object.entries(operation.responses).find(([code]) => Number(code) < 300);
  const json = success.content?.["application/json"];
  const stream = success.content?.["text/event-stream"];
  const errors = errorsOf(operation);
  return el(
    "article",
    { class: "operation", id: operation.operationId },
    el(
      "div",
      { class: "line" },
      el("span", { class: `method ${method}` }, method.toUpperCase()),
      el("h3", {}, el("a", { href: `#${operation.operationId}` }, operation.summary)),
      el(
        "span",
        { class: "tags" },
        el("span", { class: "tag" }, operation["x-role"] === "none" ? "no token" : operation["x-role"]),
      ),
      paths.map(pathView),
    ),
    el(
      "div",
      { class: "text" },
      paragraphs(operation.description.replace(/(^|\n\n)Role: .*$/, "")),
      described("path", "Path"),
      described("query", "Query"),
      described("header", "Headers"),
      body ? [el("h4", {}, "Body"), schemaView(body, true)] : [],
      el("h4", {}, `Response ${status}`),
      json ? schemaView(json.schema, false) : stream ? [] : el("p", {}, "No body."),
      stream ? [el("h4", {}, "Events of text/event-stream"), eventsView(stream["x-events"])] : [],
      el("details", {}, el("summary", {}, `Errors (${errors.length})`), errors),
    ),
    el(
      "div",
      { class: "example" },
      el("h4", {}, "Request"),
      el("pre", {}, curl(path, method, operation)),
      json?.example === undefined
        ? []
        : [el("h4", {}, "Response"), el("pre", {}, JSON.stringify(json.example, null, 2))],
      stream ? [el("h4", {}, "Event"), el("pre", {}, stream.example.trimEnd())] : [],
      tryView({ base, path, method, operation, parameters }),
    ),
  );
}
