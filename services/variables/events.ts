import {
  AddonKeysPublishedSchema,
  EnvironmentCreatedSchema,
  EnvironmentDeletedSchema,
  ProjectCreatedSchema,
  ProjectDeletedSchema,
  ServiceCreatedSchema,
  ServiceDeletedSchema,
} from "../../proto/gen/berth/deployer/v1/events_pb.ts";
import { type Handler, on } from "../kit/events/consumer.ts";
import { type Addons, storePublished } from "./addons/addon-keys.ts";
import { type Scopes, unlessNotFound } from "./scopes/scopes.ts";
import { forget, learn } from "./scopes/tree.ts";

/** What variables does with the deployer's events: the scope tree follows them, in whatever order they come. */
export function deployerHandlers({ scopes, addons }: { scopes: Scopes; addons: Addons }): Handler[] {
  return [
    on(ProjectCreatedSchema, learn),
    on(EnvironmentCreatedSchema, learn),
    on(ServiceCreatedSchema, (tx, { accountId, projectId, environmentId, serviceId: id, name, type }) =>
      learn(tx, { accountId, projectId, environmentId, service: { id, name, type } }),
    ),
    on(ProjectDeletedSchema, (tx, { accountId, projectId }) =>
      forget(tx, { accountId, projectId, id: projectId, kind: "project", parentId: null }),
    ),
    on(EnvironmentDeletedSchema, (tx, { accountId, projectId, environmentId }) =>
      forget(tx, { accountId, projectId, id: environmentId, kind: "environment", parentId: projectId }),
    ),
    on(ServiceDeletedSchema, (tx, { accountId, projectId, environmentId, serviceId }) =>
      forget(tx, { accountId, projectId, id: serviceId, kind: "service", parentId: environmentId }),
    ),
    on(AddonKeysPublishedSchema, {
      async prepare({ serviceId }) {
        const addon = await scopes.ofService(serviceId).catch(unlessNotFound);
        return addon && addons.fetch(addon);
      },
      async handle(tx, _event, published) {
        if (published) await storePublished(tx, published);
      },
    }),
  ];
}
