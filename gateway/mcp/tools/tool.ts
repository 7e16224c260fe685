import type { DescMethod } from "@bufbuild/protobuf";
import type { Api } from "../api.ts";
import { type Schema, type Shape, TEXT } from "../shape.ts";

/** What a tool answers: data, and what its model would usually do next. */
export type Answer = { data: object; next?: string | undefined };

/** What a write would do, and the state from which that was computed. */
export type Preview = {
  /** The question for the client's user: one sentence. */
  question: string;
  shown: Record<string, unknown>;
  /** What the confirmation is bound to, by the names under which a change is reported. */
  state: Record<string, unknown>;
};

type Common = {
  name: string;
  title: string;
  description: string;
  input: Schema;
  output: Shape;
  /** reads, adds something new, changes what runs, or destroys. */
  does: "reads" | "adds" | "changes" | "destroys";
  /** Whether a second call with the same arguments has no further effect. */
  idempotent?: boolean;
  /** The RPCs that it needs, which decide who may use it. */
  calls: DescMethod[];
  /** Whether it is about the account, and not about one project. */
  ofAccount?: boolean;
};

/** A tool that does what it is called for. */
export type OneStep<I = never> = Common & { run: (input: I, api: Api) => Promise<Answer> };

/** A tool that first says what it would do, and does it when that is confirmed. */
export type TwoStep<I = never> = Common & {
  preview: (input: I, api: Api) => Promise<Preview>;
  /** @param once an Idempotency-Key of the confirmation's own. */
  perform: (input: I, api: Api, once: string) => Promise<Answer>;
};

export type Tool = OneStep | TwoStep;

/** Checks the types of a tool where it is written; a list holds tools of all arguments. */
export function oneStep<I>(tool: OneStep<I>): Tool {
  return tool as unknown as Tool;
}

const CONFIRMATION = { type: "string", description: "From the first call" };

/** As `oneStep`, with the argument `confirmation`. */
export function twoStep<I>(tool: TwoStep<I>): Tool {
  const { properties, ...rest } = tool.input as { properties: object };
  const input = { ...rest, properties: { ...properties, confirmation: CONFIRMATION } };
  return { ...tool, input } as unknown as Tool;
}

/** Returns the schema of a tool's arguments. */
export function argumentsSchema(properties: Record<string, Schema>, required: string[] = []): Schema {
  return { type: "object", properties, ...(required.length > 0 && { required }) };
}

export const AT_PROJECT: Schema = { type: "string", description: "Name or id" };
export const AT_ENVIRONMENT: Schema = { type: "string", description: "project/environment" };
export const AT_SERVICE: Schema = { type: "string", description: "project/environment/service" };
export const ANYWHERE: Schema = { type: "string", description: "project[/environment[/service]]" };

/** Members of what a tool of two steps answers at first. */
export const FIRST_ANSWER = {
  confirmation: TEXT,
  preview: { schema: { type: "object" }, cut: (v: unknown) => v },
};
