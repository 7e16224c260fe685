import type { MethodRules } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import type { Route } from "../../routing/routes.ts";
import { frameOf } from "../../streams/sse-format.ts";
import type { Schema, schemaCollector } from "./schemas.ts";

type Schemas = ReturnType<typeof schemaCollector>;

/** What all streams have in common, for the head of the document. */
export const eventsSentence =
  "Where an answer can be `text/event-stream`, ask for it in `Accept`: server-sent events, a comment every 15 " +
  "seconds, and at most 5 streams of a token at a time. After a break go on with the last `id:` in " +
  "`Last-Event-ID`. A stream whose caller may not read any more ends with the event `problem`, whose data is an " +
  "`ErrorEnvelopeDto`.";

/** The content of a stream: each event by its name, with the schema of its data. */
export function eventContent(route: Route, rule: MethodRules, schemas: Schemas): Schema {
  const { events } = route.follow!;
  const fields = route.rpc.output.fields.filter((field) => events.has(field.jsonName));
  return {
    "text/event-stream": {
      schema: {
        type: "string",
        description: `Events: ${fields.map((field) => `\`${field.jsonName}\``).join(", ")}.`,
      },
      example: frameOf(route.follow!, Buffer.from(rule.responseExample)),
      "x-events": Object.fromEntries(fields.map((field) => [field.jsonName, schemas.fieldSchema(field)])),
    },
  };
}

/** An operation that answers JSON, with the stream that shares its path. */
export function withEvents(json: Schema, events: Schema): Schema {
  const parameters = json.parameters as Schema[];
  const known = new Set(parameters.map(({ name }) => name).filter(Boolean));
  const more = (events.parameters as Schema[]).filter(({ name }) => !known.has(name));
  const [before, added] = [
    json.responses as Record<string, Schema>,
    events.responses as Record<string, Schema>,
  ];
  const ok = {
    ...before[200]!,
    content: { ...(before[200]!.content as Schema), ...(added[200]!.content as Schema) },
  };
  const said = (events.description as string).split("\n\nRole:")[0]!;
  return {
    ...json,
    description: (json.description as string).replace(
      "\n\nRole:",
      `\n\nAs \`text/event-stream\`: ${said}\n\nRole:`,
    ),
    parameters: [...parameters, ...more],
    responses: { ...added, ...before, 200: ok },
  };
}

/** The header parameter of a stream that resumes. */
export const lastEventId: Schema = {
  name: "Last-Event-ID",
  in: "header",
  description: "Of streams: the `id:` of the last event that arrived; those after it come.",
  schema: { type: "string", maxLength: 128 },
};
