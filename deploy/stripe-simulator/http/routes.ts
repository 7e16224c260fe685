import type Stripe from "stripe";
import { invalid } from "./errors.ts";
import type { Form } from "./form.ts";
import { type Field, isWithin, list, natural, object, text } from "./params.ts";

type Method = "GET" | "POST" | "DELETE";

/** An endpoint of the API; `run` parses the parameters and prepares the call. */
export type Route = {
  method: Method;
  path: string;
  run: (form: Form, ...ids: string[]) => PreparedCall;
};

/** A call with valid parameters. */
export type PreparedCall = { run: () => object; expand: string[] };

/** A request outside the API, of a page or a control, and its answer. */
export type SimpleRequest = { method: string; path: string; query: URLSearchParams; body: string };
export type SimpleResponse = { status: number; headers?: Record<string, string>; body?: string };

type Common = { expand?: string[] };

/** Returns an endpoint. Every endpoint accepts `expand`. */
export function route<T extends object>(
  method: Method,
  path: string,
  params: Field<T>,
  handle: (params: T, ...ids: string[]) => object,
): Route {
  return {
    method,
    path,
    run: ({ expand, ...form }, ...ids) => {
      const wanted = common({ ...(expand !== undefined && { expand }) }, "");
      const decoded = params(form, "");
      return { run: () => handle(decoded, ...ids), expand: wanted.expand ?? [] };
    },
  };
}

const common = object<Common>({ expand: list(text) });

const page = object<Stripe.PaginationParams>({
  limit: natural,
  starting_after: text,
  ending_before: text,
});

/** Returns an endpoint that lists objects, a page at a time; `find` returns all, oldest first. */
export function listRoute<T extends object, O extends { id: string }>(
  path: string,
  params: Field<T>,
  find: (params: T, ...ids: string[]) => O[],
): Route {
  return {
    method: "GET",
    path,
    run: ({ expand, limit, starting_after, ending_before, ...form }, ...ids) => {
      const wanted = common({ ...(expand !== undefined && { expand }) }, "");
      const paging = page(
        Object.fromEntries(
          Object.entries({ limit, starting_after, ending_before }).filter(([, value]) => value !== undefined),
        ),
        "",
      );
      const decoded = params(form, "");
      const url = ids.reduce((rest, id) => rest.replace(/:\w+/, id), path);
      return {
        run: () => toPage(find(decoded, ...ids).toReversed(), paging, url),
        expand: wanted.expand ?? [],
      };
    },
  };
}

function toPage<O extends { id: string }>(all: O[], paging: Stripe.PaginationParams, url: string) {
  const { limit = 10, starting_after, ending_before } = paging;
  if (limit < 1 || limit > 100)
    throw invalid("limit must be between 1 and 100", "limit", "parameter_invalid_integer");
  const positionOf = (id: string, param: string) => {
    const index = all.findIndex((object) => object.id === id);
    if (index < 0) throw invalid(`No such object: '${id}'`, param, "resource_missing");
    return index;
  };
  if (ending_before !== undefined) {
    const end = positionOf(ending_before, "ending_before");
    const start = Math.max(0, end - limit);
    return toList(all.slice(start, end), url, start > 0);
  }
  const start = starting_after === undefined ? 0 : positionOf(starting_after, "starting_after") + 1;
  return toList(all.slice(start, start + limit), url, start + limit < all.length);
}

/**
 * Returns the rows whose members equal those of the filter; `created` may be a range of times. Rows refer to each other
 * by ids.
 */
export function select<O extends object>(rows: Iterable<O>, filter: object): O[] {
  const wanted = Object.entries(filter).filter(([, value]) => value !== undefined);
  return [...rows].filter((row) =>
    wanted.every(([name, value]) => {
      const member: unknown = row[name as keyof O];
      return name === "created" ? isWithin(value, Number(member)) : member === value;
    }),
  );
}

/** Returns a list object of Stripe's. */
export function toList<O>(data: O[], url: string, has_more = false): Stripe.ApiList<O> {
  return { object: "list", data, has_more, url };
}

/** Returns the route of a request with the ids of its path, or undefined. */
export function matchRoute(routes: Route[], method: string, path: string) {
  const parts = path.split("/");
  for (const candidate of routes) {
    if (candidate.method !== method) continue;
    const pattern = candidate.path.split("/");
    if (pattern.length !== parts.length) continue;
    if (!pattern.every((part, index) => part.startsWith(":") || part === parts[index])) continue;
    const ids = parts.filter((_, index) => pattern[index]!.startsWith(":")).map(decodeURIComponent);
    return { route: candidate, ids };
  }
  return undefined;
}
