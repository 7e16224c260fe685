import { BackupFailedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import { qualifiedNameOf, type ServiceNotice } from "../notices/service-notice.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; serviceNotice: ServiceNotice };

/** Handler of backups that failed (docs/addons.md#backups). */
export function backupHandler({ announce, serviceNotice }: Deps): Handler {
  return announce(BackupFailedSchema, async ({ accountId, serviceId, backupId, reason }) => {
    const notice = await serviceNotice(
      "backup.failed",
      { accountId, serviceId },
      (service) => ({
        title: `A backup of ${service.serviceName} failed`,
        body: `${qualifiedNameOf(service)} was not backed up: ${reason}`,
      }),
      backupId,
    );
    return notice ? [{ ...notice, metadata: { ...notice.metadata, backupId } }] : [];
  });
}
