import { afterAll, beforeAll, expect, test } from "vitest";
import { type OauthPlatform, oauthPlatform } from "../../../support/oauth/platform.ts";

const ELSEWHERE = "https://api.berth-tests.dev/v1";

let it: OauthPlatform;
beforeAll(async () => {
  it = await oauthPlatform({ resource: ELSEWHERE });
});
afterAll(() => it?.stop());

test("the consent page says where access can be used, when that is not the API of this origin", async () => {
  const user = await it.member("reader");
  const begun = await it.begin(await it.register(), { params: { resource: `${ELSEWHERE}/` } });
  const challenge = await it.signIn(begun, user);
  const page = await fetch(`${it.origin}/oauth/consent?consent_challenge=${challenge}`, {
    headers: { cookie: `berth_session=${user.token}` },
  });
  expect(await page.text()).toContain(`Used with</dt><dd><bdi>${ELSEWHERE}/</bdi>`);
});
