import { expect, test } from "vitest";
import { nonRootUser } from "./image-user.ts";

const users = "root:x:0:0:root:/root:/bin/sh\nnode:x:1001:1002::/home/node:/bin/sh\n";

test.each([
  ["", "1000:1000"],
  ["root", "1000:1000"],
  ["0:0", "1000:1000"],
  ["65532", "65532"],
  ["101:101", "101:101"],
  ["node", "1001:1002"],
  ["node:7", "1001:7"],
  ["stranger", "1000:1000"],
])("an image of user %j runs as %s", (user, wanted) => {
  expect(nonRootUser(user, users)).toBe(wanted);
});
