import { Resolver } from "node:dns/promises";
import type { DomainSettings } from "./config.ts";
import { type Claim, challengeName, type FoundRecord, targetOf, tokenOf } from "./records.ts";

const TIMEOUT_MS = 3_000;
const TRIES = 2;
/** How many CNAMEs may follow each other. */
const MAX_CHAIN = 8;
/** Shorter than the lease of a domain: what a slow server makes longer would never be recorded, and begun again for good. */
const MOST_MS = 30_000;

/** What DNS says of a domain. `unknown`: no server gave an answer that says so. */
export type Seen = {
  found: FoundRecord[];
  proof: Known;
  address: Known;
};
export type Known = "found" | "missing" | "unknown";

export type LookUp = (claim: Claim, signal?: AbortSignal) => Promise<Seen>;

/**
 * Returns what looks up the records of domains. Each server is asked by itself, and one that found a record is enough:
 * others may have cached that there was none. Nothing is cached here, as a new resolver is used each time.
 */
export function createLookUp(servers: string[], settings: DomainSettings, mostMs = MOST_MS): LookUp {
  const groups = servers.length > 0 ? servers.map((server) => [server]) : [undefined];

  /** Returns the answers of all servers; undefined when none answered. */
  async function ask<T>(query: (resolver: Resolver) => Promise<T[]>, signal: AbortSignal) {
    if (signal.aborted) return undefined;
    const answers = await Promise.all(
      groups.map(async (group) => {
        const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
        if (group) resolver.setServers(group);
        const cancel = () => resolver.cancel();
        signal.addEventListener("abort", cancel, { once: true });
        try {
          return await query(resolver);
        } catch (error) {
          return isNegative(error) ? [] : undefined;
        } finally {
          signal.removeEventListener("abort", cancel);
        }
      }),
    );
    const known = answers.filter((one) => one !== undefined);
    return known.length > 0 ? known.flat() : undefined;
  }

  async function hasToken(claim: Claim, signal: AbortSignal): Promise<Known> {
    const texts = await ask((resolver) => resolver.resolveTxt(challengeName(claim.host)), signal);
    const token = tokenOf(claim);
    return texts ? known(texts.some((chunks) => chunks.join("").trim() === token)) : "unknown";
  }

  async function pointsTo(host: string, target: string, signal: AbortSignal): Promise<Known> {
    let names = [host];
    const seen = new Set<string>();
    for (let link = 0; link < MAX_CHAIN && names.length > 0; link++) {
      const next = new Set<string>();
      for (const name of names) {
        seen.add(name);
        const answers = await ask((resolver) => resolver.resolveCname(name), signal);
        if (!answers) return "unknown";
        for (const one of answers) next.add(one.toLowerCase().replace(/\.$/, ""));
      }
      if (next.has(target)) return "found";
      names = [...next].filter((name) => !seen.has(name)).slice(0, MAX_CHAIN);
    }
    return "missing";
  }

  async function addressesOf(host: string, signal: AbortSignal): Promise<string[] | undefined> {
    const both = await Promise.all([
      ask((resolver) => resolver.resolve4(host), signal),
      ask((resolver) => resolver.resolve6(host), signal),
    ]);
    const answered = both.filter((one) => one !== undefined);
    return answered.length > 0 ? answered.flat() : undefined;
  }

  async function leadsHere(host: string, target: string | undefined, signal: AbortSignal): Promise<Known> {
    // Any name under a wildcard would do: a resolver takes the asterisk for one.
    const [its, own] = await Promise.all([
      addressesOf(host, signal),
      target ? addressesOf(target, signal) : [],
    ]);
    const here = new Set([...settings.addresses, ...(own ?? [])]);
    if (!its || (here.size === 0 && its.length > 0)) return "unknown";
    return known(its.some((address) => here.has(address)));
  }

  return async (claim, stopping) => {
    const late = AbortSignal.timeout(mostMs);
    const signal = stopping ? AbortSignal.any([stopping, late]) : late;
    const target = targetOf(claim.serviceId, settings);
    const [txt, cname, direct] = await Promise.all([
      hasToken(claim, signal),
      target ? pointsTo(claim.host, target, signal) : ("missing" as const),
      leadsHere(claim.host, target, signal),
    ]);
    const address = cname === "found" ? cname : direct;
    const found: FoundRecord[] = [];
    if (txt === "found") found.push("txt");
    if (cname === "found") found.push("cname");
    if (address === "found") found.push("address");
    return { found, proof: either(txt, cname), address };
  };
}

/** Whether this can be a DNS server: an address, with or without a port. */
export function isServer(text: string): boolean {
  try {
    new Resolver().setServers([text]);
    return true;
  } catch {
    return false;
  }
}

/** Whether a server said that there is no such record, or no name can be so long, and it did not merely fail to answer. */
function isNegative(error: unknown): boolean {
  return ["ENODATA", "ENOTFOUND", "EBADNAME"].includes((error as { code?: string }).code ?? "");
}

function known(is: boolean): Known {
  return is ? "found" : "missing";
}

function either(one: Known, other: Known): Known {
  if (one === "found" || other === "found") return "found";
  return one === "unknown" || other === "unknown" ? "unknown" : "missing";
}
