import { createHash } from "node:crypto";
import { isIP } from "node:net";
import type { DomainSettings } from "./config.ts";
import { isApex } from "./host.ts";

/** Whose a domain is: what its records are made of. */
export type Claim = { accountId: string; serviceId: string; host: string };

/** What a look-up found: a TXT record with the token, a CNAME to the service's own name, an address of the installation. */
export type FoundRecord = "txt" | "cname" | "address";

const MAX_NAME = 253;

const digest = (...parts: string[]) => createHash("sha256").update(parts.join("\n")).digest("hex");

/**
 * Returns what the TXT record of an account says for a host. It is no secret: whoever can write it into the DNS of the
 * host lets this account use it, and no other. It stays the same when the domain is removed and added again.
 */
export function tokenOf({ accountId, host }: Omit<Claim, "serviceId">): string {
  return `berth-${digest("berth domain", accountId, host).slice(0, 40)}`;
}

/** Returns the name of that record; that of a wildcard is beside the names that it stands for. */
export function challengeName(host: string): string {
  return `_berth-challenge.${host.replace(/^\*\./, "")}`;
}

/**
 * Returns the name to which a CNAME points; undefined where none can. Unlike the address of a service, which the next one
 * of the same names gets, no other service ever has it: a record that was left behind proves nothing for anybody else.
 * No address has a label without a dash.
 */
export function targetOf(serviceId: string, { target }: Pick<DomainSettings, "target">): string | undefined {
  return target && `x${digest("berth service", serviceId).slice(0, 24)}.${target}`;
}

type Purpose = "proof" | "address" | "both";
export type DnsRecord = { type: string; name: string; value: string; purpose: Purpose; found: boolean };

/** Returns the records that users are to create, the simplest way first; pure. */
export function recordsOf(claim: Claim, settings: DomainSettings, found: readonly string[]): DnsRecord[] {
  const { host, serviceId } = claim;
  const target = targetOf(serviceId, settings);
  const { addresses } = settings;
  const byAddress = addresses.length > 0 && (isApex(host) || !target);
  const cname = target && !byAddress ? [record("CNAME", host, target, "both", found.includes("cname"))] : [];
  const direct = byAddress
    ? addresses.map((address) =>
        record(isIP(address) === 6 ? "AAAA" : "A", host, address, "address", found.includes("address")),
      )
    : [];
  const name = challengeName(host);
  // DNS has no longer names: beside such a host there can be no record.
  const txt =
    name.length > MAX_NAME ? [] : [record("TXT", name, tokenOf(claim), "proof", found.includes("txt"))];
  return [...cname, ...direct, ...txt];
}

function record(type: string, name: string, value: string, purpose: Purpose, found: boolean): DnsRecord {
  return { type, name, value, purpose, found };
}
