import { invalid } from "./errors.ts";

export type Form = { [name: string]: string | Form };

const MAX_DEPTH = 10;

/** Returns the members of a form body or query: `a[b][0]=c` is `{ a: { b: { 0: "c" } } }`, as Stripe's SDKs write it. */
export function decodeForm(text: string): Form {
  const form = emptyForm();
  for (const [name, value] of new URLSearchParams(text)) {
    const path = pathOf(name);
    let at = form;
    for (const part of path.slice(0, -1)) {
      const key = part === "" ? String(Object.keys(at).length) : part;
      const next = at[key];
      if (typeof next === "string") throw invalid(`Invalid parameter name: ${name}`, name);
      at[key] = next ?? emptyForm();
      at = at[key];
    }
    const last = path.at(-1)!;
    at[last === "" ? String(Object.keys(at).length) : last] = value;
  }
  return form;
}

/** Returns an object without a prototype: a parameter may be called `__proto__`. */
function emptyForm(): Form {
  return Object.create(null);
}

function pathOf(name: string): string[] {
  const [first, ...rest] = name.split("[");
  const path = [first!, ...rest.map((part) => part.replace(/\]$/, ""))];
  if (path.length > MAX_DEPTH) throw invalid(`Parameter nested too deeply: ${name}`, name);
  return path;
}
