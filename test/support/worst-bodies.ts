import { readFileSync, writeFileSync } from "node:fs";
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { Agent, request } from "undici";
import { allRoutes } from "../../gateway/routing/routes.ts";
import type { createRandom } from "../../services/kit/testing/random.ts";
import { familyOf } from "./processes.ts";

/** One request that is meant to cost as much as it can. */
export type Worst = {
  name: string;
  method: string;
  /** On the origin. */
  path: string;
  headers: Record<string, string>;
  body?: () => string;
};

/** A body, made when it is sent: all of them together would be too much. */
type Body = [name: string, make: () => string];

/** What one request cost: CPU of all processes together, and memory of the process whose memory grew most. */
type Cost = { cpuMs: number; mib: number; where: string };

export type Expensive = Cost & { request: string; status: number };

/** What a request may cost (docs/conventions.md#size-limits). */
export const BUDGET = { cpuMs: 250, mib: 64 };

/** The platform that is attacked, as `npm start` runs it. */
export type Target = { origin: string; baseUrl: string; ownerToken: string; pid: number };

/** Where a request's path leads: what exists at the target. */
export type Place = { accountId: string; projectId: string; environmentId: string; service: string };

const KIB = 1024;
/** Room for what stands around the part that is repeated. */
const ROOM = 400;

const filled = (size: number, one: string, between = ",") => {
  const count = Math.max(1, Math.floor((size - ROOM) / (one.length + between.length)));
  return Array<string>(count).fill(one).join(between);
};

const numbered = (size: number, each: (n: number) => string) => {
  const parts: string[] = [];
  for (let n = 0, length = 0; length < size - ROOM; n++) {
    const one = each(n);
    parts.push(one);
    length += one.length + 1;
  }
  return parts.join();
};

/** Texts that are slow to read, to compare, or to match, repeated until they are long. */
const TEXTS = {
  plain: "a",
  escaped: '\\"',
  codes: "\\u0061",
  nul: "\\u0000",
  wide: "😀",
  combining: "e\u0301\u0323",
  spaces: " ",
  mail: "a@a.",
  path: "/../",
  dashes: "-a",
  half: "\\ud83d",
};

/** Bodies that fit no message at all. */
function shapeless(size: number): Body[] {
  return [
    ["lists in lists", () => "[".repeat(size - ROOM)],
    ["closed lists in lists", () => "[".repeat(size / 2 - ROOM) + "]".repeat(size / 2 - ROOM)],
    ["objects in objects", () => '{"a":'.repeat(size / 5 - ROOM)],
    ["unknown members", () => `{${numbered(size, (n) => `"k${n}":0`)}}`],
    ["one unknown member again and again", () => `{${filled(size, '"k":0')}}`],
    ["members without a name", () => `{${filled(size, '"":0')}}`],
    ["a list of objects", () => `[${filled(size, "{}")}]`],
    ["an unknown list of objects", () => `{"k":[${filled(size, "{}")}]}`],
    ["an unknown list of numbers", () => `{"k":[${filled(size, "0")}]}`],
    ["an unknown long name", () => `{"${filled(size, "a", "")}":0}`],
    [
      "long unknown names with a common beginning",
      () => `{${numbered(size, (n) => `"${"a".repeat(900)}${n}":0`)}}`,
    ],
    ["digits", () => `{"k":${filled(size, "9", "")}}`],
    ["white space before a brace", () => `${" ".repeat(size - ROOM)}}`],
    ["an open string", () => `{"k":"${filled(size, "\\\\", "")}`],
    ["a long word", () => `{"k":${filled(size, "t", "")}}`],
  ];
}

const wrap = (path: string[], value: string) =>
  path.reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, value);

/** Bodies that make most of one member, wherever in the message it is. */
function ofMember(field: DescField, path: string[], size: number, seen: Set<DescMessage>): Body[] {
  const name = [...path, field.jsonName];
  const bodies: Body[] = [];
  const add = (what: string, value: () => string) =>
    void bodies.push([`${name.join(".")}: ${what}`, () => wrap(name, value())]);
  if (field.fieldKind === "list") {
    add("empty objects", () => `[${filled(size, "{}")}]`);
    add("texts", () => `[${filled(size, '"A"')}]`);
    add("many texts", () => `[${numbered(size, (n) => `"A${n}"`)}]`);
    add("nulls", () => `[${filled(size, "null")}]`);
    add(
      "500 long texts",
      () => `[${numbered(size, (n) => `"A${n}${"a".repeat(Math.floor(size / 500) - 20)}"`)}]`,
    );
    bodies.push([
      `${name}: lists of the same name`,
      () => `{${filled(size, `"${field.jsonName}":[${filled(KIB * 4, "{}")}]`)}}`,
    ]);
    if (field.message) {
      const members = field.message.fields.map(({ jsonName }) => `"${jsonName}":""`).join();
      add("entries with every member wrong", () => `[${filled(size, `{${members}}`)}]`);
      const fewer = Array<string>(400).fill(`{${filled(size / 400, members)}}`);
      add("entries with repeated members", () => `[${fewer.join()}]`);
    }
    return bodies;
  }
  if (field.fieldKind === "map") {
    add("entries", () => `{${numbered(size, (n) => `"A${n}":"x"`)}}`);
    add("entries of one name", () => `{${filled(size, '"A":"x"')}}`);
    const long = "a".repeat(Math.floor(size / 100) - 40);
    add("long names", () => `{${numbered(size, (n) => `"${long}${n}":"x"`)}}`);
    add("long values", () => `{${numbered(size, (n) => `"A${n}":"${long}"`)}}`);
    return bodies;
  }
  if (field.message) {
    if (seen.has(field.message) || field.message.typeName.startsWith("google.protobuf.")) return bodies;
    const inside = new Set([...seen, field.message]);
    return field.message.fields.flatMap((inner) => ofMember(inner, name, size, inside));
  }
  add("again and again", () => filled(size, `"",${JSON.stringify(field.jsonName)}:""`));
  add("a list of numbers", () => `[${filled(size, "1")}]`);
  add("a number of many digits", () => filled(size, "9", ""));
  add("a number of many zeros", () => `0.${filled(size, "0", "")}1`);
  add("an exponent", () => `1e${filled(size, "9", "")}`);
  if (field.scalar === ScalarType.STRING)
    for (const [kind, text] of Object.entries(TEXTS))
      add(`long ${kind} text`, () => `"${filled(size, text, "")}"`);
  return bodies;
}

/** Batches that are as large as they may be, or nearly: what they do costs most. */
function fullBatches(size: number): Body[] {
  const names = Array.from({ length: 500 }, (_, n) => `N${String(n).padStart(3, "0")}${"X".repeat(124)}`);
  const set = (entry: (name: string, n: number) => object) => JSON.stringify({ set: names.map(entry) });
  return [
    ["500 values of 1000 bytes", () => set((name) => ({ name, value: "v".repeat(800) }))],
    [
      "500 values that are too large together",
      () => set((name) => ({ name, value: "v".repeat(size / 500 - 200) })),
    ],
    [
      "60 values of 64 KiB",
      () =>
        JSON.stringify({ set: names.slice(0, 60).map((name) => ({ name, value: "v".repeat(64 * KIB) })) }),
    ],
    ["500 aliases in a chain", () => set((name, n) => ({ name, aliasTarget: names[n + 1] ?? "END" }))],
    ["500 aliases in a circle", () => set((name, n) => ({ name, aliasTarget: names[(n + 1) % 500] }))],
    ["500 aliases of one name", () => set((name) => ({ name, aliasTarget: "END" }))],
    ["500 connections", () => set((name, n) => ({ name, connection: { service: `s${n}`, key: "URL" } }))],
    ["500 names that do not exist", () => JSON.stringify({ unset: names, confirmImpact: true })],
    ["500 names without confirmation", () => JSON.stringify({ unset: names })],
    ["500 times one name", () => set(() => ({ name: "A", value: "x" }))],
    ["500 entries of no source", () => set((name) => ({ name }))],
    ["500 bad names", () => set((_, n) => ({ name: `-${n}`, value: "x" }))],
  ];
}

const longQuery = (part: string) =>
  Array(Math.floor((12 * KIB) / (part.length + 1)))
    .fill(part)
    .join("&");

/** Paths, queries and headers that are as long as they may be. */
function aroundBodies(target: Target): Worst[] {
  const { pathname } = new URL(target.baseUrl);
  const authorization = `Bearer ${target.ownerToken}`;
  const get = (name: string, path: string, headers: Record<string, string> = { authorization }) => ({
    name,
    method: "GET",
    path,
    headers,
  });
  const jwt = (part: string) => `Bearer ${Buffer.from(part).toString("base64url")}.e30.AAAA`;
  return [
    get("a long path", `${pathname}/${"a/".repeat(6 * KIB)}`),
    get("a path of dots", `${pathname}${"/..".repeat(4 * KIB)}`),
    get("an encoded path", `${pathname}/accounts/${"%61".repeat(4 * KIB)}`),
    get("many members in the query", `${pathname}/accounts?${longQuery("a")}`),
    get("one member in the query", `${pathname}/accounts?${longQuery("limit=1")}`),
    get("a long cursor", `${pathname}/accounts?cursor=${"A".repeat(12 * KIB)}`),
    get("a long token", `${pathname}/me`, { authorization: `Bearer ${"a".repeat(12 * KIB)}` }),
    get("a token of many parts", `${pathname}/me`, { authorization: `Bearer ${"a.".repeat(6 * KIB)}` }),
    get("a deep token", `${pathname}/me`, { authorization: jwt("[".repeat(2_900)) }),
    get("many cookies", "/signin", { cookie: "a=b; ".repeat(2 * KIB) }),
    get("many addresses", `${pathname}/me`, { authorization, "x-forwarded-for": "1.1.1.1, ".repeat(KIB) }),
    get("many tags", `${pathname}/me`, { authorization, "if-none-match": '"a", '.repeat(2 * KIB) }),
    get("many types", `${pathname}/me`, { authorization, accept: "a/b;q=0.1, ".repeat(KIB) }),
  ];
}

/** What takes bodies but is no route of the API. */
function otherDoors(target: Target): Worst[] {
  const { pathname } = new URL(target.baseUrl);
  const bodies = [16, 64, 1024].flatMap((kib) =>
    shapeless(kib * KIB).map(([name, make]): Body => [`${kib} KiB, ${name}`, make]),
  );
  const json = { "content-type": "application/json" };
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const forms: Body[] = [16, 64, 1024].flatMap((kib) => [
    [`${kib} KiB of fields`, () => filled(kib * KIB, "a=b", "&")],
    [`${kib} KiB of one field`, () => `grant_type=${filled(kib * KIB, "%61", "")}`],
    [`${kib} KiB of pluses`, () => filled(kib * KIB, "+", "")],
    [`${kib} KiB of NUL characters`, () => `client_id=%00&token=%00&x=${filled(kib * KIB, "%00", "")}`],
  ]);
  const all = (path: string, headers: Record<string, string>, given: Body[], method = "POST"): Worst[] =>
    given.map(([name, body]) => ({
      name,
      method,
      path,
      headers,
      body,
    }));
  return [
    ...all(`${pathname}/oauth/register`, json, bodies),
    ...all("/oauth2/token", form, forms),
    ...all("/oauth2/revoke", form, forms),
    ...["/signin", "/oauth/login", "/oauth/consent"].flatMap((path) => all(path, form, forms)),
    ...all(
      "/webhooks/stripe",
      { ...json, "stripe-signature": `t=${Math.floor(Date.now() / 1000)},v1=00` },
      bodies,
    ),
    ...all("/webhooks/stripe", json, bodies.slice(0, 3)),
    ...all(
      `/uploads/archives/svc_1/arc_1?expiresAt=9999999999&signature=${"A".repeat(8 * KIB)}`,
      { "content-type": "application/gzip" },
      bodies.slice(0, 3),
      "PUT",
    ),
  ];
}

/** Returns the worst requests for every route and every other door; of each route at most `most`, chosen by chance. */
export function worstRequests(
  target: Target,
  place: Place,
  random?: ReturnType<typeof createRandom>,
  most = Infinity,
): Worst[] {
  const { pathname: prefix } = new URL(target.baseUrl);
  const names: Record<string, string> = { ...place };
  const shuffled = <T>(all: T[]) =>
    all
      .map((one) => ({ one, at: random?.next() ?? 0 }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ one }) => one);
  const some = <T>(all: T[]) => shuffled(all).slice(0, most);
  const routes = allRoutes().filter(({ method }) => method !== "GET");
  const ofRoutes = routes.flatMap((route) => {
    const path = prefix + route.pattern.replaceAll(/:(\w+)/g, (_, name: string) => names[name] ?? "1");
    const size = route.maxBody;
    const fields = route.rpc.input.fields.filter(({ jsonName }) => route.bodyMembers.has(jsonName));
    const bodies = [...shapeless(size), ...fields.flatMap((field) => ofMember(field, [], size, new Set()))];
    const isBatch = route.template.endsWith("/batch");
    const chosen = isBatch
      ? [
          ...fullBatches(size),
          ...some(bodies),
          ...bodies.filter(([name]) => /^(un)?set: (empty|texts)/.test(name)),
        ]
      : some(bodies);
    return chosen.map(([name, body]) => ({
      name: `${route.method} ${route.template}: ${name}`,
      method: route.method,
      path,
      headers: {
        "content-type": "application/json",
        ...(!route.isPublic && { authorization: `Bearer ${target.ownerToken}` }),
      },
      body,
    }));
  });
  const doors = Object.values(Object.groupBy(otherDoors(target), ({ path }) => path)).flatMap((all) =>
    some(all!),
  );
  const named = [...doors, ...aroundBodies(target)].map((one) => ({
    ...one,
    name: `${one.method} ${one.path.slice(0, 40)}: ${one.name}`,
  }));
  return [...ofRoutes, ...named];
}

const TICK_MS = 10;

/** Reads of each process: its name, its CPU time in ms, its memory now and at most, in MiB. */
function readProcess(pid: number) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const kib = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
    const name = /(\w+)\/main\.ts/.exec(command)?.[1] ?? command.slice(0, 40);
    const [now, most] = [kib("VmRSS") / KIB, kib("VmHWM") / KIB];
    return { name, cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS, now, most };
  } catch {
    return undefined;
  }
}

/** Reading which processes there are takes longer than most requests. */
const FAMILY_FOR = 25;

/** Returns a function that measures what work costs the processes of a platform. */
function createMeter(pid: number) {
  let family: number[] = [];
  let measured = 0;
  return async (work: () => Promise<unknown>): Promise<Cost> => {
    if (measured++ % FAMILY_FOR === 0) family = await familyOf(pid);
    // The most memory is counted from now on.
    for (const one of family)
      try {
        writeFileSync(`/proc/${one}/clear_refs`, "5");
      } catch {
        // It has ended.
      }
    const before = family.map((one) => ({ one, was: readProcess(one) }));
    await work();
    const parts = before.flatMap(({ one, was }) => {
      const is = was && readProcess(one);
      return is ? [{ name: is.name, cpuMs: is.cpuMs - was.cpuMs, mib: Math.round(is.most - was.now) }] : [];
    });
    const where = parts
      .filter(({ cpuMs, mib }) => cpuMs > 0 || mib > 16)
      .toSorted((one, other) => other.cpuMs - one.cpuMs)
      .map(({ name, cpuMs, mib }) => `${name} ${cpuMs} ms ${mib} MiB`)
      .slice(0, 3)
      .join(", ");
    const cpuMs = parts.reduce((sum, part) => sum + part.cpuMs, 0);
    return { cpuMs, mib: Math.max(0, ...parts.map(({ mib }) => mib)), where };
  };
}

/** Returns how much slower than usual this machine is now, at least 1: by what a plain body costs to read. */
export function slowness(): number {
  const plain = JSON.stringify({
    set: Array.from({ length: 500 }, (_, n) => ({ name: `N${n}`, value: "v".repeat(8_000) })),
  });
  const before = process.cpuUsage();
  for (let i = 0; i < 20; i++) JSON.parse(JSON.stringify(JSON.parse(plain)));
  const { user, system } = process.cpuUsage(before);
  return Math.max(1, (user + system) / 1_000 / USUAL_MS);
}
/** What that costs on a machine of the kind that Berth is meant for. */
const USUAL_MS = 200;

/** What else the platform does meanwhile is counted too, so that one cheap try of these is what a request costs. */
const TRIES = 6;

/** Sends each request and returns those that cost more than the budget each time. */
export async function measureWorst(
  target: Target,
  requests: Worst[],
  say: (text: string) => void = () => {},
): Promise<Expensive[]> {
  const dispatcher = new Agent({ connections: 1, pipelining: 1 });
  const costOf = createMeter(target.pid);
  const found: Expensive[] = [];
  for (const worst of requests) {
    let status = 0;
    const send = async () => {
      const { method, path, headers, body } = worst;
      const options = { method: method as "POST", headers, dispatcher, ...(body && { body: body() }) };
      const answer = await request(target.origin + path, options);
      status = answer.statusCode;
      await answer.body.text();
    };
    let least: Cost | undefined;
    const budget = { cpuMs: BUDGET.cpuMs, mib: BUDGET.mib };
    for (let tries = 0; tries < TRIES; tries++) {
      const cost = await costOf(() => send().catch((error: Error) => say(`${worst.name}: ${error.message}`)));
      least = least
        ? { ...cost, cpuMs: Math.min(cost.cpuMs, least.cpuMs), mib: Math.min(cost.mib, least.mib) }
        : cost;
      // The machine may have become slow meanwhile, and be fast again in the next moment.
      if (tries > 0) budget.cpuMs = Math.max(budget.cpuMs, BUDGET.cpuMs * slowness());
      if (least.cpuMs <= budget.cpuMs && least.mib <= budget.mib) break;
    }
    say(`${status} ${least!.cpuMs} ms ${least!.mib} MiB  ${worst.name}  ${least!.where}`);
    if (status >= 500 || status === 0 || least!.cpuMs > budget.cpuMs || least!.mib > budget.mib)
      found.push({ ...least!, request: worst.name, status });
  }
  await dispatcher.destroy();
  return found;
}
