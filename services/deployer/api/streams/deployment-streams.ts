import type { ServiceImpl } from "@connectrpc/connect";
import type { DeploymentService } from "../../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { streamBuildLog } from "./build-log.ts";
import { streamRuntimeLog } from "./runtime-log.ts";
import { streamStates } from "./states.ts";
import type { StreamDeps } from "./stream-deps.ts";

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
