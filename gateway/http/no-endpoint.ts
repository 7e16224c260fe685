import { type Problem, problem } from "./problem.ts";

/**
 * Returns the 404 of a path that no route has, with what is most likely wrong with it. To programs, each begins alike:
 * Berth's command line recognises a server that is older than itself by it. `findRoute` returns the pattern of
 * the route of a path, if there is one; `isPerson` is whether a browser shows the answer to somebody.
 */
export function noEndpoint(
  path: string,
  {
    prefix,
    findRoute,
    isPerson,
  }: { prefix: string; findRoute: (path: string) => string | undefined; isPerson: boolean },
): Problem {
  const refuse = (sentence: string) => problem(404, "not_found", sentence);
  const whole = `/${path.split("/").filter(Boolean).join("/")}`;
  const meant = findRoute(whole);
  if (meant !== undefined)
    return refuse(
      `There is no such endpoint: paths have no empty parts, and no slash at the end. Use ${meant}.`,
    );
  const prefixed = prefix === "" ? undefined : findRoute(prefix + whole);
  if (prefixed !== undefined)
    return refuse(`There is no such endpoint: the paths of the API begin with ${prefix}. Use ${prefixed}.`);
  const once =
    prefix !== "" && whole.startsWith(`${prefix}${prefix}/`) && findRoute(whole.slice(prefix.length));
  if (once) return refuse(`There is no such endpoint: the path begins with ${prefix} twice. Use ${once}.`);
  if (isPerson)
    return refuse("There is no such page. Yours begin at /profile, and the API is described at /docs.");
  return refuse("There is no such endpoint. All of them are at /docs.");
}
