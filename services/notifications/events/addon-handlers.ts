import { timestampDate } from "@bufbuild/protobuf/wkt";
import {
  AddonFailedOverSchema,
  AddonStorageFillingSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import { qualifiedNameOf, type ServiceNotice } from "../notices/service-notice.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; serviceNotice: ServiceNotice };

/** Handlers of addons of which a standby took over (docs/addons.md#standbys), or the volume fills (docs/addons.md#volumes-that-fill). */
export function addonHandlers({ announce, serviceNotice }: Deps): Handler[] {
  return [
    announce(AddonFailedOverSchema, async ({ accountId, serviceId, at }) => {
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
    }),
    announce(AddonStorageFillingSchema, async ({ accountId, serviceId, at, ...volume }) => {
      const { usedPercent, storageGib, grownToGib, reason } = volume;
      const notice = await serviceNotice(
        "storage.filling",
        { accountId, serviceId },
        (service) => {
          const [name, qualified] = [service.serviceName, qualifiedNameOf(service)];
          return grownToGib > 0
            ? {
                title: `The volume of ${name} grows to ${grownToGib} GiB`,
                body: `The volume of ${qualified} was ${usedPercent} % full, and grows from ${storageGib} to ${grownToGib} GiB.`,
              }
            : {
                title: `The volume of ${name} is ${usedPercent} % full`,
                body: `The volume of ${qualified} is ${usedPercent} % full (of ${storageGib} GiB). ${reason}`,
              };
        },
        `${serviceId}:${at ? timestampDate(at).getTime() : ""}`,
      );
      if (!notice) return [];
      const numbers = Object.entries({ usedPercent, storageGib, grownToGib });
      const more = Object.fromEntries(numbers.map(([name, value]) => [name, String(value)]));
      return [{ ...notice, metadata: { ...notice.metadata, ...more } }];
    }),
  ];
}
