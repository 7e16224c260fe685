import type { HandlerContext } from "@connectrpc/connect";
import { conflict } from "./refusals.ts";

/** Sets the strong tag of an answer as its header, and returns the header. */
export function setTag(ctx: HandlerContext, tag: string): string {
  const quoted = `"${tag}"`;
  ctx.responseHeader.set("etag", quoted);
  return quoted;
}

/**
 * Sets the strong tag of an answer as its header. Returns true when the caller has this very answer: the response
 * is then 304, and the handler returns an empty message.
 */
export function isNotModified(ctx: HandlerContext, tag: string): boolean {
  const quoted = setTag(ctx, tag);
  const held = ctx.requestHeader.get("if-none-match");
  if (
    held === null ||
    !(held === quoted || splitList(held).some((one) => one === "*" || withoutWeakPrefix(one) === quoted))
  )
    return false;
  ctx.responseHeader.set("berth-not-modified", "1");
  return true;
}

/** Throws 409 revision_conflict when the caller's If-Match does not name the current state of `what`. */
export function expectMatch(ctx: HandlerContext, tag: string, what: string): void {
  const wanted = ctx.requestHeader.get("if-match");
  if (wanted === null || splitList(wanted).some((one) => one === "*" || one === `"${tag}"`)) return;
  throw conflict("revision_conflict", `The ${what} was changed in the meantime. Read it again.`);
}

// Our tags hold no comma, so splitting at commas finds them whatever else is listed.
const splitList = (header: string) => header.split(",").map((one) => one.trim());
const withoutWeakPrefix = (tag: string) => (tag.startsWith("W/") ? tag.slice(2) : tag);
