import type { ServiceImpl } from "@connectrpc/connect";
import type { DeploymentService } from "../../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import type { ChangeFeed } from "../../../kit/postgres/change-feed.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import type { Cursors } from "../../../kit/postgres/paging.ts";
import type { Runtime } from "../../runtime/port.ts";
import { streamBuildLog } from "./build-log.ts";
import { streamRuntimeLog } from "./runtime-log.ts";
import { streamStates } from "./states.ts";

export type StreamDeps = {
  pool: Pool;
  cursors: Cursors;
  changes: Pick<ChangeFeed, "signal">;
  runtime: Pick<Runtime, "logs" | "followLogs">;
};

type Streams = Pick<
  ServiceImpl<typeof DeploymentService>,
  "followBuildLogs" | "followLogs" | "followDeployment"
>;

/**
 * Streams of build logs, runtime logs and a deployment's states. Each begins with an empty message once the request
 * is valid, and resumes after `lastEventId`. The database is the truth: followers read it again when its triggers
 * notify them of a change by any process.
 */
export function deploymentStreams(deps: StreamDeps): Streams {
  return {
    followBuildLogs: (request, { signal }) => streamBuildLog(deps, request, signal),
    followLogs: (request, { signal }) => streamRuntimeLog(deps, request, signal),
    followDeployment: (request, { signal }) => streamStates(deps, request, signal),
  };
}
