import { create } from "@bufbuild/protobuf";
import { EmptySchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { createAnnounce } from "./announce.ts";

test("a service is renamed only once variables is of a version that does not take it for deleted", async () => {
  const older = createAnnounce({
    announceDeletion: async () => create(EmptySchema),
    announceRename: () => Promise.reject(new ConnectError("unknown", Code.Unimplemented)),
  });
  (await older("svc_1")).requireValid();
  expect(await refused(older("svc_1", "rename"))).toBe("503 unavailable");
  const asked: string[] = [];
  const newer = createAnnounce({
    announceDeletion: () => Promise.reject(new ConnectError("unknown", Code.Unimplemented)),
    async announceRename({ serviceId }) {
      asked.push(serviceId ?? "");
      return create(EmptySchema);
    },
  });
  (await newer("svc_1", "rename")).requireValid();
  (await newer("svc_1")).requireValid();
  expect(asked).toEqual(["svc_1"]);
});
