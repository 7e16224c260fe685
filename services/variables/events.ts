import {
  AddonKeysPublishedSchema,
  EnvironmentCreatedSchema,
  EnvironmentDeletedSchema,
  ProjectCreatedSchema,
  ProjectDeletedSchema,
  ServiceConfiguredSchema,
  ServiceCreatedSchema,
  ServiceDeletedSchema,
  ServiceRenamedSchema,
} from "../../proto/gen/berth/deployer/v1/events_pb.ts";
import { AccountDeletedSchema } from "../../proto/gen/berth/identity/v1/events_pb.ts";
import { type Handler, on } from "../kit/events/handler.ts";
import { type Addons, storePublication } from "./addons/addon-keys.ts";
import { ignoreNotFound, type Scopes } from "./scopes/scopes.ts";
import { markConfigEnv } from "./scopes/sql.ts";
import { deleteProjects, deleteScope, insertChain } from "./scopes/tree.ts";
import { deleteDataKey } from "./seal/sql.ts";

/** Handlers of the deployer's events: the scope tree follows them, in whatever order they arrive. */
export function deployerHandlers({ scopes, addons }: { scopes: Scopes; addons: Addons }): Handler[] {
  return [
    on(ProjectCreatedSchema, insertChain),
    on(EnvironmentCreatedSchema, insertChain),
    on(
      ServiceCreatedSchema,
      (tx, { accountId, projectId, environmentId, serviceId, name, type, hasConfigEnv, namedAt }) =>
        insertChain(tx, {
          accountId,
          projectId,
          environmentId,
          serviceId,
          serviceName: name,
          serviceType: type,
          hasConfigEnv,
          namedAt,
        }),
    ),
    on(ServiceRenamedSchema, async (tx, { successor, ...renamed }) => {
      const { accountId, projectId, environmentId, type: serviceType } = renamed;
      // Who has the name from now on first: otherwise what is connected to it would dangle.
      for (const { serviceId, name, namedAt } of successor ? [successor, renamed] : [renamed]) {
        const ids = { accountId, projectId, environmentId, serviceId };
        await insertChain(tx, { ...ids, serviceName: name, serviceType, namedAt });
      }
    }),
    on(ServiceConfiguredSchema, async (tx, { serviceId }) => void (await markConfigEnv(tx, serviceId))),
    on(ProjectDeletedSchema, deleteScope),
    on(EnvironmentDeletedSchema, deleteScope),
    on(ServiceDeletedSchema, deleteScope),
    on(AddonKeysPublishedSchema, {
      async prepare({ serviceId }) {
        const addon = await scopes.findService(serviceId).catch(ignoreNotFound);
        return addon && addons.fetch(addon);
      },
      async handle(tx, _event, publication) {
        if (publication) await storePublication(tx, publication);
      },
    }),
  ];
}

/** Handlers of identity's events. An account's data key is deleted with it, so that its values in backups stay sealed. */
export const identityHandlers: Handler[] = [
  on(AccountDeletedSchema, async (tx, { accountId }) => {
    await deleteProjects(tx, accountId);
    await deleteDataKey(tx, accountId);
  }),
];
