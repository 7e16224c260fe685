import type { IncomingHttpHeaders } from "node:http";

/**
 * Returns the headers of a request. Few of them are read, and each is looked up as it was received: a whole `Headers`,
 * which checks every name and value, is made only when more is asked of it.
 */
export function requestHeaders(received: IncomingHttpHeaders): Headers {
  let whole: Headers | undefined;
  const get = (name: string) => {
    const key = name.toLowerCase();
    return Object.hasOwn(received, key) ? String(received[key]) : null;
  };
  const has = (name: string) => get(name) !== null;
  return new Proxy(new Headers(), {
    get(_, member) {
      if (!whole && member === "get") return get;
      if (!whole && member === "has") return has;
      whole ??= new Headers(received as Record<string, string>);
      const value: unknown = Reflect.get(whole, member);
      return typeof value === "function" ? value.bind(whole) : value;
    },
  });
}
