// Renders /openapi.json: everything shown here is in that document.
import { el } from "/docs/element.js";
import { tryView } from "/docs/try-it.js";

const api = await (await fetch("/openapi.json")).json();
const base = new URL(api.servers[0].url, location.href).href;
const METHODS = ["get", "post", "put", "patch", "delete"];

/** Inline text with `code` in it. */
function inline(text) {
  return text
    .split(/`([^`]+)`/)
    .map((part, index) => (index % 2 === 1 ? el("code", {}, part) : part))
    .filter((part) => part !== "");
}

const paragraphs = (text = "") => text.split("\n\n").map((part) => el("p", {}, inline(part)));

function resolve(schema) {
  return schema?.$ref
    ? schema.$ref
        .slice(2)
        .split("/")
        .reduce((node, key) => node[key], api)
    : schema;
}

function typeName(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.oneOf) return schema.oneOf.map(typeName).join(" or ");
  if (schema.type === "array") return `${typeName(schema.items)}[]`;
  if (schema.additionalProperties?.type) return `map of ${typeName(schema.additionalProperties)}`;
  return schema.format && schema.format !== "int32"
    ? `${schema.type} (${schema.format})`
    : (schema.type ?? "any");
}

function rules(schema) {
  const said = [];
  if (schema.enum) said.push(schema.enum.join(" | "));
  if (schema.minimum !== undefined || schema.maximum !== undefined)
    said.push(`${schema.minimum ?? "…"} to ${schema.maximum ?? "…"}`);
  if (schema.maxLength !== undefined) said.push(`${schema.minLength ?? 0} to ${schema.maxLength} characters`);
  else if (schema.minLength) said.push(`at least ${schema.minLength} characters`);
  if (schema.maxItems !== undefined) said.push(`at most ${schema.maxItems} entries`);
  if (schema.maxProperties !== undefined) said.push(`at most ${schema.maxProperties} entries`);
  if (schema.pattern) said.push(schema.pattern);
  return said.join(", ");
}

/** One member or parameter. `view` says whether it is asked for or answered, and what is open above it. */
function entry(name, schema, required, view, description = schema.description) {
  const inner = schema.type === "array" ? schema.items : schema;
  const target = resolve(inner);
  const opens = inner.$ref && target.properties && !view.seen.includes(inner.$ref);
  const within = { ...view, seen: [...view.seen, inner.$ref] };
  return el(
    "div",
    {},
    el(
      "dt",
      {},
      el("span", { class: "name" }, name),
      el("span", { class: "type" }, typeName(schema)),
      view.asked && required ? el("span", { class: "must" }, "required") : undefined,
      view.asked || required ? undefined : el("span", { class: "type" }, "may be absent"),
      el("span", { class: "rule" }, rules(schema)),
    ),
    el(
      "dd",
      {},
      inline(description ?? ""),
      opens ? el("details", {}, el("summary", {}, "Members"), members(target, within)) : undefined,
    ),
  );
}

function members(schema, view) {
  const required = new Set(schema.required);
  const entries = Object.entries(schema.properties);
  return el(
    "dl",
    {},
    entries.map(([name, member]) => entry(name, member, required.has(name), view)),
  );
}

function schemaView(schema, asked) {
  if (schema.oneOf)
    return schema.oneOf.map((option) => [el("h4", {}, typeName(option)), schemaView(option, asked)]);
  const inner = schema.type === "array" ? schema.items : schema;
  const target = resolve(inner);
  return target.properties ? members(target, { asked, seen: [inner.$ref] }) : el("p", {}, typeName(schema));
}

/** The events of a stream, by name, with what their data holds. */
function eventsView(events) {
  const view = { asked: true, seen: [] };
  const entries = Object.entries(events).map(([name, schema]) => entry(name, schema, false, view));
  return el("dl", {}, entries);
}

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

function operationView({ paths, method, operation }) {
  const [path] = paths;
  const parameters = (operation.parameters ?? []).map(resolve);
  const described = (place, title) => {
    const found = parameters.filter((parameter) => parameter.in === place);
    if (found.length === 0) return [];
    const view = { asked: true, seen: [] };
    const entries = found.map((p) => entry(p.name, p.schema, p.required, view, p.description));
    return [el("h4", {}, title), el("dl", {}, entries)];
  };
  const body = operation.requestBody?.content["application/json"].schema;
  const [status, success] = Object.entries(operation.responses).find(([code]) => Number(code) < 300);
  const answer = success.content?.["application/json"];
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
      el("h4", {}, `Answer ${status}`),
      answer ? schemaView(answer.schema, false) : stream ? [] : el("p", {}, "No body."),
      stream ? [el("h4", {}, "Events of text/event-stream"), eventsView(stream["x-events"])] : [],
      el("details", {}, el("summary", {}, `Errors (${errors.length})`), errors),
    ),
    el(
      "div",
      { class: "example" },
      el("h4", {}, "Request"),
      el("pre", {}, curl(path, method, operation)),
      answer?.example === undefined
        ? []
        : [el("h4", {}, "Answer"), el("pre", {}, JSON.stringify(answer.example, null, 2))],
      stream ? [el("h4", {}, "Event"), el("pre", {}, stream.example.trimEnd())] : [],
      tryView({ base, path, method, operation, parameters }),
    ),
  );
}

// One operation at several bases is shown once; those further are named like it, with At….
const operations = new Map();
for (const [path, item] of Object.entries(api.paths))
  for (const method of METHODS.filter((name) => item[name])) {
    const operation = item[method];
    const id = operation.operationId.replace(/At[A-Z]\w+$/, "");
    const same = operations.get(id);
    if (same) same.paths.push(path);
    else operations.set(id, { paths: [path], method, operation });
  }

const shown = [];
const nav = document.getElementById("nav");
for (const { name, description } of api.tags) {
  const own = [...operations.values()].filter(({ operation }) => operation.tags.includes(name));
  const group = el("section", { class: "group" }, el("h2", {}, name), paragraphs(description));
  const list = el("section", {}, el("h2", {}, name));
  for (const one of own) {
    const { paths, method, operation } = one;
    const view = operationView(one);
    const link = el(
      "a",
      { href: `#${operation.operationId}`, title: `${method.toUpperCase()} ${paths[0]}` },
      el("span", { class: `method ${method}` }, method === "delete" ? "DEL" : method.toUpperCase()),
      el("span", {}, operation.summary),
    );
    group.append(view);
    list.append(link);
    shown.push({ view, link, group, list, words: `${method} ${view.textContent}`.toLowerCase() });
  }
  document.getElementById("operations").append(group);
  nav.append(list);
}
const none = el("p", { class: "none" }, "Nothing fits.");
nav.append(none);

document
  .getElementById("intro")
  .replaceChildren(
    el("h1", {}, `${api.info.title} API`),
    ...paragraphs(api.info.description),
    el(
      "p",
      {},
      "Base URL: ",
      el("code", {}, base),
      " · ",
      el("a", { href: "/openapi.json" }, "openapi.json"),
    ),
  );

const search = document.getElementById("search");
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of shown) {
    const fits = words.every((word) => item.words.includes(word));
    item.view.hidden = item.link.hidden = !fits;
  }
  for (const { group, list } of shown) {
    const empty = shown.every((item) => item.group !== group || item.link.hidden);
    group.hidden = list.hidden = empty;
  }
  none.hidden = shown.some((item) => !item.link.hidden);
}
search.addEventListener("input", filter);
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  }
});
filter();

const byId = new Map(shown.map(({ view, link }) => [view.id, link]));
let here;
const watcher = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      here?.classList.remove("here");
      here = byId.get(target.id);
      here.classList.add("here");
      here.scrollIntoView({ block: "nearest" });
    }
  },
  { rootMargin: "-10% 0px -80% 0px" },
);
for (const { view } of shown) watcher.observe(view);
if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
