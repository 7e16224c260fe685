import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { connectBus } from "../../kit/events/bus.ts";
import { emit, startRelay } from "../../kit/events/outbox.ts";
import { createLog } from "../../kit/log.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { serve } from "../../kit/process/server.ts";
import { unavailable } from "../../kit/rpc/refusals.ts";
import { testKeys } from "../../kit/testing/testing.ts";

type Variable = { name: string; value: string; sensitive?: boolean };

/** Starts a stand-in for the variables service. Tests set its answers; its events go through a real outbox and NATS. */
export async function startVariablesService(databaseUrl: string, natsUrl: string) {
  const log = createLog("variables", "silent");
  const pool = createPool(databaseUrl);
  await migrate(pool);
  const bus = connectBus(natsUrl, "variables", log);
  const relay = startRelay({ url: databaseUrl, bus, log });
  const sets = new Map<string, { data: Variable[]; dangling: { name: string; reason: string }[] }>();
  let gate: Promise<void> = Promise.resolve();
  let asked = 0;
  let away = false;
  const server = await serve({
    host: "127.0.0.1",
    port: 0,
    grpcPort: 0,
    keys: testKeys,
    log,
    routes: (router) =>
      router.service(InternalService, {
        async resolveRelease({ serviceId }) {
          asked++;
          await gate;
          if (away) throw unavailable();
          const { data, dangling } = sets.get(serviceId) ?? { data: [], dangling: [] };
          return { data, dangling, fingerprint: JSON.stringify(data) };
        },
        async announceDeletion() {
          if (away) throw unavailable();
          return {};
        },
        async announceRename() {
          if (away) throw unavailable();
          return {};
        },
      }),
    ready: async () => true,
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    /** Returns how often a set was resolved. */
    asked: () => asked,
    /** Sets what a service resolves to. */
    set: (serviceId: string, data: Variable[], dangling: { name: string; reason: string }[] = []) =>
      void sets.set(serviceId, { data, dangling }),
    /** Holds answers back until the returned function is called. */
    hold() {
      let open = () => {};
      gate = new Promise((resolve) => {
        open = resolve;
      });
      return open;
    },
    /** With `true` every call is answered with 503. */
    setAway(value: boolean) {
      away = value;
    },
    /** Publishes VariablesChanged. */
    changed: (accountId: string, scope: string, scopeId: string) =>
      emit(pool, VariablesChangedSchema, accountId, { accountId, scope, scopeId }),
    /** Publishes an event of any service of the platform. */
    publish: <S extends DescMessage>(schema: S, accountId: string, event: MessageInitShape<S>) =>
      emit(pool, schema, accountId, event),
    stop: async () => {
      await server.stop();
      await relay.stop();
      await bus.close();
      await pool.end();
    },
  };
}
