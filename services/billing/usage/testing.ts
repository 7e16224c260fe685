import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ListComputeUsageLinesRequestSchema } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import {
  UsageHeartbeatSchema,
  UsageResizedSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { ServiceDescriptionSchema } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { STREAM } from "../../kit/events/bus.ts";
import { newId } from "../../kit/ids.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling } from "../testing.ts";
import { putComputePeriod } from "./closing/compute-periods.ts";

const SCHEMAS = {
  started: UsageStartedSchema,
  resized: UsageResizedSchema,
  stopped: UsageStoppedSchema,
  heartbeat: UsageHeartbeatSchema,
};

type RunningService = {
  accountId: string;
  projectId: string;
  environmentId: string;
  serviceId: string;
  serviceType: string;
};

export type TestUsage = Awaited<ReturnType<typeof startUsage>>;

/** Two replicas of billing, whose clock stands still until a test sets it. Times are in seconds. */
export async function startUsage() {
  const clock = { now: Date.UTC(2027, 2, 10) / 1_000 };
  const billing = await startBilling({}, () => clock.now * 1_000);
  const other = await billing.startOne();

  /** Waits until billing has handled what was published. */
  const settled = () =>
    eventually("billing has handled all events", async () => {
      const { num_pending, num_ack_pending } = await billing.manager.consumers.info(
        STREAM,
        "billing-deployer",
      );
      return num_pending === 0 && num_ack_pending === 0;
    });

  return {
    ...billing,
    clock,
    settled,
    usage: (accountId: string) => billing.as(accountId).getComputeUsage({ accountId }),
    lines: (accountId: string, query: MessageInitShape<typeof ListComputeUsageLinesRequestSchema> = {}) =>
      billing.as(accountId).listComputeUsageLines({ ...query, accountId }),
    /** Sets the clock, and waits until the replicas have done what is due by it. */
    async advance(to: number): Promise<void> {
      clock.now = to;
      const due = `select count(*)::int as due from usage_accounts
        where freeze_at <= to_timestamp($1) or alert_at <= to_timestamp($1)`;
      await eventually("nothing is due", async () => (await billing.pool.query(due, [to])).rows[0].due === 0);
    },
    /** Begins a period of an account's compute item, as its webhook does. */
    computePeriod: (accountId: string, start: number, end: number, tier = "pro") =>
      transaction(billing.pool, (tx) => putComputePeriod(tx, accountId, { start, end, tier })),
    /** A service that the deployer describes. */
    service(
      accountId: string,
      type = "web",
      names: { service?: string; project?: string } = {},
    ): RunningService {
      const [serviceId, projectId] = [newId("svc"), newId("prj")];
      const { service: serviceName = "api", project: projectName = "shop" } = names;
      const described = create(ServiceDescriptionSchema, { accountId, projectId, serviceName, projectName });
      billing.neighbours.services.set(serviceId, described);
      return { accountId, projectId, environmentId: "env_1", serviceId, serviceType: type };
    },
    /** An interval of a service, of which a test publishes events; `seq` counts them unless it is given. */
    interval(service: RunningService, first: { size?: string; replicas?: number } = {}) {
      const intervalId = newId("uin");
      const amount = { size: "nano", replicas: 1, ...first };
      let next = 0;
      const report = (kind: keyof typeof SCHEMAS, at: number, more: { seq?: number } & typeof first = {}) => {
        const { seq = next++, ...changed } = more;
        Object.assign(amount, changed);
        const event = { ...service, ...amount, intervalId, seq, at: timestampFromMs(Math.round(at * 1_000)) };
        return billing.publish("deployer", SCHEMAS[kind], service.accountId, event);
      };
      return { intervalId, report };
    },
    stop: async () => {
      await other.stop();
      await billing.stop();
    },
  };
}
