import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { hashToken } from "../../kit/crypto/bearer-token.ts";
import { newId } from "../../kit/ids.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { recordAccountCreated } from "../accounts/account-service.ts";
import { insertAccount, insertMembership } from "../accounts/sql.ts";
import * as sql from "../installation/sql.ts";
import { hashPassword } from "../passwords/passwords.ts";
import { DAY_MS } from "../tokens/authenticate.ts";
import { issueToken, revokeToken } from "../tokens/lifecycle.ts";
import { extendToken, findTokenByHash } from "../tokens/sql.ts";
import { findUserByEmail, insertUser } from "../users/sql.ts";

/** The first owner of the installation, as configured. */
export type FirstOwner = { email: string; password?: string | undefined; token?: string | undefined };

const TOKEN_DAYS = 365;
const caller: Caller = { kind: "service", id: "identity", ip: "" };
const by = { caller, requestId: "bootstrap" };

/**
 * Creates the configured first owner: user, account, membership and token, once per database, however many replicas
 * start at the same time. Later starts with the same e-mail only check the token: a new one is added and its
 * predecessor revoked, the same one is extended by 365 days, a revoked one stays revoked.
 */
export async function bootstrap(pool: Pool, owner: FirstOwner, log: Logger, now: number): Promise<void> {
  const passwordHash = owner.password === undefined ? undefined : await hashPassword(owner.password);
  await transaction(pool, async (tx) => {
    await sql.lockBootstrap(tx);
    const first = (await sql.findBootstrap(tx)) ?? (await createOwner(tx, owner.email, passwordHash, now));
    if (first.email !== owner.email)
      return log.warn("the first owner was created under another e-mail; BOOTSTRAP_OWNER_* has no effect");
    if (owner.token !== undefined) await ensureToken(tx, first, owner.token, log, now);
  });
}

async function createOwner(
  tx: Tx,
  email: string,
  passwordHash: string | undefined,
  now: number,
): Promise<sql.BootstrapRow> {
  const name = email.split("@")[0]!.slice(0, 80);
  const verifiedAt = new Date();
  const user =
    (await insertUser(tx, { id: newId("usr"), email, displayName: name, passwordHash, verifiedAt })) ??
    (await findUserByEmail(tx, email))!;
  const account = await createAccount(tx, email);
  await insertMembership(tx, { id: newId("mem"), accountId: account.id, userId: user.id, role: "owner" });
  await recordAccountCreated(tx, by, account, { userId: user.id, at: timestampFromMs(now) });
  const row = { email, userId: user.id, accountId: account.id };
  await sql.insertBootstrap(tx, row);
  return { ...row, tokenId: null };
}

async function createAccount(tx: Tx, email: string) {
  for (const handle of handlesFor(email)) {
    const account = await insertAccount(tx, { id: newId("acc"), handle, displayName: handle });
    if (account) return account;
  }
  throw new Error("No handle is free");
}

/** Yields account handles for an e-mail, best first: its local part in the characters of a handle, then numbered. */
export function* handlesFor(email: string): Generator<string> {
  const local = email
    .split("@")[0]!
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-");
  const trimmed = local.slice(0, 32).replace(/^-+|(?<!-)-+$/g, "");
  const base = trimmed.length >= 3 ? trimmed : `${trimmed}-account`.replace(/^-/, "");
  yield base;
  for (let n = 2; ; n++) yield `${base}-${n}`;
}

async function ensureToken(
  tx: Tx,
  { userId, tokenId }: sql.BootstrapRow,
  text: string,
  log: Logger,
  now: number,
): Promise<void> {
  const expiresAt = new Date(now + TOKEN_DAYS * DAY_MS);
  const known = await findTokenByHash(tx, hashToken(text));
  if (!known) {
    const token = await issueToken(tx, by, userId, text, {
      name: "bootstrap",
      createdAt: new Date(now),
      expiresAt,
    });
    if (tokenId) await revokeToken(tx, by, { id: tokenId, userId, kind: "token", now });
    await sql.setBootstrapToken(tx, token.id);
  } else if (known.id === tokenId && !known.revoked) await extendToken(tx, known.id, expiresAt);
  else log.warn("BOOTSTRAP_OWNER_TOKEN was revoked or belongs to another token; it has no effect");
}
