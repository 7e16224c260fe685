/** The OpenAPI document: everything that the page shows is in it. */
export const api = await (await fetch("/openapi.json")).json();

export const base = new URL(api.servers[0].url, location.href).href;

/** Returns what a `$ref` in the document refers to; anything else as it is. */
export function resolve(node) {
  if (!node?.$ref) return node;
  const path = node.$ref.slice(2).split("/");
  return path.reduce((found, key) => found[key], api);
}
