import type { HostStatus } from "../runtime/port.ts";
import type { Seen } from "./look-up.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
/** How long a domain whose proof is gone is still served. */
export const GRACE_MS = 7 * DAY;
const FIRST_MS = 5_000;
/** Since when domains that were never proved are looked up daily. */
const PATIENCE_MS = 30 * DAY;
/** How long a certificate may take before the domain has failed. */
const CERTIFICATE_MS = DAY;

export type State = "pending_dns" | "verifying" | "issuing" | "active" | "failed";

/** What is known of a domain before it is looked up; times in ms. */
export type Known = {
  state: State;
  createdAt: number;
  provedAt?: number;
  lostAt?: number;
  contested: boolean;
};

/**
 * What a look-up leads to. `wait`: it is not proved. `claim`: it is, and has the host if nobody else does. `serve`: it has
 * the host and keeps it. `release`: it has the host no longer.
 */
export type Decision =
  | { do: "wait"; state: State; reason: string }
  | { do: "claim" }
  | { do: "serve"; lostAt?: number; reason?: string }
  | { do: "release"; reason: string };

/** Returns what a look-up leads to; pure. */
export function decide(domain: Known, seen: Seen, now: number): Decision {
  const { provedAt, lostAt, contested } = domain;
  if (provedAt === undefined) return seen.proof === "found" ? { do: "claim" } : unproved(domain, seen);
  if (seen.proof === "found") return { do: "serve" };
  // A server that does not answer says nothing about the proof.
  if (seen.proof === "unknown") return { do: "serve", lostAt, ...(lostAt && { reason: fading(lostAt) }) };
  if (contested)
    return {
      do: "release",
      reason:
        "Somebody else has proved the host name, and its record for this account is gone. Create it again.",
    };
  const since = lostAt ?? now;
  if (now - since < GRACE_MS) return { do: "serve", lostAt: since, reason: fading(since) };
  return {
    do: "release",
    reason: "The record that proves the host name was gone for 7 days. Create it again.",
  };
}

function unproved({ state }: Known, { proof, address }: Seen): Decision {
  const stays = state === "failed" ? "failed" : undefined;
  if (proof === "unknown")
    return {
      do: "wait",
      state: stays ?? "pending_dns",
      reason: "The DNS servers did not answer. Berth asks them again.",
    };
  if (address === "found")
    return {
      do: "wait",
      state: stays ?? "verifying",
      reason:
        "The host name leads here, but no record proves that this account may use it. Create the TXT record.",
    };
  return {
    do: "wait",
    state: stays ?? "pending_dns",
    reason:
      "No record was found yet. Create those in `records`; new ones may take a while until they are seen.",
  };
}

function fading(lostAt: number): string {
  const until = new Date(lostAt + GRACE_MS).toISOString().slice(0, 10);
  return `The record that proves the host name is gone. Create it again before ${until}; then the domain is no longer served.`;
}

/** The reason where another domain of the installation has the host. */
export const SERVED_ELSEWHERE =
  "The host name is proved, but it is served elsewhere on this installation. It moves here once it is removed there, or its record for there is gone.";

/** Returns state and reason of a domain whose host its service was told to serve; pure. */
export function servedState(
  domain: Pick<Known, "provedAt">,
  served: HostStatus | undefined,
  address: Seen["address"],
  now: number,
): { state: State; reason?: string } {
  if (!served)
    return {
      state: "verifying",
      reason: "The host name is proved. It is served as soon as the service has a release: deploy it.",
    };
  const away =
    address === "missing" ? "The host name does not lead here yet. Create the record for its address." : "";
  if (served.certificate === "pending") {
    const late = domain.provedAt !== undefined && now - domain.provedAt > CERTIFICATE_MS;
    const reason = [served.message, away].filter(Boolean).join(" ");
    return { state: late ? "failed" : "issuing", reason: reason || "The certificate is being issued." };
  }
  const reason = [away, served.message].filter(Boolean).join(" ");
  return { state: "active", ...(reason && { reason }) };
}

/** Returns in how many ms a domain is looked up again, after `checks` look-ups in a row that changed nothing; pure. */
export function msUntilCheck(
  domain: { state: State; createdAt: number; lostAt?: number; checks: number },
  now: number,
  random: number,
): number {
  const { state, createdAt, lostAt, checks } = domain;
  if (state === "active") return lostAt ? HOUR : DAY * (0.9 + 0.2 * random);
  if (checks > 10 && now - createdAt > PATIENCE_MS && state !== "issuing") return DAY;
  return Math.min(HOUR, FIRST_MS * 2 ** Math.min(checks, 20));
}
