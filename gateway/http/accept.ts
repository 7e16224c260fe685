/** Returns how much an Accept header wants a media type, from 0 to 1; ranges such as `text/*` do not count. */
function weightOf(accept: string, type: string): number {
  for (const range of accept.split(",")) {
    const [name, ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    if (name !== type) continue;
    const q = parameters.find((parameter) => parameter.startsWith("q="));
    return q === undefined ? 1 : Number(q.slice(2)) || 0;
  }
  return 0;
}

/** Returns whether an Accept header asks for a media type rather than for JSON. */
export function wants(accept: string | undefined, type: string): boolean {
  if (!accept?.toLowerCase().includes(type)) return false;
  const weight = weightOf(accept, type);
  return weight > 0 && weight >= weightOf(accept, "application/json");
}
