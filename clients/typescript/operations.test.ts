import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, expectTypeOf, test } from "vitest";
import { type At, type Document, operationsOf } from "../generate/document.ts";
import { METHODS, NOT_OFFERED } from "../generate/methods.ts";
import { Berth, type Deployment, type DryRun, isRefusal, type RefusalOf, type Service } from "./src/index.ts";

const document = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../gateway/openapi.json"), "utf8"),
) as Document;
const operations = operationsOf(document);

const ADDRESS = { accountId: "acc 1", projectId: "prj/1", environmentId: "env?1", service: "wéb" };
const KEYS = ["accountId", "projectId", "environmentId", "service"] as const;

/** Returns the part of the address that a path begins with, and a value for each of its further parameters. */
function argumentsFor(path: string): { at: object | undefined; rest: string[] } {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const depth = KEYS.filter((key, index) => names[index] === key).length;
  const at = Object.fromEntries(KEYS.slice(0, depth).map((key) => [key, ADDRESS[key]]));
  return { at: depth > 0 ? at : undefined, rest: names.slice(depth).map((name) => `a ${name}`) };
}

function expectedPath(path: string): string {
  return `/v1${path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(ADDRESS[name as keyof typeof ADDRESS] ?? `a ${name}`),
  )}`;
}

/** Calls a method, and returns what it sent. */
async function sentBy(name: string, isStream: boolean, { path, operation }: At) {
  const sent: { method: string; path: string; body: unknown; accept: string | null }[] = [];
  const berth = new Berth({
    baseUrl: "https://berth.example.com",
    token: "t",
    retries: 0,
    fetch: async (url, init) => {
      const headers = new Headers(init?.headers);
      const body = typeof init?.body === "string" ? JSON.parse(init.body) : undefined;
      sent.push({
        method: init!.method!,
        path: new URL(String(url)).pathname,
        body,
        accept: headers.get("accept"),
      });
      const type = headers.get("accept")!;
      return new Response(isStream ? "" : '{"data":[],"page":{"nextCursor":"","hasMore":false}}', {
        headers: { "content-type": type },
      });
    },
  });
  const [namespace, verb] = name.split(".") as [keyof Berth, string];
  const method = (berth[namespace] as unknown as Record<string, (...args: unknown[]) => unknown>)[verb]!;
  const { at, rest } = argumentsFor(path);
  const example = operation.requestBody && { made: "up" };
  const called = method(...(at ? [at] : []), ...rest, ...(example ? [example] : []));
  if (called && typeof called === "object" && Symbol.asyncIterator in called)
    for await (const _ of called as AsyncIterable<unknown>);
  else await called;
  return sent;
}

/** What a method asks for, by what it names behind `#`. */
const TYPES: Record<string, string> = {
  json: "application/json",
  events: "text/event-stream",
  csv: "text/csv",
};

const methods = Object.entries(METHODS).flatMap(([namespace, verbs]) =>
  Object.entries(verbs).flatMap(([verb, named]) => {
    const [id, kind] = named.split("#") as [string, string?];
    const accept = TYPES[kind ?? "json"]!;
    return operations.get(id)!.map((at) => ({ name: `${namespace}.${verb}`, accept, at }));
  }),
);

test.each(methods)("$name sends $at.method $at.path", async ({ name, accept, at }) => {
  const body = at.operation.requestBody && { made: "up" };
  const isStream = accept === TYPES.events;
  expect(await sentBy(name, isStream, at)).toEqual([
    { method: at.method, path: expectedPath(at.path), body, accept },
  ]);
});

test("each operation of the document has a method, as JSON, as a stream and as a table", () => {
  const offered = [...operations].filter(([id]) => !NOT_OFFERED.includes(id));
  const kinds = offered.flatMap(([id, [at]]) =>
    Object.keys(at!.operation.responses[200]?.content ?? { "application/json": 0 }).map((type) => {
      const [kind] = Object.entries(TYPES).find(([, known]) => known === type)!;
      return kind === "json" ? id : `${id}#${kind}`;
    }),
  );
  const named = Object.values(METHODS).flatMap((verbs) => Object.values(verbs));
  expect(new Set(named)).toEqual(new Set(kinds));
  expect(methods.length).toBeGreaterThan(100);
});

test("types are those of the API", () => {
  const berth = new Berth({ baseUrl: "https://berth.example.com" });
  type Result<F extends (...args: never[]) => unknown> = Awaited<ReturnType<F>>;
  expectTypeOf<Result<typeof berth.services.get>>().toEqualTypeOf<Service>();
  expectTypeOf(berth.deployments.deploy).parameter(0).toHaveProperty("service");
  const dryRun = () => berth.deployments.deploy(ADDRESS, { dryRun: true });
  expectTypeOf<Result<typeof dryRun>>().toEqualTypeOf<DryRun>();
  const entries = () => berth.deployments.list(ADDRESS).all();
  expectTypeOf<Result<typeof entries>>().toEqualTypeOf<Deployment[]>();
  const error: unknown = undefined;
  if (isRefusal(error, "impact_confirmation_required"))
    expectTypeOf(error.impact.services[0]!).toHaveProperty("name");
  // @ts-expect-error: no operation refuses with this code.
  isRefusal(error, "no_such_code");
  type Deleting = RefusalOf<"accounts.delete">["code"];
  expectTypeOf<"subscription_active">().toExtend<Deleting>();
  expectTypeOf<"service_deleting">().not.toExtend<Deleting>();
  // @ts-expect-error: an account alone is not where a service is.
  () => berth.services.get({ accountId: "acc_1" });
});

test.each(["", ".", ".."])(
  "a part of an address that is %j is refused before anything is sent",
  (service) => {
    const berth = new Berth({ baseUrl: "https://berth.example.com" });
    expect(() => berth.services.delete({ ...ADDRESS, service })).toThrow("cannot be part of an address");
  },
);
