import { expect, test } from "vitest";
import { parseImageReference } from "../../../images/image-reference.ts";
import { builtImages } from "./built-images.ts";

const digest = `@sha256:${"a".repeat(64)}`;

function isBuilt(place: { push: string; pull: string }, text: string): boolean {
  const image = parseImageReference(text);
  if ("problem" in image) throw new Error(image.problem);
  return builtImages(place)(image);
}

const bundled = { push: "berth-registry.berth:5000", pull: "localhost:30500" };
const own = { push: "10.99.0.1:5000/berth", pull: "registry.local:5000/berth" };
const plain = { push: "registry.example.com/berth", pull: "registry.example.com/berth" };
const hub = { push: "docker.io/acme", pull: "docker.io/acme" };

test.each([
  [bundled, `localhost:30500/apps${digest}`],
  [bundled, "localhost:30500/apps:bld_1"],
  [bundled, `localhost:30500/apps/acc_1${digest}`],
  [bundled, `127.0.0.1:30500/apps/acc_1:bld_1${digest}`],
  [bundled, "berth-registry.berth:5000/apps/acc_1:bld_1"],
  [bundled, `localhost:30500/apps:bld_1${digest}`],
  [bundled, `LocalHost:30500/apps${digest}`],
  [bundled, `127.0.0.1:30500/apps${digest}`],
  [bundled, `127.9.9.9:30500/apps${digest}`],
  [bundled, `[::1]:30500/apps${digest}`],
  [bundled, `[0:0:0:0:0:0:0:1]:30500/apps${digest}`],
  [bundled, `[::ffff:7f00:1]:30500/apps${digest}`],
  [bundled, "berth-registry.berth:5000/cache:svc_1"],
  [own, `registry.local:5000/berth/apps${digest}`],
  [own, `REGISTRY.local:5000/berth/apps${digest}`],
  [own, "10.99.0.1:5000/berth/cache:svc_1"],
  [plain, `registry.example.com/berth/apps${digest}`],
  [plain, `registry.example.com:443/berth/apps${digest}`],
  [plain, `registry.example.com:80/berth/apps${digest}`],
  [hub, `acme/apps${digest}`],
  [hub, `index.docker.io/acme/apps${digest}`],
  [hub, `registry-1.docker.io/acme/apps${digest}`],
])("in %j, %s is what builds push", (place, text) => {
  expect(isBuilt(place, text)).toBe(true);
});

test.each([
  [bundled, "localhost:30501/apps:1"],
  [bundled, "localhost:30501/apps/acc_1:1"],
  [bundled, "localhost:30500/cache/acc_1:1"],
  [bundled, "localhost:30500/shop/apps/acc_1:1"],
  [bundled, "localhost:30500/apps/acc_1/shop:1"],
  [plain, "registry.example.com/berth/apps/web:1"],
  [bundled, "nginx"],
  [own, "registry.local:5000/node:1"],
  [own, "registry.local:5000/berth/base:1"],
  [own, "registry.local:5000/apps:1"],
  [plain, "registry.example.com:5000/berth/apps:1"],
  [hub, "other/apps:1"],
])("in %j, %s is somebody else's", (place, text) => {
  expect(isBuilt(place, text)).toBe(false);
});

test.each([
  "registry.local:5000//berth/apps",
  "registry.local:5000/x/../berth/apps",
  "registry.local:5000/berth%2fapps",
])("%s is no reference at all", (text) => {
  expect(parseImageReference(text)).toHaveProperty("problem");
});
