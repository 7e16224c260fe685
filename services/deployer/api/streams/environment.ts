import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  EnvironmentEvent,
  EnvironmentEventSchema,
  FollowEnvironmentRequest,
} from "../../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { type Frame, followSet } from "../../../kit/streams/follow-set.ts";
import { requireEnvironment } from "../../projects/require.ts";
import type { FollowedEnvironments } from "./followed-environments.ts";

type Event = MessageInitShape<typeof EnvironmentEventSchema>;

/** Yields what an environment shows of its services, and its changes (docs/streams.md#frame), until it is deleted. */
export async function* streamEnvironment(
  { pool, followed }: { pool: Pool; followed: FollowedEnvironments },
  request: FollowEnvironmentRequest,
  signal: AbortSignal,
): AsyncGenerator<Event> {
  const { id } = await requireEnvironment(pool, request);
  const { set, start, close } = await followed.follow(id, request.lastEventId, signal);
  try {
    yield {};
    for await (const frame of followSet(set, start, signal)) yield toEvent(frame);
  } finally {
    close();
  }
}

function toEvent(frame: Frame<EnvironmentEvent>): Event {
  if ("set" in frame) return frame.set;
  if ("unset" in frame) return { event: { case: "unset", value: { id: frame.unset } } };
  if ("begin" in frame) return { event: { case: "begin", value: { mode: frame.begin } } };
  return { id: frame.commit, event: { case: "commit", value: { revision: frame.commit } } };
}
