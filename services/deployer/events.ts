import { VariablesChangedSchema } from "../../proto/gen/berth/variables/v1/events_pb.ts";
import { type Handler, on } from "../kit/events/handler.ts";
import { isScope, markDirty } from "./releases/dirty-sql.ts";

/** Handlers of the variables service's events. */
export function variableHandlers(): Handler[] {
  return [
    on(VariablesChangedSchema, async (tx, { scope, scopeId }) => {
      if (isScope(scope)) await markDirty(tx, scope, scopeId);
    }),
  ];
}
