import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import type { DeviceService } from "../../../../proto/gen/berth/identity/v1/devices_pb.ts";
import { effect } from "../../../kit/idempotency/idempotency.ts";
import { newId } from "../../../kit/ids.ts";
import { clientNetwork } from "../../../kit/network/client-network.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { who } from "../../../kit/rpc/interceptor.ts";
import { invalid, isRefusal } from "../../../kit/rpc/refusals.ts";
import { windowKey } from "../../attempts/keys.ts";
import { countOrRefuse } from "../../attempts/limits.ts";
import { uncountAttempt } from "../../attempts/sql.ts";
import type { Grant } from "../../grants/sql.ts";
import { authenticateUnlimited } from "../../tokens/authenticate.ts";
import { commitGrant, listGrantable, recordDenied, requireGrantable, requireSubject } from "../consent.ts";
import { consents } from "../metrics.ts";
import type { DeviceRequest, IdentityProvider } from "../port.ts";
import { decideDevice } from "./sql.ts";
import { readUserCode, shownUserCode } from "./user-codes.ts";

/** Codes that a user may try in vain. */
const WRONG_CODES = { max: 10, seconds: 15 * 60 };

/** Access for devices without a browser, by the codes that they show (docs/oauth.md#devices-without-a-browser). */
export function deviceService(deps: {
  pool: Pool;
  now: () => number;
  provider: IdentityProvider;
}): ServiceImpl<typeof DeviceService> {
  const { pool, now, provider } = deps;

  /**
   * Returns the request with a code, and the code. Throws 422 when there is none, 429 after too many such codes, and 403
   * when the request is for another user.
   */
  async function requireDevice(typed: string, userId: string): Promise<DeviceRequest & { userCode: string }> {
    const userCode = readUserCode(typed);
    // A slip of the finger, not a guess.
    if (userCode === undefined) throw unknownCode();
    const [key, at] = [windowKey("device code", userId), new Date(now())];
    await countOrRefuse(pool, key, WRONG_CODES, at, "Too many codes that are unknown. Wait, then try again.");
    const request = await provider.findDevice(userCode);
    if (!request) throw unknownCode();
    await uncountAttempt(pool, key, at);
    if (!request.pending) throw unknownCode();
    requireSubject(request, userId);
    return { ...request, userCode };
  }

  /** The first of two requests with one Idempotency-Key may just have answered the code: the second gets its answer. */
  const refuseOrReplay = (ctx: HandlerContext, refusal: ConnectError) =>
    effect<object>(pool, ctx, async () => {
      throw refusal;
    });

  return {
    async getDeviceRequest(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "connect a device");
      const request = await requireDevice(req.userCode, userId);
      const { ip, requestedAt, expiresAt, userCode } = request;
      return {
        ...request,
        accounts: await listGrantable(pool, userId),
        userCode: shownUserCode(userCode),
        sameNetwork: clientNetwork(ip) === clientNetwork(who(ctx).caller.ip),
        requestedAt: timestampFromDate(requestedAt),
        expiresAt: timestampFromDate(expiresAt),
      };
    },

    async completeDevice(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "connect a device");
      const request = await requireDevice(req.userCode, userId).catch(asRefusal);
      if (request instanceof ConnectError) return refuseOrReplay(ctx, request);
      const { clientId, clientName } = request.client;
      const role = req.role as Grant["role"];
      const grant: Grant = { id: newId("grt"), userId, clientId, accountId: req.accountId, role };
      await requireGrantable(pool, grant);
      // Before the transaction: without the grant, what the provider stored is worth nothing.
      await provider.prepareGrant(grant, request);
      const answer = await effect(pool, ctx, async (tx) => {
        const at = new Date(now());
        if (!(await decideDevice(tx, { hash: request.hash, grantId: grant.id }, at))) throw unknownCode();
        await commitGrant(tx, who(ctx), { ...grant, clientName }, at, { deviceIp: request.ip });
        return {};
      });
      consents.inc({ decision: role });
      return answer;
    },

    async rejectDevice(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "connect a device");
      const request = await requireDevice(req.userCode, userId).catch(asRefusal);
      if (request instanceof ConnectError) return refuseOrReplay(ctx, request);
      const { hash, client } = request;
      const answer = await effect(pool, ctx, async (tx) => {
        if (!(await decideDevice(tx, { hash, grantId: undefined }, new Date(now())))) throw unknownCode();
        await recordDenied(tx, who(ctx), { userId, client });
        return {};
      });
      consents.inc({ decision: "denied" });
      return answer;
    },
  };
}

function asRefusal(error: unknown): ConnectError {
  if (!isRefusal(error)) throw error;
  return error;
}

function unknownCode() {
  const message =
    "This code is unknown, was answered, or has expired. Check it, or begin again on the device.";
  return invalid("userCode", "unknown_code", message);
}
