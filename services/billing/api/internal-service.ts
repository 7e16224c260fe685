import type { ServiceImpl } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/billing/v1/internal_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { findAccount, findSubscribedCustomer } from "../accounts/sql.ts";
import { LIVE } from "../subscription/statuses.ts";

type Deps = {
  pool: Pool;
  /** Takes a webhook (webhook/intake.ts). */
  receive: (payload: Uint8Array, signature: string) => Promise<void>;
};

/** Webhooks, which the gateway passes on, and whether an account is billed, for identity. */
export function internalService({ pool, receive }: Deps): ServiceImpl<typeof InternalService> {
  return {
    async receiveWebhook({ payload, signature }) {
      await receive(payload, signature);
      return {};
    },

    async findSubscription({ accountId }) {
      const { directAgreement } = await findAccount(pool, accountId);
      const subscribed =
        directAgreement || (await findSubscribedCustomer(pool, accountId, LIVE)) !== undefined;
      return { subscribed };
    },
  };
}
