/** Returns the result of an operation in text. */
export function showValue(value: unknown): string {
  if (value === undefined) return "";
  if (typeof value !== "object" || value === null) return `→ ${value}`;
  const rows = "rows" in value ? value.rows : value;
  return `→ ${shorten(JSON.stringify(rows))}`;
}

/** Returns the parameters of a statement in text. */
export function showValues(values: unknown[]): string {
  return values.map((one) => (ArrayBuffer.isView(one) ? "…" : shorten(JSON.stringify(one) ?? "-"))).join(" ");
}

function shorten(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
