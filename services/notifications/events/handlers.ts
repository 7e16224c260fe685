import type { Client } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import type { ConsumerDefinition } from "../../kit/events/consumer.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Notify } from "../notices/notify.ts";
import { createServiceNotice } from "../notices/service-notice.ts";
import type { Directory } from "../recipients/directory.ts";
import { erasureHandlers } from "../retention/erasure-handlers.ts";
import { addonHandlers } from "./addon-handlers.ts";
import { announcer } from "./announce.ts";
import { backupHandler } from "./backup-handler.ts";
import { billingHandlers } from "./billing/handlers.ts";
import { deletionHandlers } from "./deletion-handlers.ts";
import { deploymentHandlers } from "./deployment-handlers.ts";
import { domainHandlers } from "./domain-handlers.ts";
import { healthHandlers } from "./health-handlers.ts";
import { memberHandlers } from "./member-handlers.ts";
import { revealHandler } from "./reveal-handler.ts";
import { runHandler } from "./run-handlers.ts";
import { securityHandlers } from "./security-handlers.ts";
import { disabledHandler } from "./webhooks/disabled-handler.ts";
import { deploymentMessages, memberMessages, together } from "./webhooks/messages.ts";

type Deps = {
  pool: Pool;
  notify: Notify;
  deployer: Client<typeof InternalService>;
  directory: Directory;
};

/** When notifications is first installed, it does not announce the week of events that the stream still holds. */
const FIRST_SECONDS = 900;

/** Returns the consumers of notifications, with their handlers. */
export function consumers({ pool, notify, deployer, directory }: Deps): ConsumerDefinition[] {
  const announce = announcer(notify);
  const serviceNotice = createServiceNotice(deployer, directory);
  return [
    {
      name: "notifications-identity",
      from: "identity",
      firstSeconds: FIRST_SECONDS,
      handlers: together(
        [
          ...memberHandlers({ announce, directory }),
          ...securityHandlers({ announce, directory }),
          ...erasureHandlers,
        ],
        memberMessages({ pool, directory }),
      ),
    },
    {
      name: "notifications-deployer",
      from: "deployer",
      firstSeconds: FIRST_SECONDS,
      handlers: together(
        [
          ...deploymentHandlers({ announce, serviceNotice }),
          ...healthHandlers({ notify, serviceNotice }),
          ...domainHandlers({ announce, serviceNotice }),
          runHandler({ announce, serviceNotice }),
          backupHandler({ announce, serviceNotice }),
          ...addonHandlers({ announce, serviceNotice }),
          ...deletionHandlers({ announce, directory }),
        ],
        deploymentMessages({ pool, deployer }),
      ),
    },
    {
      name: "notifications-variables",
      from: "variables",
      firstSeconds: FIRST_SECONDS,
      handlers: [revealHandler({ announce, directory })],
    },
    {
      name: "notifications-billing",
      from: "billing",
      firstSeconds: FIRST_SECONDS,
      handlers: billingHandlers({ announce, directory }),
    },
    {
      name: "notifications-notifications",
      from: "notifications",
      firstSeconds: FIRST_SECONDS,
      handlers: [disabledHandler({ announce, directory })],
    },
  ];
}
