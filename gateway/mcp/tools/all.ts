import type { Docs } from "../texts/docs.ts";
import { accountTools } from "./account.ts";
import { catalogTools, newPlaces } from "./catalog.ts";
import { deleteTools } from "./delete.ts";
import { deploymentTools, deployTools } from "./deployments.ts";
import { docsTool } from "./docs.ts";
import { logTools } from "./logs.ts";
import type { Tool } from "./tool.ts";
import { variableTools, variableWrites } from "./variables.ts";

/** Returns all tools, in the order in which they are listed: reads first. */
export function allTools(docs: Docs): Tool[] {
  return [
    ...[...catalogTools, ...deploymentTools, ...logTools, ...variableTools, ...accountTools, docsTool(docs)],
    ...[...newPlaces, ...variableWrites, ...deployTools, ...deleteTools],
  ];
}
