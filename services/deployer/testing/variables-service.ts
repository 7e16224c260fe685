import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { connectBus } from "../../kit/events/bus.ts";
import { emit, startRelay } from "../../kit/events/outbox.ts";
import { createLog } from "../../kit/log.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { serve } from "../../kit/process/server.ts";
import { unavailable } from "../../kit/rpc/errors.ts";
import { testKeys } from "../../kit/testing/testing.ts";

type Variable = { name: string; value: string; sensitive?: boolean };

/**
 * The variables service as the deployer sees it: an outside party of this folder. Its answers are what a
 * test sets; `changed` publishes VariablesChanged through a real outbox and NATS.
 */
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
      }),
    ready: async () => true,
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    /** How often a set was asked for. */
    asked: () => asked,
    /** What a service's variables are from now on. */
    set: (serviceId: string, data: Variable[], dangling: { name: string; reason: string }[] = []) =>
      void sets.set(serviceId, { data, dangling }),
    /** Answers nothing until the given function is called. */
    hold() {
      let open = () => {};
      gate = new Promise((resolve) => {
        open = resolve;
      });
      return open;
    },
    /** Whether it answers 503 from now on. */
    setAway(value: boolean) {
      away = value;
    },
    changed: (accountId: string, scope: string, scopeId: string) =>
      emit(pool, VariablesChangedSchema, accountId, { accountId, scope, scopeId }),
    /** Publishes an event as another service of the platform does. */
    tell: <S extends DescMessage>(schema: S, accountId: string, event: MessageInitShape<S>) =>
      emit(pool, schema, accountId, event),
    stop: async () => {
      await server.stop();
      await relay.stop();
      await bus.close();
      await pool.end();
    },
  };
}
