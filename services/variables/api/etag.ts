import type { HandlerContext } from "@connectrpc/connect";
import { conflict } from "../../kit/rpc/errors.ts";

/** Puts the strong tag of an answer into its header; gives it as it stands there. */
export function setTag(ctx: HandlerContext, tag: string): string {
  const quoted = `"${tag}"`;
  ctx.responseHeader.set("etag", quoted);
  return quoted;
}

/**
 * Puts the strong tag of an answer into its header. True when the caller holds that very answer: it then
 * gets 304, and the handler returns an empty message.
 */
export function isNotModified(ctx: HandlerContext, tag: string): boolean {
  const quoted = setTag(ctx, tag);
  const held = ctx.requestHeader.get("if-none-match");
  if (held === null || !(held === quoted || listed(held).some((one) => one === "*" || weak(one) === quoted)))
    return false;
  ctx.responseHeader.set("berth-not-modified", "1");
  return true;
}

/** Throws 409 revision_conflict when the caller's If-Match does not name the current state. */
export function expectMatch(ctx: HandlerContext, tag: string): void {
  const wanted = ctx.requestHeader.get("if-match");
  if (wanted === null || listed(wanted).some((one) => one === "*" || one === `"${tag}"`)) return;
  throw conflict("revision_conflict", "The variable was changed in the meantime. Read it again.");
}

// Our tags hold no comma, so splitting at commas finds them whatever else is listed.
const listed = (header: string) => header.split(",").map((one) => one.trim());
const weak = (tag: string) => (tag.startsWith("W/") ? tag.slice(2) : tag);
