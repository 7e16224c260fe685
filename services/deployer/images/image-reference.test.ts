import { expect, test } from "vitest";
import { parseImageReference, withHostOfLogins } from "./image-reference.ts";

const digest = `sha256:${"0a".repeat(32)}`;

test.each([
  ["nginx", "docker.io", "library/nginx", undefined, undefined],
  ["nginx:1.27", "docker.io", "library/nginx", "1.27", undefined],
  ["docker.io/nginx", "docker.io", "library/nginx", undefined, undefined],
  ["index.docker.io/library/nginx", "docker.io", "library/nginx", undefined, undefined],
  ["shop/web", "docker.io", "shop/web", undefined, undefined],
  ["localhost/web", "localhost", "web", undefined, undefined],
  ["localhost:5000/web:a", "localhost:5000", "web", "a", undefined],
  ["registry.example.com/shop/web", "registry.example.com", "shop/web", undefined, undefined],
  ["Registry.Example.COM:05000/shop/web:V1", "registry.example.com:5000", "shop/web", "V1", undefined],
  ["registry.example.com:443/web", "registry.example.com", "web", undefined, undefined],
  ["REGISTRY/web", "registry", "web", undefined, undefined],
  ["[::1]:5000/web", "[::1]:5000", "web", undefined, undefined],
  [`a.b/my__app/x-y--z.w_v:1@${digest}`, "a.b", "my__app/x-y--z.w_v", "1", digest],
  [`sha256/web@${digest}`, "docker.io", "sha256/web", undefined, digest],
  [`web@${digest}`, "docker.io", "library/web", undefined, digest],
])("%s is read as registries read it", (text, registry, repository, tag, hash) => {
  expect(parseImageReference(text)).toEqual({
    registry,
    repository,
    ...(tag && { tag }),
    ...(hash && { digest: hash }),
  });
});

test.each([
  ["", "path"],
  ["web app", "spaces"],
  ["web\0", "control characters"],
  ["wéb", "ASCII"],
  ["https://images.example/web", "scheme"],
  ["Web", "lower case"],
  ["a.b/Web", "lower case"],
  ["a.b/", "path"],
  ["/web", "path"],
  ["a//b", "path"],
  ["a___b", "path"],
  ["-web", "path"],
  ["web:", "tag"],
  ["web:.1", "tag"],
  [`web:${"x".repeat(129)}`, "tag"],
  ["web@", "digest"],
  [digest, "repository"],
  ["sha256:0a", "repository"],
  ["sha512:0a", "repository"],
  ["web@sha256:abc", "digest"],
  [`web@${digest}@${digest}`, "digest"],
  ["a.b:0/web", "port"],
  ["a.b:99999/web", "port"],
  ["a.b:x/web", "host"],
  ["a..b/web", "host"],
  ["../../etc/passwd", "host"],
  ["x".repeat(513), "512"],
])("%j is no reference, and the sentence says why", (text, why) => {
  expect(parseImageReference(text)).toEqual({ problem: expect.stringContaining(why) });
});

test.each([
  ["GHCR.io:443/shop/web:V1", "ghcr.io/shop/web:V1"],
  [`registry-1.docker.io/shop/web@${digest}`, `docker.io/shop/web@${digest}`],
  ["r.test:5000/web", "r.test:5000/web"],
  ["shop/web:1", "shop/web:1"],
  ["web:1", "web:1"],
  // Without its capitals or port, the host would be a path of Docker Hub.
  ["REGISTRY/web", "REGISTRY/web"],
  ["registry:443/web", "registry:443/web"],
])("nodes pull %s as %s", (text, pulled) => {
  expect(withHostOfLogins(text)).toBe(pulled);
});
