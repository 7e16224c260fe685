/** Markup that is safe to send. Only `html` makes it. */
class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Html = Markup;

type Part = Markup | string | number | false | undefined | readonly Part[];

const ENTITIES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

// Control characters, and those that reorder or hide text: a name could look like another one, or reach beyond itself.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function textOf(part: Part): string {
  if (part instanceof Markup) return part.text;
  if (part === undefined || part === false) return "";
  if (typeof part === "object") return part.map(textOf).join("");
  return String(part)
    .replaceAll(INVISIBLE, "")
    .replaceAll(/[&<>"']/g, (character) => ENTITIES[character]!);
}

/**
 * Returns the markup of a template. Every value is escaped unless it is markup itself, so it can be neither tag nor
 * attribute: write attributes with quotes. Lists are joined; `undefined` and `false` are nothing.
 */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  const text = strings.map((string, index) => string + (index < parts.length ? textOf(parts[index]) : ""));
  return new Markup(text.join(""));
}
