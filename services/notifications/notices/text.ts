import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { RunEnded } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { oneLine } from "../../kit/mail/mail.ts";
import type { Recipient } from "../recipients/directory.ts";

const NAME_CHARS = 60;
const REASON_CHARS = 160;
const TITLE_CHARS = 80;

/**
 * Sanitizes a name that a user chose for a user, an application or a token: one short line, without anything that mail
 * programs turn into links.
 */
export function nameText(name: string): string {
  const line = withoutSchemes(oneLine(name.normalize("NFKC")))
    .replace(/[<>]/g, "")
    .replace(/\.(?=\p{L})/gu, ". ");
  return shortened(line, NAME_CHARS);
}

/** Returns the name of a user for messages, or `unknown` for a missing one. */
export function nameOf(user: Recipient | undefined, unknown = "Somebody"): string {
  if (!user) return unknown;
  return user.displayName ? nameText(user.displayName) : oneLine(user.email);
}

/** Returns the first line of an error message as a short sentence. */
export function reasonText(text: string): string {
  const first = oneLine(text.split("\n", 1)[0]!).replace(/[“”]/g, "");
  const line = shortened(withoutSchemes(first), REASON_CHARS);
  return line === "" || /[.!?…]$/.test(line) ? line : `${line}.`;
}

/** Returns how a run ended, as a sentence. */
export function endText({ status, exitCode, message }: RunEnded): string {
  if (message) return reasonText(message);
  return exitCode === undefined ? `It ${status.replace("_", " ")}.` : `It exited with ${exitCode}.`;
}

/** Returns the first clause of a reason, for titles. */
export function titleText(reason: string): string {
  return shortened(reason.split(/[;:.] /, 1)[0]!.replace(/[.;:]$/, ""), TITLE_CHARS);
}

/** Returns a role with its article. */
export function roleText(role: string): string {
  return `${/^[aeiou]/.test(role) ? "an" : "a"} ${role}`;
}

/** Returns " on 20 November 2026 at 08:00 UTC", or "" for an event without a time. */
export function onTime(at: Timestamp | undefined): string {
  return at ? `${onDay(at)} at ${inUtc(at, { timeStyle: "short" })} UTC` : "";
}

/** Returns " on 20 November 2026", or "". */
export function onDay(at: Timestamp | undefined): string {
  return at ? ` on ${inUtc(at, { dateStyle: "long" })}` : "";
}

function inUtc(at: Timestamp, options: Intl.DateTimeFormatOptions): string {
  return new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options }).format(timestampMs(at));
}

/** Returns a time as a part of a dedupe key. */
export function timeKey(at: Timestamp | undefined): string {
  return at ? String(timestampMs(at)) : "";
}

function withoutSchemes(text: string): string {
  return text.replaceAll("://", ": //").replace(/\bwww\./gi, "www. ");
}

function shortened(text: string, max: number): string {
  const letters = [...text];
  return letters.length <= max ? text : `${letters.slice(0, max - 1).join("")}…`;
}
