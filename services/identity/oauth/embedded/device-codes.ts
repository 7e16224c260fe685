import { createHash } from "node:crypto";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { decodeJwt } from "jose";
import { type Adapter, type AdapterPayload, errors } from "oidc-provider";
import type { Pool } from "../../../kit/postgres/db.ts";
import * as sql from "../devices/sql.ts";
import { userCodeMacs } from "../devices/user-codes.ts";
import { findSpellings, oidcScopesOf, READ, type Resources, scopesOf, spellingsOf } from "../scopes.ts";

export const DEVICE_CODE_SECONDS = 600;
/** The seconds that a device waits between two requests for tokens; more after each that came too early. */
export const POLL_SECONDS = 5;

/** What the provider stores of a device's request: its parameters, and from where it was made. */
type DevicePayload = AdapterPayload & { params?: Record<string, unknown>; deviceInfo?: { ip?: string } };

/**
 * Stores device codes in the table oauth_devices, where users decide on them. The provider looks one up only when its
 * device asks for tokens: that counts as a poll, and throws slow_down for one that comes too early.
 */
export function deviceCodes(options: {
  pool: Pool;
  now: () => number;
  secrets: Buffer[];
  origin: string;
  resource: string;
  /** Ends a grant whose code was used twice. */
  endGrant: (grantId: string) => Promise<void>;
}): Adapter {
  const { pool, now, secrets, endGrant } = options;
  const macs = userCodeMacs(secrets);
  const hashOf = (deviceCode: string) => createHash("sha256").update(`DeviceCode|${deviceCode}`).digest();

  return {
    async upsert(id, payload, expiresIn = DEVICE_CODE_SECONDS) {
      const { clientId, userCode, params = {}, deviceInfo } = payload as DevicePayload;
      const hint = params.id_token_hint;
      await sql.insertDevice(pool, {
        hash: hashOf(id),
        userCode: macs.macOf(String(userCode)),
        clientId: String(clientId),
        scope: String(params.scope ?? "")
          .split(" ")
          .filter(Boolean),
        resource: [params.resource ?? []].flat().map(String),
        // The provider has verified it.
        subject: typeof hint === "string" ? decodeJwt(hint).sub : undefined,
        ip: deviceInfo?.ip ?? "",
        requestedAt: new Date(now()),
        expiresAt: new Date(now() + expiresIn * 1000),
        intervalSeconds: POLL_SECONDS,
      });
    },
    async find(id) {
      const device = await sql.pollDevice(pool, hashOf(id), new Date(now()));
      return device && { ...toPayload(device, options, now()), jti: id };
    },
    async consume(id) {
      const hash = hashOf(id);
      if (await sql.consumeDevice(pool, hash, new Date(now()))) return;
      const found = await sql.findDeviceGrant(pool, hash);
      if (found) await endGrant(found.grantId);
      throw new errors.InvalidGrant("already consumed");
    },
    async revokeByGrantId(grantId) {
      await sql.deleteDeviceOf(pool, grantId);
    },
    destroy: never,
    findByUserCode: never,
    findByUid: async () => undefined,
  };
}

/**
 * Returns the request as the provider expects it, with the decision. Throws what the device is told while it has to wait,
 * or when it gets no tokens.
 */
function toPayload(device: sql.PolledDevice, own: Resources, now: number): AdapterPayload {
  const { clientId, decided, early, grantId, userId, role, scope, consumedAt } = device;
  const [requestedAt, expiresAt] = [timestampMs(device.requestedAt), timestampMs(device.expiresAt)];
  if (expiresAt <= now) throw new errors.ExpiredToken("The device code has expired");
  if (!decided && early) throw new errors.SlowDown();
  const payload = { kind: "DeviceCode", clientId, iat: seconds(requestedAt), exp: seconds(expiresAt) };
  if (!decided) return payload;
  if (grantId === null) throw new errors.AccessDenied("The user denied the request");
  if (userId === null || role === null) throw new errors.InvalidGrant("The grant no longer exists");
  const granted = scopesOf(role).filter((one) => one === READ || scope.includes(one));
  return {
    ...payload,
    ...(consumedAt && { consumed: seconds(timestampMs(consumedAt)) }),
    accountId: userId,
    grantId,
    scope: [...granted, ...oidcScopesOf(scope)].join(" "),
    resource: findSpellings(device.resource, own) ?? spellingsOf(own.resource),
  };
}

const seconds = (ms: number) => Math.floor(ms / 1000);

async function never(): Promise<never> {
  throw new Error("Berth finds and answers requests of devices itself");
}
