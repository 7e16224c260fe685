import { type DescMethod, ScalarType } from "@bufbuild/protobuf";

/** How the messages of a server-streaming method become events. */
export type Follow = {
  /** Members of the response's oneof: the one that is set names the event and is its data. */
  events: Set<string>;
  /** Whether the request takes Last-Event-ID. */
  resumes: boolean;
};

/** The request member that Last-Event-ID fills. */
export const RESUME_MEMBER = "lastEventId";

/** Returns the shape of a method's events; undefined for a unary method. Throws for one that cannot become events. */
export function followOf(rpc: DescMethod): Follow | undefined {
  if (rpc.methodKind === "unary") return undefined;
  const name = `${rpc.parent.typeName}/${rpc.name}`;
  if (rpc.methodKind !== "server_streaming")
    throw new Error(`${name} takes a stream and cannot have a route`);
  const { fields, oneofs } = rpc.output;
  const id = fields.find((field) => field.jsonName === "id" && field.scalar === ScalarType.STRING);
  const events = fields.filter((field) => field !== id);
  if (!id || events.length === 0 || events.some((field) => !field.message || field.oneof !== oneofs[0]))
    throw new Error(`${name}: ${rpc.output.name} needs a string id and one oneof of messages`);
  return {
    events: new Set(events.map((field) => field.jsonName)),
    resumes: rpc.input.fields.some((field) => field.jsonName === RESUME_MEMBER),
  };
}
