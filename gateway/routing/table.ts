import type { DescMethod } from "@bufbuild/protobuf";

/** A list of a response that is also available as a table: its member, and those of its messages, which are columns. */
export type Table = { member: string; columns: string[] };

/** Returns the table that a method's response has; undefined without one. Throws when it names no list of messages. */
export function tableOf(rpc: DescMethod, member: string): Table | undefined {
  if (member === "") return undefined;
  const list = rpc.output.fields.find((field) => field.name === member);
  if (list?.fieldKind !== "list" || !list.message)
    throw new Error(`${rpc.parent.typeName}/${rpc.name}: ${member} is no list of messages`);
  return { member: list.jsonName, columns: list.message.fields.map(({ jsonName }) => jsonName) };
}
