import { parseToken } from "../../services/kit/bearer-token.ts";

// Three parts of a JWT, or an opaque access token of Ory Hydra.
const MACHINE = /^(?:[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+|ory_at_[A-Za-z0-9_.-]+)$/;

/** Whether a text has the shape of an access token that an OAuth client got. */
export function isMachineToken(text: string): boolean {
  return text.length <= 4096 && MACHINE.test(text);
}

/** Whether identity may know the token; for every other text it need not be asked. */
export function isToken(text: string): boolean {
  return parseToken(text) !== undefined || isMachineToken(text);
}
