import { createHash, createHmac } from "node:crypto";
import { exportJWK, generateKeyPair, type JWK } from "jose";
import { open, seal } from "../../../kit/crypto/aead.ts";
import { newId } from "../../../kit/ids.ts";
import { execute, many, type Pool, transaction } from "../../../kit/postgres/db.ts";

const DAY_MS = 24 * 3600 * 1000;
/** How long a key signs. Its successor is published a day earlier, and the key itself a day longer. */
const SIGNS_MS = 90 * DAY_MS;
const LEAD_MS = DAY_MS;

export type SigningKey = JWK & { kid: string };
type Row = { id: string; sealed: Buffer; createdAtMs: number };

/**
 * Returns which of the keys (oldest first) signs at a time, whether a new one is due, and which are no longer published.
 * The very first key signs immediately, every other once it has been published for a day.
 */
export function scheduleOf<Key extends { createdAtMs: number }>(keys: Key[], now: number) {
  const first = keys[0];
  const signsFrom = (key: Key) => key.createdAtMs + (key === first ? 0 : LEAD_MS);
  const signing = keys.findLast((key) => signsFrom(key) <= now) ?? first;
  const newest = keys.at(-1);
  const due = !newest || newest.createdAtMs + SIGNS_MS - LEAD_MS <= now;
  const replaced = signing !== undefined && signsFrom(signing) + LEAD_MS <= now;
  const over = replaced ? keys.slice(0, keys.indexOf(signing)) : [];
  return { signing, due, over };
}

/**
 * Returns the private keys of the installation, the signing one first. Creates and deletes keys as they become due;
 * concurrent replicas do so one after the other. Throws when a key was sealed under a secret that is not in `secrets`;
 * keys that are not sealed under the first secret are sealed again.
 */
export async function loadKeys(pool: Pool, secrets: Buffer[], now: number): Promise<SigningKey[]> {
  const stored = await listKeys(pool);
  const { due, over } = scheduleOf(stored, now);
  const rows = due || over.length > 0 ? await renewKeys(pool, secrets[0]!, now) : stored;
  const { signing } = scheduleOf(rows, now);
  const ordered = [signing!, ...rows.filter((row) => row !== signing)];
  const keys: SigningKey[] = [];
  for (const row of ordered) keys.push(await openKey(pool, secrets, row));
  return keys;
}

async function openKey(pool: Pool, secrets: Buffer[], { id, sealed }: Row): Promise<SigningKey> {
  for (const [index, secret] of secrets.entries()) {
    const plain = open(keyOf(secret), contextOf(id), sealed);
    if (!plain) continue;
    if (index > 0) {
      const text = "update oauth_keys set sealed = $2 where id = $1 and sealed = $3";
      await execute(pool, "oauth_key_reseal", text, [
        id,
        seal(keyOf(secrets[0]!), contextOf(id), plain),
        sealed,
      ]);
    }
    return JSON.parse(plain.toString()) as SigningKey;
  }
  throw new Error(
    `The key ${id}, which signs tokens of OAuth clients, opens with none of INTERNAL_KEYS: add the one that it was sealed with`,
  );
}

async function renewKeys(pool: Pool, secret: Buffer, now: number): Promise<Row[]> {
  const id = newId("key");
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(privateKey)), kid: id, use: "sig", alg: "ES256" };
  const sealed = seal(keyOf(secret), contextOf(id), Buffer.from(JSON.stringify(jwk)));
  return transaction(pool, async (tx) => {
    await tx.query("lock table oauth_keys in exclusive mode");
    const { due, over } = scheduleOf(await listKeys(tx), now);
    for (const row of over)
      await execute(tx, "oauth_key_delete", "delete from oauth_keys where id = $1", [row.id]);
    if (due)
      await execute(
        tx,
        "oauth_key_insert",
        "insert into oauth_keys (id, sealed, created_at) values ($1, $2, $3)",
        [...[id, sealed], new Date(now)],
      );
    return listKeys(tx);
  });
}

function listKeys(db: Parameters<typeof many>[0]) {
  return many<Row>(
    db,
    "oauth_keys_list",
    `select id, sealed, extract(epoch from created_at)::float8 * 1000 as "createdAtMs" from oauth_keys
     order by created_at, id`,
  );
}

/** Returns the keys that sign the provider's cookies. */
export function cookieKeys(secrets: Buffer[]): string[] {
  return secrets.map((secret) => createHmac("sha256", secret).update("oauth cookies").digest("base64url"));
}

function keyOf(secret: Buffer): Buffer {
  return createHmac("sha256", secret).update("oauth signing keys").digest();
}

function contextOf(id: string): Buffer {
  return createHash("sha256").update(`oauth_keys|${id}`).digest();
}
