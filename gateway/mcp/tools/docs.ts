import { listOf, objectOf, TEXT } from "../shape.ts";
import type { Docs } from "../texts/docs.ts";
import { argumentsSchema, oneStep, type Tool } from "./tool.ts";

/** Returns the tool that searches the documentation. */
export function docsTool(docs: Docs): Tool {
  return oneStep<{ query: string }>({
    name: "search_docs",
    title: "Search the documentation",
    description: "Sections of Berth's documentation about a question.",
    does: "reads",
    calls: [],
    input: argumentsSchema({ query: { type: "string", maxLength: 300 } }, ["query"]),
    output: objectOf({ sections: listOf(objectOf({ page: TEXT, heading: TEXT, text: TEXT })) }),
    async run({ query }) {
      const sections = docs.search(query);
      const next = sections[0] && `the resource berth://docs/${sections[0].page} is the whole page`;
      return { data: { sections }, next };
    },
  });
}
