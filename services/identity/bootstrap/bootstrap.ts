import { newId } from "../../kit/ids.ts";
import type { Logger } from "../../kit/log.ts";
import { execute, one, type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { announceAccount } from "../accounts/account-service.ts";
import { insertAccount, insertMembership } from "../accounts/sql.ts";
import type { Bootstrap } from "../config.ts";
import { hashPassword } from "../passwords/passwords.ts";
import { addToken, endToken } from "../sign-in/session-service.ts";
import { DAY_MS } from "../tokens/authenticate.ts";
import { insertUser, userByEmail } from "../tokens/sql.ts";
import { hashToken } from "../tokens/tokens.ts";

const TOKEN_DAYS = 365;
const caller: Caller = { kind: "service", id: "identity", ip: "" };
const by = { caller, requestId: "bootstrap" };

type Done = { email: string; userId: string; accountId: string; tokenId: string | null };

/**
 * Makes the configured first owner: user, account, membership and token, once in the life of the
 * database, however many replicas start together. Later starts with the same e-mail look at the
 * token only: a new one is added and its predecessor revoked, the same one is good for another 365
 * days, one that was revoked stays so.
 */
export async function bootstrap(pool: Pool, owner: Bootstrap, log: Logger, now: number): Promise<void> {
  const passwordHash = owner.password === undefined ? undefined : await hashPassword(owner.password);
  await transaction(pool, async (tx) => {
    await tx.query("select pg_advisory_xact_lock(hashtext('berth-bootstrap:' || current_schema()))");
    const done = (await bootstrapped(tx)) ?? (await makeOwner(tx, owner.email, passwordHash));
    if (done.email !== owner.email)
      return log.warn("the first owner was made under another e-mail; BOOTSTRAP_OWNER_* has no effect");
    if (owner.token !== undefined) await useToken(tx, done, owner.token, log, now);
  });
}

async function makeOwner(tx: Tx, email: string, passwordHash: string | undefined): Promise<Done> {
  const name = email.split("@")[0]!.slice(0, 80);
  const verifiedAt = new Date();
  const user =
    (await insertUser(tx, { id: newId("usr"), email, displayName: name, passwordHash, verifiedAt })) ??
    (await userByEmail(tx, email))!;
  const account = await makeAccount(tx, email);
  await insertMembership(tx, { id: newId("mem"), accountId: account.id, userId: user.id, role: "owner" });
  await announceAccount(tx, by, account, user.id);
  await execute(
    tx,
    "bootstrap_insert",
    "insert into bootstrap (email, user_id, account_id) values ($1, $2, $3)",
    [email, user.id, account.id],
  );
  return { email, userId: user.id, accountId: account.id, tokenId: null };
}

async function makeAccount(tx: Tx, email: string) {
  for (const handle of handlesFor(email)) {
    const account = await insertAccount(tx, { id: newId("acc"), handle, displayName: handle });
    if (account) return account;
  }
  throw new Error("No handle is free");
}

/** Account handles for an e-mail, best first: its local part in the letters of a handle, then numbered. */
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

async function useToken(tx: Tx, done: Done, text: string, log: Logger, now: number): Promise<void> {
  const expiresAt = new Date(now + TOKEN_DAYS * DAY_MS);
  const known = await tokenByHash(tx, hashToken(text));
  if (!known) {
    const more = { name: "bootstrap", createdAt: new Date(now), expiresAt };
    const token = await addToken(tx, by, done.userId, text, more);
    if (done.tokenId) await endToken(tx, by, { id: done.tokenId, userId: done.userId, kind: "token", now });
    await execute(tx, "bootstrap_set_token", "update bootstrap set token_id = $1", [token.id]);
  } else if (known.id === done.tokenId && !known.revoked) {
    const text = "update tokens set expires_at = $2 where id = $1 and expires_at < $2";
    await execute(tx, "bootstrap_extend_token", text, [known.id, expiresAt]);
  } else log.warn("BOOTSTRAP_OWNER_TOKEN was revoked or belongs to something else; it has no effect");
}

function bootstrapped(tx: Tx) {
  return one<Done>(
    tx,
    "bootstrap_done",
    `select email, user_id as "userId", account_id as "accountId", token_id as "tokenId" from bootstrap`,
  );
}

function tokenByHash(tx: Tx, hash: Buffer) {
  return one<{ id: string; revoked: boolean }>(
    tx,
    "bootstrap_token",
    "select id, revoked_at is not null as revoked from tokens where hash = $1",
    [hash],
  );
}
