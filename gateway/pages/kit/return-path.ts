const SOMEWHERE = "http://berth.invalid";
/** Longer than a page with the longest challenge. */
const MAX = 10_000;

/** Returns a path of this origin that a link named, with its query; `home` for anything else. */
export function returnPath(given: string | null, home: string): string {
  if (given === null || !given.startsWith("/") || given.length > MAX || !URL.canParse(given, SOMEWHERE))
    return home;
  const { origin, pathname, search } = new URL(given, SOMEWHERE);
  // Two slashes at the start would be a host.
  return origin !== SOMEWHERE || pathname.startsWith("//") ? home : pathname + search;
}

/** Returns the page at which one signs in, and then comes back to a path. */
export function signInAt(path: string): string {
  return `/signin?${new URLSearchParams({ return_to: path })}`;
}
