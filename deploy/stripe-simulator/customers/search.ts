import { invalid } from "../http/errors.ts";

type Searchable = { metadata: { [key: string]: string }; email: string | null; name?: string | null };

/**
 * Returns whether an object matches a search query: clauses `field:'value'` of metadata, email and name, joined by AND.
 * Other queries are refused.
 */
export function toMatcher(query: string): (object: Searchable) => boolean {
  const clauses = query.split(/ AND /i).map((clause) => {
    const [, name, key, value] =
      /^(metadata|email|name)(?:\['([^']+)'\])?:['"]([^'"]*)['"]$/.exec(clause.trim()) ?? [];
    if (name === undefined || value === undefined || (name === "metadata") !== (key !== undefined))
      throw invalid(`The simulator does not know this search: ${query}`, "query");
    return (object: Searchable) =>
      (name === "metadata" ? object.metadata[key!] : object[name as "email" | "name"]) === value;
  });
  return (object) => clauses.every((matches) => matches(object));
}
