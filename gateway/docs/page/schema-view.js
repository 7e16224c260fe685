import { resolve } from "/docs/document.js";
import { el } from "/docs/element.js";

/** Returns text as nodes: `code` in it becomes elements. */
function inline(text) {
  return text
    .split(/`([^`]+)`/)
    .map((part, index) => (index % 2 === 1 ? el("code", {}, part) : part))
    .filter((part) => part !== "");
}

export const paragraphs = (text = "") => text.split("\n\n").map((part) => el("p", {}, inline(part)));

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
  const phrases = [];
  if (schema.enum) phrases.push(schema.enum.join(" | "));
  if (schema.minimum !== undefined || schema.maximum !== undefined)
    phrases.push(`${schema.minimum ?? "…"} to ${schema.maximum ?? "…"}`);
  if (schema.maxLength !== undefined)
    phrases.push(`${schema.minLength ?? 0} to ${schema.maxLength} characters`);
  else if (schema.minLength) phrases.push(`at least ${schema.minLength} characters`);
  if (schema.maxItems !== undefined) phrases.push(`at most ${schema.maxItems} entries`);
  if (schema.maxProperties !== undefined) phrases.push(`at most ${schema.maxProperties} entries`);
  if (schema.pattern) phrases.push(schema.pattern);
  return phrases.join(", ");
}

/**
 * Returns one member or parameter. `view` says whether it is part of a request, and which schemas contain it: such a
 * one is not shown again inside itself.
 */
export function entry(name, schema, required, view, description = schema.description) {
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
      view.inRequest && required ? el("span", { class: "must" }, "required") : undefined,
      view.inRequest || required ? undefined : el("span", { class: "type" }, "may be absent"),
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

/** Returns the members of a body, for each of its alternatives. */
export function schemaView(schema, inRequest) {
  if (schema.oneOf)
    return schema.oneOf.map((option) => [el("h4", {}, typeName(option)), schemaView(option, inRequest)]);
  const inner = schema.type === "array" ? schema.items : schema;
  const target = resolve(inner);
  return target.properties
    ? members(target, { inRequest, seen: [inner.$ref] })
    : el("p", {}, typeName(schema));
}

/** Returns the events of a stream by name, with the members of their data. */
export function eventsView(events) {
  const view = { inRequest: true, seen: [] };
  const entries = Object.entries(events).map(([name, schema]) => entry(name, schema, false, view));
  return el("dl", {}, entries);
}
