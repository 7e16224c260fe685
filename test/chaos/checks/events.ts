import { fromBinary } from "@bufbuild/protobuf";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import {
  DeploymentAppliedSchema,
  DeploymentFailedSchema,
  DeploymentSupersededSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { Check } from "./checking.ts";

const SERVICES = ["identity", "variables", "deployer", "notifications", "billing"];

export const outboxesDrained: Check = {
  name: "outboxes drained",
  find: ({ rows, until }) =>
    until(async () => {
      const left: string[] = [];
      for (const schema of SERVICES) {
        const [found] = await rows<{ n: string }>(`select count(*) as n from ${schema}.outbox`);
        if (found!.n !== "0") left.push(`${found!.n} events wait in ${schema}`);
      }
      return left;
    }),
};

const ENDINGS = [DeploymentAppliedSchema, DeploymentFailedSchema, DeploymentSupersededSchema];

/** Of the events of the last hour, which the deployer keeps. */
export const deploymentsEndOnce: Check = {
  name: "a deployment ends once",
  async find({ rows }) {
    const sent = await rows<{ subject: string; payload: Buffer }>(
      "select subject, payload from deployer.outbox_sent order by seq",
    );
    const endings = sent.flatMap(({ subject, payload }) => {
      const schema = ENDINGS.find(({ name }) => name === subject.split(".")[3]);
      return schema ? [{ name: schema.name, id: fromBinary(schema, payload).deploymentId }] : [];
    });
    return [...Map.groupBy(endings, ({ id }) => id)]
      .filter(([, all]) => all.length > 1)
      .map(([id, all]) => `${id} ended ${all.length} times: ${all.map(({ name }) => name).join(", ")}`);
  },
};

export const noDeadLetters: Check = {
  name: "dead letters",
  async find({ platform }) {
    const { host, username, password } = new URL(platform.natsUrl);
    const nats = await connect({ servers: host, user: username, pass: password });
    try {
      const manager = await jetstreamManager(nats);
      const { state } = await manager.streams.info("BERTH_DEAD", { subjects_filter: ">" });
      return Object.keys(state.subjects ?? {});
    } finally {
      await nats.close();
    }
  },
};
