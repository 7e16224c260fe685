import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { open, seal } from "../../kit/crypto/aead.ts";
import { unavailable } from "../../kit/rpc/refusals.ts";

const PREFIX = "whsec_";
const BYTES = 32;

export type WebhookSecrets = ReturnType<typeof createSecrets>;

/** Makes and opens the secrets of webhooks, which are sealed by keys derived from SECRET_KEYS: the first seals, all open. */
export function createSecrets(secretKeys: Buffer[]) {
  const keys = secretKeys.map((key) =>
    Buffer.from(hkdfSync("sha256", key, "", "berth notifications webhook", 32)),
  );
  return {
    /** Returns a new secret of a webhook, as users see it and sealed. */
    make(webhookId: string): { secret: string; sealed: Buffer } {
      const bytes = randomBytes(BYTES);
      const sealed = seal(keys[0]!, Buffer.from(webhookId), bytes);
      return { secret: PREFIX + bytes.toString("base64"), sealed };
    },
    /** Opens a sealed secret. Throws 503 when no key opens it. */
    open(webhookId: string, sealed: Buffer): Buffer {
      for (const key of keys) {
        const bytes = open(key, Buffer.from(webhookId), sealed);
        if (bytes) return bytes;
      }
      throw unavailable("The secret of a webhook cannot be opened with the configured SECRET_KEYS.");
    },
  };
}

/** A message to sign: its id, the time of the attempt, and its body. */
export type Signed = { id: string; seconds: number; body: string };

/** Returns the headers of a message as Standard Webhooks say, with a signature under each secret. */
export function signedHeaders({ id, seconds, body }: Signed, secrets: Buffer[]): Record<string, string> {
  const content = `${id}.${seconds}.${body}`;
  const signatures = secrets.map(
    (secret) => `v1,${createHmac("sha256", secret).update(content).digest("base64")}`,
  );
  return {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": signatures.join(" "),
  };
}
