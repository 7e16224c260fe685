import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  DeploymentEventSchema,
  FollowDeploymentRequest,
} from "../../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { parseEventId } from "../../../kit/rpc/event-id.ts";
import { requireDeployment } from "../../deployments/require-deployment.ts";
import { observeOutcome } from "./observe-outcome.ts";
import { listStates } from "./sql.ts";
import type { StreamDeps } from "./stream-deps.ts";

/** Yields a deployment at each change of its state or progress, then its outcome. */
export async function* streamStates(
  { pool, changes }: StreamDeps,
  request: FollowDeploymentRequest,
  signal: AbortSignal,
): AsyncGenerator<MessageInitShape<typeof DeploymentEventSchema>> {
  const { id, serviceId } = await requireDeployment(pool, request);
  let [at] = parseEventId(request.lastEventId, /^(\d{1,9})$/);
  yield {};
  for await (const { outcome } of observeOutcome(pool, changes, serviceId, id, signal)) {
    for (const { seq, moved, deployment } of await listStates(pool, id, at ?? 0)) {
      at = seq;
      yield { id: String(seq), event: { case: moved ? "state" : "progress", value: deployment } };
    }
    if (at === undefined) {
      // Deployments older than the recording of states have none: only the current state is sent.
      at = 0;
      yield { id: "0", event: { case: "state", value: await requireDeployment(pool, request) } };
    }
    if (outcome) {
      yield { event: { case: "end", value: { outcome } } };
      return;
    }
  }
}
