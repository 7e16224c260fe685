import type { Effect } from "../clients/record.ts";
import type { Check, Checking } from "./checking.ts";

type Audit = { action: string; target: string; requestId: string };

export const auditOnce: Check = {
  name: "audit records exactly once",
  find: (checking) => checking.until(() => look(checking)),
};

async function look({ shared, record, listAll }: Checking): Promise<string[]> {
  const audits = await listAll<Audit>(`${shared.account}/audit-events`);
  const byRequest = Map.groupBy(audits, ({ requestId }) => requestId);
  const byTarget = Map.groupBy(audits, ({ action, target }) => `${action} ${target}`);
  const times = (id: string) => byRequest.get(id)?.length ?? 0;
  const effectOf = ({ action, id, ids, name }: Effect) => {
    const own = ids.flatMap((one) => byRequest.get(one) ?? []).filter((one) => one.action === action).length;
    // The target of a variable is its name.
    const onTarget = action === "variable.create" ? 1 : (byTarget.get(`${action} ${id}`)?.length ?? 0);
    const once = own === 1 && onTarget === 1;
    return once ? [] : [`${name} (${id}): ${own} records of its requests, ${onTarget} of it`];
  };
  return [
    ...record.acknowledged
      .filter((id) => times(id) !== 1)
      .map((id) => `${id} was done, recorded ${times(id)} times`),
    ...record.repeated
      .map((ids) => ({ ids, count: ids.reduce((sum, id) => sum + times(id), 0) }))
      .filter(({ count }) => count !== 1)
      .map(({ ids, count }) => `${ids.join(", ")} did one thing, recorded ${count} times`),
    ...record.unknown.filter((id) => times(id) > 1).map((id) => `${id} is recorded ${times(id)} times`),
    ...record.refused.filter((id) => times(id) > 0).map((id) => `${id} was refused, yet recorded`),
    ...record.effects.filter(({ audited }) => audited).flatMap(effectOf),
  ];
}
