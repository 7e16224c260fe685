import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { open, seal } from "../kit/crypto/aead.ts";
import { unavailable } from "../kit/rpc/refusals.ts";

export type Secrets = ReturnType<typeof createSecrets>;

const ARCHIVE_REF = /^arc_([0-9a-hjkmnp-tv-z]{26})_([A-Za-z0-9_-]{22})$/;

/** All uses of SECRET_KEYS, each with a derived key of its own: the first key seals and signs, all open and verify. */
export function createSecrets(secretKeys: Buffer[]) {
  const derive = (use: string) => secretKeys.map((key) => Buffer.from(hkdfSync("sha256", key, "", use, 32)));
  const sealing = derive("berth deployer addon");
  const signing = derive("berth deployer archive");
  const mac = (key: Buffer, serviceId: string, id: string) =>
    createHmac("sha256", key).update(`${serviceId}\n${id}`).digest().subarray(0, 16);
  return {
    /** Seals a text, which opens only with the same `bound` string. */
    seal: (plain: string, bound: string) => seal(sealing[0]!, Buffer.from(bound), Buffer.from(plain)),
    /** Opens what `seal` returned. Throws 503 when no key opens it. */
    open(sealed: Buffer, bound: string): string {
      for (const key of sealing) {
        const plain = open(key, Buffer.from(bound), sealed);
        if (plain) return plain.toString();
      }
      throw unavailable("A stored secret cannot be opened with the configured SECRET_KEYS.");
    },
    /** Returns the signed reference of an upload, valid for this service only. `id` is an `arc_` id. */
    archiveRef: (serviceId: string, id: string) =>
      `${id}_${mac(signing[0]!, serviceId, id.slice(4)).toString("base64url")}`,
    /** Returns the object key of a reference, or undefined when it is not one of this service. */
    archiveKey(serviceId: string, ref: string): string | undefined {
      const [, id, signature] = ARCHIVE_REF.exec(ref) ?? [];
      if (!id || !signature) return undefined;
      const given = Buffer.from(signature, "base64url");
      const genuine = signing.some((key) => timingSafeEqual(mac(key, serviceId, id), given));
      return genuine ? archiveKey(serviceId, `arc_${id}`) : undefined;
    },
    /** The runtime derives its own keys from this. */
    runtimeSecret: derive("berth deployer runtime")[0]!.toString("hex"),
  };
}

/** Returns the prefix of the object store under which all uploads of a service are. */
export function archivePrefix(serviceId: string): string {
  return `${UPLOADS}${serviceId}/`;
}

/** Prefix of all uploads. */
export const UPLOADS = "archives/";

/** Returns the object key of the upload with an `arc_` id. */
export function archiveKey(serviceId: string, id: string): string {
  return archivePrefix(serviceId) + id;
}

/** Prefix of all dumps that were uploaded and of which no backup was made yet. */
export const DUMPS = "dumps/";

/** Returns the prefix under which those of an addon are. */
export function dumpPrefix(serviceId: string): string {
  return `${DUMPS}${serviceId}/`;
}
