import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  FollowResolvedVariablesRequest,
  ResolvedVariableEvent,
  ResolvedVariableEventSchema,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { type Frame, followSet } from "../../kit/streams/follow-set.ts";
import type { FollowedSets } from "../follow/followed-sets.ts";
import type { Scope } from "../scopes/scope.ts";

type Event = MessageInitShape<typeof ResolvedVariableEventSchema>;

/** Yields the resolved set of a service and its changes (docs/streams.md#frame), until the service is deleted. */
export async function* streamResolved(
  followed: FollowedSets,
  scope: Scope,
  { lastEventId }: FollowResolvedVariablesRequest,
  signal: AbortSignal,
): AsyncGenerator<Event> {
  const { set, start, close } = await followed.follow(scope, lastEventId, signal);
  try {
    const frames = followSet(set, start, signal);
    // Before the stream opens: what cannot be decrypted is refused.
    const { value } = await frames.next();
    yield {};
    yield toEvent(value);
    for await (const frame of frames) yield toEvent(frame);
  } finally {
    close();
  }
}

function toEvent(frame: Frame<ResolvedVariableEvent>): Event {
  if ("set" in frame) return frame.set;
  if ("unset" in frame) return { event: { case: "unset", value: { name: frame.unset } } };
  if ("begin" in frame) return { event: { case: "begin", value: { mode: frame.begin } } };
  return { id: frame.commit, event: { case: "commit", value: { revision: frame.commit } } };
}
