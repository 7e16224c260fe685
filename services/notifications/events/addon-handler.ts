import { timestampDate } from "@bufbuild/protobuf/wkt";
import { AddonFailedOverSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import { qualifiedNameOf, type ServiceNotice } from "../notices/service-notice.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; serviceNotice: ServiceNotice };

/** Handler of addons of which a standby took over (docs/addons.md#standbys). */
export function addonHandler({ announce, serviceNotice }: Deps): Handler {
  return announce(AddonFailedOverSchema, async ({ accountId, serviceId, at }) => {
    const notice = await serviceNotice(
      "addon.failover",
      { accountId, serviceId },
      (service) => ({
        title: `A standby of ${service.serviceName} took over`,
        body: `Another server of ${qualifiedNameOf(service)} takes writes now. Apps were disconnected, and can connect again at the same address.`,
      }),
      `${serviceId}:${at ? timestampDate(at).getTime() : ""}`,
    );
    return notice ? [notice] : [];
  });
}
