import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import type { Pool } from "../../services/kit/postgres/db.ts";
import { isObject } from "../routing/json-shape.ts";
import { useConfirmation } from "./sql.ts";

/** How long a confirmation is valid, in seconds. */
export const CONFIRMATION_SECONDS = 600;

/** What a confirmation is bound to. */
export type Bound = {
  /** The caller, and how far the token reaches. */
  caller: string;
  tool: string;
  /** The arguments, without the confirmation. */
  input: object;
  /** What the answer was computed from, by the names under which a change is reported. */
  state: Record<string, unknown>;
  /** Whether the client asks its user before it sends the confirmation. */
  asked: boolean;
};

/** Why a confirmation is refused; `changed` names the parts of the state that differ. */
export type Refusal =
  | { why: "unreadable" | "expired" | "caller" | "arguments" | "not_asked" | "used" }
  | { why: "changed"; changed: string[] };

export type Confirmations = ReturnType<typeof createConfirmations>;

type Claims = { i: string; e: number; c: string; a: string; s: Record<string, string>; u?: 1 };

/**
 * Confirmations of writes: what the first call of a tool returns, and the second one needs (docs/mcp.md#two-steps). They
 * are signed with a key derived from the installation's, so any gateway checks what another has issued, and remembered
 * once they are used.
 */
export function createConfirmations(options: { pool: Pool; keys: Buffer[]; now?: () => number }) {
  const { pool, now = Date.now } = options;
  const keys = options.keys.map((key) =>
    Buffer.from(hkdfSync("sha256", key, "", "berth confirmations of tools", 32)),
  );
  const macOf = (key: Buffer, body: string) => createHmac("sha256", key).update(body).digest();

  /** Returns what a genuine confirmation says, and a function for digests under the key that signed it. */
  function read(text: string) {
    const [body = "", mac = ""] = text.split(".");
    const given = Buffer.from(mac, "base64url");
    const key = keys.find((each) => given.length === 32 && timingSafeEqual(macOf(each, body), given));
    if (!key) return undefined;
    const claims = JSON.parse(Buffer.from(body, "base64url").toString()) as Claims;
    return { claims, digest: digestsOf(key) };
  }

  return {
    /** Returns a confirmation of what the answer says, for ten minutes. */
    issue({ caller, tool, input, state, asked }: Bound): string {
      const digest = digestsOf(keys[0]!);
      const claims: Claims = {
        i: randomBytes(12).toString("base64url"),
        e: Math.floor(now() / 1000) + CONFIRMATION_SECONDS,
        c: digest(caller),
        a: digest(tool, input),
        s: Object.fromEntries(Object.entries(state).map(([name, value]) => [name, digest(value)])),
        ...(asked && { u: 1 }),
      };
      const body = Buffer.from(JSON.stringify(claims)).toString("base64url");
      return `${body}.${macOf(keys[0]!, body).toString("base64url")}`;
    },

    /** Returns why a confirmation is not one of this caller for these arguments; undefined if it is. */
    refusalOf(text: string, { caller, tool, input, asked }: Omit<Bound, "state">): Refusal | undefined {
      const found = read(text);
      if (!found) return { why: "unreadable" };
      const { claims, digest } = found;
      if (claims.e * 1000 <= now()) return { why: "expired" };
      if (claims.c !== digest(caller)) return { why: "caller" };
      if (claims.a !== digest(tool, input)) return { why: "arguments" };
      // A client that asks its user keeps the confirmation from its model.
      return claims.u === 1 && !asked ? { why: "not_asked" } : undefined;
    },

    /** Returns the parts of the state that have changed since a confirmation was issued. */
    changesOf(text: string, state: Bound["state"]): string[] {
      const { claims, digest } = read(text)!;
      const names = new Set([...Object.keys(claims.s), ...Object.keys(state)]);
      return [...names].filter((name) => claims.s[name] !== digest(state[name]));
    },

    /** Uses a confirmation up; returns what identifies it, or undefined if it was used before. */
    async use(text: string): Promise<string | undefined> {
      const { i, e } = read(text)!.claims;
      const first = await useConfirmation(pool, Buffer.from(i, "base64url"), new Date(e * 1000));
      return first ? i : undefined;
    },
  };
}

/** Returns a function for digests that say nothing to who has no key: arguments can hold secrets that are short. */
function digestsOf(key: Buffer): (...values: unknown[]) => string {
  return (...values) => {
    const mac = createHmac("sha256", key).update(JSON.stringify(values, sorted)).digest();
    return mac.subarray(0, 9).toString("base64url");
  };
}

const sorted = (_: string, value: unknown) =>
  isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;
