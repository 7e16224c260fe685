import type { Route } from "../../routing/routes.ts";
import { formatEvent } from "../../streams/sse-format.ts";
import type { Schema, Schemas } from "./schemas.ts";

/** What all streams have in common, for the description of the API. */
export const eventsSentence =
  "Some operations can respond with `text/event-stream` (server-sent events). To get a stream, request this type " +
  "in the `Accept` header. A stream sends a comment every 15 seconds. A token can have at most 5 open streams. To " +
  "resume after an interruption, send the last `id:` in the `Last-Event-ID` header. If the caller loses access, " +
  "the stream ends with the event `problem`, whose data is an `ErrorEnvelopeDto`.";

/** The header parameter of a stream that resumes. */
export const lastEventId: Schema = {
  name: "Last-Event-ID",
  in: "header",
  description: "The `id:` of the last event that the client received. The stream resumes after this event.",
  schema: { type: "string", maxLength: 128 },
};

/** Returns the content of a stream: each event by its name, with the schema of its data. */
export function eventContent(route: Route, example: object | undefined, schemas: Schemas): Schema {
  const follow = route.follow!;
  const fields = route.rpc.output.fields.filter((field) => follow.events.has(field.jsonName));
  const names = fields.map((field) => `\`${field.jsonName}\``);
  return {
    "text/event-stream": {
      schema: { type: "string", description: `Events: ${names.join(", ")}.` },
      example: formatEvent(follow, Buffer.from(JSON.stringify(example))),
      "x-events": Object.fromEntries(fields.map((field) => [field.jsonName, schemas.fieldSchema(field)])),
    },
  };
}

type Operation = Schema & {
  description: string;
  parameters: Schema[];
  responses: Record<string, Schema & { content?: Schema }>;
};

/** Returns an operation that answers JSON, together with the stream that shares its path. */
export function withEvents(json: Schema, stream: Schema): Schema {
  const [base, events] = [json as Operation, stream as Operation];
  const known = new Set(base.parameters.map(({ name }) => name).filter(Boolean));
  const [ofStream] = events.description.split("\n\nRole:");
  return {
    ...base,
    description: base.description.replace("\n\nRole:", `\n\nAs \`text/event-stream\`: ${ofStream}\n\nRole:`),
    parameters: [...base.parameters, ...events.parameters.filter(({ name }) => !known.has(name))],
    responses: {
      ...events.responses,
      ...base.responses,
      200: {
        ...base.responses[200],
        content: { ...base.responses[200]?.content, ...events.responses[200]?.content },
      },
    },
  };
}
