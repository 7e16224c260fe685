import { expect, test } from "vitest";
import { CatalogService } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import type { CachedCaller } from "../auth/caller-cache.ts";
import type { ToolCall } from "../requests/tool-call.ts";
import { createApi, MAX_AT_ONCE } from "./api.ts";
import { deleteTools } from "./tools/delete.ts";
import type { TwoStep } from "./tools/tool.ts";

const id = (prefix: string, letter: string) => `${prefix}_${letter.repeat(20)}`;

test("what a deletion takes along is read a few environments at once, and all of it is shown", async () => {
  const environments = Array.from({ length: 40 }, (_, n) => ({ id: `env_${n}`, name: `e${n}` }));
  let [now, most] = [0, 0];
  async function callApi({ rpc, members }: ToolCall) {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now--;
    const data =
      rpc === CatalogService.method.listEnvironments
        ? environments
        : [{ id: `svc_${members.environmentId}`, name: "web", type: "web", status: "running" }];
    return { status: 200, body: Buffer.from(JSON.stringify({ data, page: { hasMore: false } })) };
  }
  const caller = { roles: new Map([[id("acc", "a"), "owner"]]) } as unknown as CachedCaller;
  const api = createApi({
    callApi: callApi as never,
    by: {} as never,
    caller,
    narrowing: { readOnly: false },
  });
  const remove = deleteTools[0] as TwoStep<{ path: string }>;
  const { state } = await remove.preview({ path: id("prj", "p") }, api);
  expect(Object.keys(state)).toHaveLength(40);
  expect(state["environment e39"]).toEqual(["svc_env_39"]);
  expect(most).toBe(MAX_AT_ONCE);
});

test("a name that is not among the thousand newest is not said to be nowhere: its id is asked for", async () => {
  async function callApi({ members }: ToolCall) {
    const from = Number(members.cursor ?? 0);
    const data = Array.from({ length: 100 }, (_, n) => ({ id: `prj_${from + n}`, name: `p${from + n}` }));
    const page = { hasMore: true, nextCursor: String(from + 100) };
    return { status: 200, body: Buffer.from(JSON.stringify({ data, page })) };
  }
  const caller = { roles: new Map([[id("acc", "a"), "owner"]]) } as unknown as CachedCaller;
  const narrowing = { readOnly: false };
  const api = createApi({ callApi: callApi as never, by: {} as never, caller, narrowing });
  expect(await api.at.project("p999")).toMatchObject({ projectId: "prj_999" });
  await expect(api.at.project("p1000")).rejects.toThrow(
    'There is no project "p1000" among the newest 1000. Give the id of an older one instead of its name.',
  );
});
